"""Answers whether published conclusions hold for other results, each by a rule of its own."""
