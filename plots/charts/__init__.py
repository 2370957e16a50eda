"""Charts: each file is one, named like it."""
