"""Analyzes how strategies scale: curves, laws, crossovers, and where more GPUs stop paying."""
