"""Plans a grid, and runs each attempt in a process of its own. Never imports TensorFlow."""

from pathlib import Path

FIGURES = Path("figures")
"""The folder of charts and the report, below the current one."""


class SweepRefusedError(Exception):
    """What the user asked for cannot be: it says what was found, what was wanted, what to do."""
