"""Records, run folders, statistics, text, and the host: shared by all rooms. No TensorFlow.

For notebooks and programs it is also the entry: `scalemark.open()` and `scalemark.sweep(...)` are
in `scalemark.api`, which is imported when one of them is used, as the commands are.
"""

# to import that of `typing` takes a hundredth of a second, in which Ctrl-C would show a traceback
TYPE_CHECKING = False
if TYPE_CHECKING:
    from scalemark.api import NothingFoundWarning as NothingFoundWarning
    from scalemark.api import Results as Results
    from scalemark.api import open as open  # noqa: A004  # only as scalemark.open
    from scalemark.api import sweep as sweep
    from store.errors import StoreError as StoreError
    from sweeper import SweepRefusedError as SweepRefusedError

_ENTRY = {
    "open": "scalemark.api",
    "sweep": "scalemark.api",
    "Results": "scalemark.api",
    "NothingFoundWarning": "scalemark.api",
    "StoreError": "store.errors",
    "SweepRefusedError": "sweeper",
}


def __getattr__(name: str) -> object:
    if name not in _ENTRY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    from scalemark.host.own_code import import_rooms

    import_rooms()
    return getattr(import_module(_ENTRY[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_ENTRY]
