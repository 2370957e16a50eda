"""Starts, forks and ends a trainer process."""
