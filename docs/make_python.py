"""Writes the page about Python from docstrings of `import scalemark`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from scalemark.api import NothingFoundWarning, Results, sweep
from scalemark.api import open as open_results
from store.errors import StoreError
from sweeper import SweepRefusedError

BEGIN = """# Python

This page lists what `import scalemark` offers notebooks and programs: the numbers of the commands
as pandas frames.

```python
import scalemark

results = scalemark.open()  # results.db, or scalemark.open("night.db")
results.trials(model="vgg16", num_gpus=">=4")  # filters are those of the commands
```

The import takes no time, and loads pandas once it is used. It brings modules named `analysis`,
`plots`, `store`, `conf`, `simulator`, `sweep` and `sweeper`: files of yours need other names.
"""
ATTEMPTS = """## Every attempt and step

`scalemark.open` has whole trials, with intervals and baselines. The attempts and steps that these
are made of are views of the database:

```python
import sqlite3
import pandas

connection = sqlite3.connect("results.db")
attempts = pandas.read_sql("SELECT * FROM throughput", connection)
steps = pandas.read_sql("SELECT * FROM step_samples WHERE attempt_id = 1", connection)
```
"""


def page() -> str:
    parts = [
        BEGIN,
        *_function("scalemark.open", open_results),
        *_function("scalemark.sweep", sweep),
    ]
    parts += ["## Results", _text(Results), *_methods(Results)]
    parts += ["## Errors and warnings", *_kinds(StoreError, SweepRefusedError, NothingFoundWarning)]
    parts.append(ATTEMPTS)
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _methods(of: type) -> Iterator[str]:
    for name, found in vars(of).items():
        if not name.startswith("_") and inspect.isfunction(found):
            yield from _function(f"{of.__name__}.{name}", found, "###")


def _function(name: str, found: Callable[..., Any], level: str = "##") -> list[str]:
    """Return heading, signature and docstring."""
    signature = inspect.signature(found)
    own = [_parameter(one) for one in signature.parameters.values() if one.name != "self"]
    shown = f"{name}({', '.join(own)}) -> {signature.return_annotation}"
    return [f"{level} {name}", f"```python\n{shown}\n```", _text(found)]


def _parameter(one: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    shown = f"{stars.get(one.kind, '')}{one.name}: {one.annotation}"
    if one.default is one.empty:
        return shown
    default = str(one.default) if isinstance(one.default, str) else one.default  # not of an enum
    return f"{shown} = {default!r}"


def _kinds(*kinds: type[Exception]) -> list[str]:
    return [f"`scalemark.{kind.__name__}`: {_text(kind)}" for kind in kinds]


def _text(found: object) -> str:
    """Return a docstring as Markdown: rows of tables on a line each, examples as code."""
    text = inspect.getdoc(found) or ""
    text = re.sub(r"(?m)^(\|[^\n]*[^|\s])\n(?=[^|\n])", r"\1 ", text)
    return re.sub(r"(?ms)^(>>> .*?)(?=\n\n|\Z)", r"```pycon\n\1\n```", text)
