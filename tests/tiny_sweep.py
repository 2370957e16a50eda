"""`python tests/tiny_sweep.py ARGUMENTS`: sweep.py, but its trials are those of tests/tiny_trainer.py, and nothing is shown in the end.

For tests of what becomes of a sweep, whatever its trials do: importing TensorFlow and drawing take most of a short sweep's time.
"""

import runpy
import sys
from pathlib import Path
from types import ModuleType

PROJECT = Path(__file__).resolve().parent.parent


class _ShowsNothing(ModuleType):
    """In the place of plots.at_end, which is slow to import."""

    @staticmethod
    def show(*_: object) -> bool:
        return True

    @staticmethod
    def command_again(name: str, *_: object) -> str:
        return f"scalemark {name}"


if __name__ == "__main__":
    sys.path[0] = str(PROJECT)
    from scalemark.records.axes import Engine
    from sweeper.starts import MODULES

    MODULES[Engine.tensorflow] = "tests.tiny_trainer"
    sys.modules["plots.at_end"] = _ShowsNothing("plots.at_end")
    sys.argv[0] = str(PROJECT / "sweep.py")
    runpy.run_path(sys.argv[0], run_name="__main__")
