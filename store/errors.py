"""The errors of a database that its user can mend."""


class StoreError(Exception):
    """The database cannot be opened, read or written. It says which, why, and what to do."""


class NoSweepError(StoreError):
    """There is no sweep of that name, or no database yet: there may be later."""


class AwayError(StoreError):
    """The server does not answer, or has hung up. What was sent last may have been done."""


class LostDatabaseError(StoreError):
    """The database was removed, replaced or damaged while it was used: waiting does not help."""


class DamagedError(LostDatabaseError):
    """The database is one of ours, and holds what no version wrote."""


class LockedError(StoreError):
    """Another program keeps the database locked: it may be free later."""
