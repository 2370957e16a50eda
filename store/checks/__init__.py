"""What must be true of a database, one kind of check per file; `store.checks.every` makes them
all.
"""
