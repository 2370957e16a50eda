"""Measures what this machine can do before a sweep: `scalemark probe`."""
