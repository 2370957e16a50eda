"""Simulated years of nights, and rules that others watch such years with."""
