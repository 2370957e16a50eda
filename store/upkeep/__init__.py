"""Keeps a database in order: backups, compaction, rebuilding from run folders, notes of people."""
