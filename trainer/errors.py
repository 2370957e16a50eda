"""Why a trial cannot run or go on, told to its user in one sentence."""


class UnsupportedTrialError(Exception):
    """This machine or this TensorFlow cannot run what the trial asks for."""


class BadDataError(Exception):
    """The data set cannot be used; found only while reading it. The text names the file, and the
    record where there is one.
    """


class LostRankError(Exception):
    """A rank of a distributed trial, another or this one, cannot be reached, or not any more. The
    text names it.
    """
