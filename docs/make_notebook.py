"""Runs docs/notebook.ipynb, and writes its outputs into it and into docs/notebook.md."""

from __future__ import annotations

import argparse
import ast
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import BytesIO, StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

FOLDER = Path(__file__).resolve().parent
NOTEBOOK, PAGE, PICTURES = FOLDER / "notebook.ipynb", FOLDER / "notebook.md", "pictures/notebook"
NOTE = "[notebook.ipynb](notebook.ipynb) holds this page as a notebook, to run and to change.\n"


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return the notebook with the outputs of its cells, run in an empty folder. What they write to
    stderr, as the progress of a sweep, is left out.
    """
    cells, names = [], {"__name__": "__main__"}
    with _empty_folder(), redirect_stderr(StringIO()):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                outputs = _outputs("".join(cell["source"]), names)
                cell = cell | {"outputs": outputs, "execution_count": None}
            cells.append(cell)
    return notebook | {"cells": cells}


def as_page(notebook: dict[str, Any]) -> tuple[str, dict[str, bytes]]:
    """Return the notebook as Markdown, and its pictures by the names of their files."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            text = "".join(data.get("text/plain", output.get("text", [])))
            if "image/png" in data:
                name = f"{PICTURES}-{len(pictures) + 1}.png"
                pictures[name] = b64decode(data["image/png"])
                parts.append(f"![{text}]({name})")
            else:
                parts.append(f"```text\n{text.rstrip()}\n```")
    parts.insert(1, NOTE.rstrip())
    return "\n\n".join(parts) + "\n", pictures


@contextmanager
def _empty_folder() -> Iterator[None]:
    before = Path.cwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def _outputs(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell as Jupyter does: what it prints, and the value of its last expression."""
    *statements, last = ast.parse(source).body
    value = None
    with redirect_stdout(StringIO()) as printed:
        if isinstance(last, ast.Expr):
            exec(compile(ast.Module(statements, []), "<cell>", "exec"), names)
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
        else:
            exec(compile(source, "<cell>", "exec"), names)
    found: list[dict[str, Any]] = []
    if text := printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": _lines(text)})
    if value is not None:
        result = {"data": _shown(value), "execution_count": None, "metadata": {}}
        found.append(result | {"output_type": "execute_result"})
    return found


def _shown(value: Any) -> dict[str, Any]:
    if hasattr(value, "_repr_mimebundle_"):
        found = value._repr_mimebundle_()
    else:
        found = {"text/plain": repr(value)}
        if hasattr(value, "_repr_html_"):
            found["text/html"] = value._repr_html_()
    return {
        kind: _small(data) if kind == "image/png" else _lines(data) for kind, data in found.items()
    }


def _small(png: str) -> str:
    """Return a picture in a third of its bytes: few colors are enough for a chart."""
    written = BytesIO()
    picture = Image.open(BytesIO(b64decode(png))).convert("RGB")
    picture.quantize(64).save(written, "png", optimize=True)
    return b64encode(written.getvalue()).decode()


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    made = executed(json.loads(NOTEBOOK.read_text(encoding="utf-8")))
    NOTEBOOK.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    page, pictures = as_page(made)
    PAGE.write_text(page, encoding="utf-8")
    for name, data in pictures.items():
        (FOLDER / name).write_bytes(data)
