"""Each file brings the command of its name; the folder is the registry."""
