"""Tells replicas of one trial apart: the slow one, clocks, throttling."""
