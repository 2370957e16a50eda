"""Data sources, one file each: `open_input(spec, devices) -> Input` (see `trainer/towers.py`)."""
