"""`python -m analysis`: answers from the results database. Each file of `analysis/commands/` brings a command."""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from pkgutil import iter_modules

on_interrupt = signal.getsignal(signal.SIGINT)
if __name__ == "__main__" and on_interrupt is signal.default_int_handler:
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))  # a quiet end also while the imports below take their time

import analysis.commands
from store.command_line import make_app, run

app = make_app("Answers from the results database: what scales, what differs, what holds it back, and what to do.")
app.callback()(lambda: None)  # a command is named even where there is one alone
for found in iter_modules(analysis.commands.__path__):
    app.command()(getattr(import_module(f"analysis.commands.{found.name}"), found.name))

if __name__ == "__main__":
    signal.signal(signal.SIGINT, on_interrupt)
    sys.exit(run(app, "analysis"))
