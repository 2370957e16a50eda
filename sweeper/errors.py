"""Defines the error that refuses a sweep before anything runs."""


class SweepRefusedError(Exception):
    """Something the user asked for cannot be. The text says what was found, what was wanted, and
    what to do.
    """
