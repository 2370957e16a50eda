"""Times the parts of training steps inside a program of PyTorch, whose script is as it was.

It runs in the user's Python, from 3.8 on, with the standard library alone. Clocks are the host's:
on GPUs a part is the time to launch it, and `sync` is where the host waits for them.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import os
import sys
import threading
import time
from typing import Any

FOLDER_VARIABLE = "SCALEMARK_PARTS_DIR"
PARTS = ("input", "forward", "backward", "optimizer", "collective", "sync", "other")
MOST_STEPS = 50_000  # that are written
COUNTED_AT = 3  # the step whose operations are counted


class PartTimer:
    """Charges the time of the main thread to its innermost part, and writes a line for each step of
    the first optimizer.
    """

    def __init__(self, torch: Any) -> None:
        self.thread = threading.get_ident()
        self.inside: list[str] = []
        self.last_gradient_s: float | None = None  # when this backward computed it, of DDP
        self._distributed = torch.distributed
        self._optimizer: Any = None
        self._file: Any = None
        self._num = self._operations = 0
        self._since_s, self._since_cpu_s = time.monotonic(), time.thread_time()
        self._begin()

    def _begin(self) -> None:
        self.seconds, self.cpu = dict.fromkeys(PARTS, 0.0), dict.fromkeys(PARTS, 0.0)
        self._began_s, self._waited_s = self._since_s, _core_wait_s()

    def charge(self) -> None:
        now_s, cpu_s = time.monotonic(), time.thread_time()
        part = self.inside[-1] if self.inside else "other"
        self.seconds[part] += now_s - self._since_s
        self.cpu[part] += cpu_s - self._since_cpu_s
        self._since_s, self._since_cpu_s = now_s, cpu_s

    def begin_optimizer(self, *_: Any) -> None:
        self.charge()
        self.inside = ["optimizer"]  # what raised an error is left, too

    def end_optimizer(self, optimizer: Any, *_: Any) -> None:
        self.charge()
        self.inside = []
        if self._optimizer is None:
            self._optimizer = optimizer
        if optimizer is not self._optimizer or self._num == MOST_STEPS:
            return
        self._num += 1
        rank, distributed = int(os.environ.get("RANK", "0")), self._distributed
        if distributed.is_available() and distributed.is_initialized():
            rank = distributed.get_rank()
        step = {
            "rank": rank,
            "device": optimizer.param_groups[0]["params"][0].device.type,
            "operations": self._operations,
            "seconds": self.seconds,
            "cpu": self.cpu,
            "core_wait": _core_wait_s() - self._waited_s,
            "begin": self._began_s,
            "end": self._since_s,
        }
        if self._file is None:
            path = os.path.join(os.environ[FOLDER_VARIABLE], f"parts-{os.getpid()}.jsonl")  # noqa: PTH118
            self._file = open(path, "w", buffering=1)  # noqa: PTH123, SIM115
        self._file.write(json.dumps(step) + "\n")
        self._begin()

    def end_backward(self) -> None:
        """Charge what followed the last gradient: there DDP waits for the other ranks."""
        if self.last_gradient_s is not None:
            waited_s = self._since_s - self.last_gradient_s
            self.seconds["backward"] -= waited_s
            self.seconds["collective"] += waited_s
        self.last_gradient_s = None

    def count(self, tensor: Any) -> None:
        """Count the operations that gradients go back through, in one step."""
        if self._num != COUNTED_AT - 1:
            return
        seen, left = set(), [tensor.grad_fn]
        while left:
            node = left.pop()
            if node is not None and node not in seen:
                seen.add(node)
                left += [following for following, _ in node.next_functions]
        self._operations += len(seen)  # of each micro-batch

    def note_gradient(self, _: Any) -> None:
        self.last_gradient_s = time.monotonic()

    def timed(self, original: Any, part: str, is_outermost: bool = False) -> Any:
        """Return the function with clocks around it, where it is called by the main thread."""

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self.thread or (is_outermost and self.inside):
                return original(*args, **kwargs)
            self.charge()
            self.inside.append(part)
            try:
                return original(*args, **kwargs)
            finally:
                self.charge()
                self.inside.pop()

        return call


def _core_wait_s() -> float:
    """Return how long this thread could have run and had no core; 0.0 where Linux does not say."""
    try:
        with open("/proc/thread-self/schedstat") as file:  # noqa: PTH123
            return int(file.read().split()[1]) / 1e9
    except OSError:
        return 0.0


class Finder:
    """Finds torch once, as the others do, and times what follows its import."""

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def and_time(torch: Any) -> None:
                execute(torch)
                try:
                    _time(torch)
                except Exception as error:  # the program has to run, whatever torch it has
                    print(f"[scalemark: steps of this torch are not timed: {error!r}]")

            setattr(spec.loader, "exec_module", and_time)  # noqa: B010 - mypy lets no method be replaced
        return spec


def _time(torch: Any) -> None:
    """Put clocks around the parts."""
    steps = PartTimer(torch)
    optimizer = importlib.import_module("torch.optim.optimizer")
    loading = importlib.import_module("torch.utils.data.dataloader")
    ddp = importlib.import_module("torch.nn.parallel").DistributedDataParallel
    timed, module = steps.timed, torch.nn.Module
    forward, plain_forward = timed(module.__call__, "forward", is_outermost=True), module.__call__
    backward, plain_create = timed(torch.autograd.backward, "backward"), ddp.__init__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():  # compiled code sees no more than this
            return plain_forward(self, *args, **kwargs)
        return forward(self, *args, **kwargs)

    def go_back(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if hasattr(tensors, "grad_fn"):
            steps.count(tensors)
        backward(tensors, *args, **kwargs)
        steps.end_backward()

    def create(self: Any, *args: Any, **kwargs: Any) -> None:
        plain_create(self, *args, **kwargs)
        for parameter in self.module.parameters():
            if parameter.requires_grad:  # DDP exchanges them in C++, unseen by hooks
                parameter.register_hook(steps.note_gradient)

    optimizer.register_optimizer_step_pre_hook(steps.begin_optimizer)
    optimizer.register_optimizer_step_post_hook(steps.end_optimizer)
    module.__call__, torch.autograd.backward, ddp.__init__ = call, go_back, create
    for owner, name, part in (
        (loading._BaseDataLoaderIter, "__next__", "input"),  # the one place that all batches pass
        (loading.DataLoader, "__iter__", "input"),
        (importlib.import_module("torch.distributed").Work, "wait", "collective"),
        (torch.cuda, "synchronize", "sync"),
        *((torch.Tensor, name, "sync") for name in ("item", "tolist", "cpu", "numpy")),
    ):
        setattr(owner, name, timed(getattr(owner, name), part))
    # a worker that is forked takes no steps
    os.register_at_fork(after_in_child=lambda: setattr(steps, "thread", None))
