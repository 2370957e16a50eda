"""What can go wrong with a trial that its user should be told in one sentence."""


class UnsupportedTrialError(Exception):
    """This machine or this TensorFlow cannot run what the trial asks for."""


class InvalidTrialError(Exception):
    """The trial ran, but did not do what it says; its numbers must not be used."""
