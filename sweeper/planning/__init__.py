"""Decides what a sweep will run, and shows it: plan, estimate, settings."""
