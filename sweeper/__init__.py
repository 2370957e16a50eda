"""Expands a grid, plans it, and runs every attempt in a process of its own. Never imports
TensorFlow.
"""

from pathlib import Path

FIGURES = Path("figures")
"""The folder of charts and the report, below the current one."""


class SweepRefusedError(Exception):
    """Something the user asked for cannot be. The text says what was found, what was wanted, and
    what to do.
    """
