"""Hydra finds the source of the configs of users' own models here."""
