"""The devices of a host: found, locked, and handed out to trials."""
