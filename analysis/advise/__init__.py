"""Advises the fastest way, says how sure that is, and lists the cheapest trials to run
next."""
