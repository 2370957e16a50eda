"""What all command lines share: their start, their tables, and their progress lines."""
