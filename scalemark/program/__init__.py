"""Placeholders of a user's command line, and expressions of axes. Standard library only."""
