"""Exports results, imports them, and defines the portable records between."""
