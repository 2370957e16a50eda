"""Results in a terminal, drawn anew while a sweep runs."""
