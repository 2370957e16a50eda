"""Starts every command: it ends quietly at Ctrl-C, and mends the streams and signals it inherits.

```
  loading()      imports: Ctrl-C ends at once, with nothing to lose
  Importing()    the same, for what a command imports later
  run(command)   Ctrl-C raises KeyboardInterrupt, which the command turns into its end; an error of
                 ours has an exit code of its own
                 afterwards Python tidies up: Ctrl-C ends at once again
```

Standard library only, and little of it: what is imported before `loading` is called can still be
interrupted with a traceback.
"""

import atexit
import gc
import io
import os
import sys
from collections.abc import Callable

TYPE_CHECKING = False  # to import that of `typing` takes a hundredth of a second
if TYPE_CHECKING:
    import signal
else:  # built in: `signal` itself takes as long, in which Ctrl-C would show a traceback
    import _signal as signal

USAGE, INTERRUPTED = 2, 130
INTERNAL_ERROR = 70
"""EX_SOFTWARE of sysexits.h. Python would end with 1, which is an answer of `judge` and `guard`."""


def loading() -> None:
    """Prepare the process; call it first.

    Where SIGCHLD is ignored no child could be waited for, and blocked signals would never arrive.
    Exits with USAGE when a file that owns a name declares too little, and for a Python that lacks
    our packages.
    """
    gc.disable()  # imports make no garbage, and looking for it takes a third of a start
    _open_missing_streams()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if not _is_ignored():
        signal.signal(signal.SIGINT, _end_at_once)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _check_packages()
    from scalemark import abilities  # here, because by now Ctrl-C ends at once

    try:
        abilities.check()
    except abilities.AbilitiesError as error:
        print(error, file=sys.stderr)
        sys.exit(USAGE)


def run(command: Callable[[], int], *, hears_ignored: bool = False) -> int:
    """Return the command's exit code, or INTERRUPTED, or INTERNAL_ERROR after a traceback.

    What an encoding of the standard streams lacks is written as an escape.

    A process that ignores SIGINT goes on ignoring it, unless it `hears_ignored`.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    listens = hears_ignored or not _is_ignored()
    gc.freeze()
    gc.enable()
    # or Python looks through everything once more before it ends: a fifth of a second
    atexit.register(gc.freeze)
    try:
        if listens:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return command()
    except KeyboardInterrupt:
        return INTERRUPTED
    # The border of the process: whatever it is, it must not look like an answer.
    except Exception:
        import traceback  # here, because it takes a hundredth of a second

        traceback.print_exc()
        print(
            "this is an error of scalemark, and no answer: please report it with the lines above",
            file=sys.stderr,
        )
        return INTERNAL_ERROR
    finally:
        if listens:
            signal.signal(signal.SIGINT, _end_at_once)


class Importing:
    """Let Ctrl-C end a command at once in here, as while loading; nothing changes elsewhere."""

    def __enter__(self) -> None:
        is_command = gc.get_freeze_count() > 0  # `run` froze what was imported before
        handler = signal.getsignal(signal.SIGINT)
        self._changes = is_command and handler is signal.default_int_handler
        if self._changes:
            signal.signal(signal.SIGINT, _end_at_once)
            gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._changes:
            gc.freeze()
            gc.enable()
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _check_packages() -> None:
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("hydra", "sqlalchemy", "typer")):
        print(
            f"{sys.executable} lacks the packages that scalemark needs; run `python3 install.py` "
            "in its folder, and start it by .venv/bin/python there",
            file=sys.stderr,
        )
        sys.exit(USAGE)


def _end_at_once(*_: object) -> None:
    """Exit without an exception, which a library that is being imported could swallow or print."""
    os._exit(INTERRUPTED)


def _is_ignored() -> bool:
    """Return whether SIGINT is ignored, as in jobs that a shell runs in the background."""
    return signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def _open_missing_streams() -> None:
    """Open closed standard streams: else a database gets their numbers, and prints go into it.

    `sys.stdout` stays None: commands whose output is all that is wanted refuse to go on without.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # the lowest free number is this one
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # print(file=None) would write to stdout
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
