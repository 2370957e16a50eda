"""Trains one trial and measures it. Read `trainer/run.py` first.

Errors are reasons why a trial cannot run or go on; each message is one sentence for its user.
"""


class UnsupportedTrialError(Exception):
    """This machine or this TensorFlow cannot run what the trial asks for."""


class BadDataError(Exception):
    """The data set cannot be used; the text names the file and, if known, the record."""


class LostRankError(Exception):
    """A rank of a distributed trial, maybe this one, cannot be reached; the text names it."""


class ImportFailedError(Exception):
    """TensorFlow is installed, and its import failed; the text says how."""
