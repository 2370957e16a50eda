"""Decides which repeats are still worth running: in a race, and of a change beside its baseline."""
