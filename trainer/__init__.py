"""Trains one trial and measures it. Read `trainer/run.py` first."""
