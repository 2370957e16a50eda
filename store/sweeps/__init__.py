"""Keeps the states of sweeps and repeats, as the orchestrator of each sweep changes them."""
