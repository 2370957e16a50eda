"""Advises the best way for a goal, says how sure that is, and lists the cheapest trials to run
next."""
