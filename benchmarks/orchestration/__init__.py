"""The questions of `benchmarks/orchestrator.py`, one file each, and what they share."""
