"""The commands of `python -m store`, a file per purpose."""
