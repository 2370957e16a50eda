"""Shared by all command lines: their start, their tables, and their progress lines."""
