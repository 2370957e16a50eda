"""What can be wrong with a database that its user can mend."""


class StoreError(Exception):
    """The database cannot be opened, read or written. The text says which file, why, and what to
    do.
    """


class NoSweepError(StoreError):
    """There is no sweep of that name, or no database yet: there may be later."""


class AwayError(StoreError):
    """The server does not answer, or has hung up: it may be back later. What was sent to it last
    may have been done.
    """


class LostDatabaseError(StoreError):
    """The database was removed, replaced or damaged while it was used: nothing is gained by
    waiting.
    """


class DamagedError(LostDatabaseError):
    """The database is one of ours, and what stands in it is not what any version wrote."""


class LockedError(StoreError):
    """Another program keeps the database locked: it may be free later."""
