"""Reads results out of a database, as rows and as pandas frames."""
