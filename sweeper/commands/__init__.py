"""Each file brings the command of its name."""
