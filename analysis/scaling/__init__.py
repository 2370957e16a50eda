"""Answers how strategies scale: where more GPUs stop paying, and from where another one leads."""
