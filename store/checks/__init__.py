"""Checks what must be true of a database; `store.checks.every` runs all checks."""
