"""Runs the repeats of a sweep on this host: an event loop, and its parts, each with one job."""
