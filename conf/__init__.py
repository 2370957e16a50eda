"""The Hydra config tree, its schema, and what turns a composed config into a trial."""
