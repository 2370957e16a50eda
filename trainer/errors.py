"""Why a trial cannot run, told to its user in one sentence."""


class UnsupportedTrialError(Exception):
    """This machine or this TensorFlow cannot run what the trial asks for."""
