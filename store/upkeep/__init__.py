"""Keeps a database in order: backups, rebuilding from run folders, tags and notes."""
