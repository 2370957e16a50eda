"""Statistics over steps and processes that need neither a data frame nor scipy."""
