"""Sweeps that several hosts share: the controller and its agents."""
