"""Why a sweep was refused before anything ran."""


class SweepRefusedError(Exception):
    """Something the user asked for cannot be. The text says what was found, what was wanted, and
    what to do.
    """
