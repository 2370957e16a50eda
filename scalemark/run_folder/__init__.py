"""Reads and writes run folders: the files by which engines tell how an attempt goes."""
