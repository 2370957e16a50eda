"""Judging: whether a change makes a trial faster, by as few runs as that takes."""
