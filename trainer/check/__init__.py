"""Proves a mode exact on the devices of this machine."""
