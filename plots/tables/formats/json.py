"""JSON for scripts: the records of `csv`, with their types."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TextIO

from plots.tables.document import Document
from plots.tables.records import records
from scalemark.cli.terminal import finite


def write(documents: Sequence[Document], out: TextIO) -> None:
    json.dump([finite(record) for record in records(documents)], out, indent=1)
    out.write("\n")
