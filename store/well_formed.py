"""Makes text of what the system gave that is no UTF-8: neither a database nor a file of JSON takes it as Python has it."""

from __future__ import annotations


def well_formed(text: str) -> str:
    r"""The same where it is UTF-8; each byte that is none is written out, as in `caf\udce9`."""
    return text.encode(errors="backslashreplace").decode()
