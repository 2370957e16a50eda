"""Statistics over steps and processes, without data frames."""
