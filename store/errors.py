"""What can be wrong with a database that its user can mend."""


class StoreError(Exception):
    """The database cannot be opened, read or written. The text says which file, why, and what to do."""


class LockedError(StoreError):
    """Another program keeps the database locked: it may be free later."""
