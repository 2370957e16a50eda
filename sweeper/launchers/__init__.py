"""Starts attempts elsewhere: one file per launcher, named as launcher.name has it."""
