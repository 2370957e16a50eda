"""Hydra finds the source of the profiles of users' own hardware here."""
