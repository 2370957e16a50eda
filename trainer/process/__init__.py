"""How a trainer process starts, is forked, and ends."""
