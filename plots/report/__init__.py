"""The report: one HTML file of a selection."""
