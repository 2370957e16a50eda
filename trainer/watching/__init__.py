"""Observes a trial while it trains: GPUs, cores, ops, and profiles."""
