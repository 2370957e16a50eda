"""Runs repeats on this host: starts attempts, watches them, and records how they end."""
