"""Moves results: merges databases, takes in figures of others, and writes for other programs."""
