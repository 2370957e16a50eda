"""Shows a sweep while it runs: in its own terminal, or from the database in another."""
