"""Keeps the states of sweeps and repeats, for one orchestrator or for many agents."""
