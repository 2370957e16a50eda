"""What to do: the best way for a goal, how sure that is, and the cheapest trials to run next."""
