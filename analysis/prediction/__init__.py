"""Predicts trials that nobody ran."""
