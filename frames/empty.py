"""Frames of a fixed shape: the same columns and types, however many rows were found."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd


class NothingFoundWarning(UserWarning):
    """A frame is empty. The text says why; `frame.attrs["why"]` has it, too."""


def frame(rows: Sequence[Mapping[str, Any]], dtypes: Mapping[str, str]) -> pd.DataFrame:
    """Return the rows with these columns; what a row lacks is missing (NaN or NA)."""
    columns = {name: [row.get(name) for row in rows] for name in dtypes}
    return pd.DataFrame(
        {name: pd.Series(cells, dtype=dtypes[name]) for name, cells in columns.items()}
    )


def empty(dtypes: Mapping[str, str], why: str) -> pd.DataFrame:
    """Return a frame without rows, and warn why it has none."""
    found = frame([], dtypes)
    found.attrs["why"] = why
    warnings.warn(why, NothingFoundWarning, stacklevel=4)
    return found
