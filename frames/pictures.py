"""Charts in a notebook: the pictures that `plots charts` writes."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from plots.pictures.choices import PictureFormat, Theme
from plots.pictures.drawing import Resolution, draw
from plots.source import Source
from plots.whole_file import draft_of
from scalemark.text.wording import counted
from store.errors import StoreError


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """The pictures of one chart; a notebook shows them."""

    files: Mapping[str, bytes]  # PNG, by the name that the command gives the file

    def save(self, folder: str | Path = "figures") -> list[Path]:
        """Write the files into a folder, and return their paths. Raises OSError."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        paths = [Path(folder) / name for name in self.files]
        for path in paths:
            with draft_of(path) as draft:
                draft.write_bytes(self.files[path.name])
        return paths

    def __repr__(self) -> str:
        return f"{counted(len(self.files), 'picture')}: {', '.join(self.files)}"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Return what Jupyter shows: one picture as it is, several below each other."""
        encoded = {name: b64encode(data).decode() for name, data in self.files.items()}
        if len(encoded) == 1:
            return {"text/plain": repr(self), "image/png": next(iter(encoded.values()))}
        shown = [
            f'<img alt="{escape(name)}" src="data:image/png;base64,{data}">'
            for name, data in encoded.items()
        ]
        return {"text/plain": repr(self), "text/html": "\n".join(shown)}


def drawn(source: Source, kind: str, theme: Theme, width_px: int) -> Pictures:
    """Raises StoreError for an unknown kind, and where the results have nothing for it."""
    reasons: list[str] = []
    with TemporaryDirectory() as folder:
        paths = draw(
            source,
            Path(folder),
            [kind],
            [PictureFormat.PNG],
            [theme],
            lambda name, why: reasons.append(f"{name}: {why}"),
            resolution=Resolution(width_px=width_px),
        )
        files = {path.name: path.read_bytes() for path in paths}
    if not files:
        raise StoreError("; ".join(reasons))
    return Pictures(files=files)
