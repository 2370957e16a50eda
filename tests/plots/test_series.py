"""A strategy looks the same wherever it is drawn."""

from plots.report.page import render  # noqa: F401
