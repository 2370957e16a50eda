"""Counts what gradients take on their way, and tests whether a loss is communication."""
