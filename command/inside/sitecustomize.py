"""Waits for torch where a Python starts, then loads the `sitecustomize` that this one hides."""

import importlib
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - few imports
sys.meta_path.insert(0, importlib.import_module("scalemark_parts").Finder())
_ours = sys.modules.pop("sitecustomize")
# a program sees the folders that it would see without us
sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != _HERE]  # noqa: PTH100
try:
    importlib.import_module("sitecustomize")
except ImportError as error:
    if error.name != "sitecustomize":
        raise
    sys.modules["sitecustomize"] = _ours
