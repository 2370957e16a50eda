"""Compares results pair by pair, or with another side."""
