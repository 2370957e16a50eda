"""Runs a user's own program as a trial: starts it, reads its output, and watches from outside."""
