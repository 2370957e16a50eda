"""Predicts how a measured curve goes on to more GPUs."""
