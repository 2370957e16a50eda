"""Times the parts of training steps inside a program of PyTorch, Keras or JAX, without a change of
its script.

It runs in the user's Python, from 3.8 on, with the standard library alone. Clocks are the host's:
on GPUs a part of PyTorch is the time to launch it, and `sync` is where the host waits for them.
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
from collections.abc import Callable
from typing import Any

FOLDER_VARIABLE = "SCALEMARK_PARTS_DIR"
PARTS = ("input", "launch", "forward", "backward", "optimizer", "collective", "sync", "other")
MOST_STEPS = 50_000  # that are written
COUNTED_AT = 3  # the step whose operations are counted
CALL_S = 100e-6  # of CPU time, to launch the smallest graph of TensorFlow
VARIABLE_S = 400e-6  # likewise at least, for each variable that Keras trains eagerly


class PartTimer:
    """Charges the time of the main thread to its innermost part, and writes a line for each step of
    the first optimizer of PyTorch, or for each call of the function that takes most of the time.
    """

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.inside: list[str] = []
        self.last_gradient_s: float | None = None  # when this backward computed it, of DDP
        self._ahead_s: float | None = None  # of computing that the host need not wait for, of JAX
        self._waited_for_batches_s = 0.0  # in graphs of TensorFlow
        self._called: dict[str, list[float]] = {}  # function -> times of its calls
        self._steps_of: Any = None
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
        lasted_s, share = now_s - self._since_s, 1.0
        if part == "sync":
            self._ahead_s = 0.0
        elif part in ("other", "input") and self._ahead_s and lasted_s:
            hidden_s = min(self._ahead_s, lasted_s)
            self._ahead_s -= hidden_s
            share -= hidden_s / lasted_s
        self.seconds[part] += share * lasted_s
        self.cpu[part] += share * (cpu_s - self._since_cpu_s)
        self._since_s, self._since_cpu_s = now_s, cpu_s

    def begin_optimizer(self, *_: Any) -> None:
        self.charge()
        self.inside = ["optimizer"]  # what raised an error is left, too

    def end_optimizer(self, optimizer: Any, *_: Any) -> None:
        self.charge()
        self.inside = []
        if self._steps_of is None:
            self._steps_of = optimizer
        if optimizer is self._steps_of:
            distributed = importlib.import_module("torch.distributed")
            rank = int(os.environ.get("RANK", "0"))
            if distributed.is_available() and distributed.is_initialized():
                rank = distributed.get_rank()
            self._end_step(optimizer.param_groups[0]["params"][0].device.type, rank)

    def _end_step(self, device: str, rank: int) -> None:
        if self._num == MOST_STEPS:
            return
        self._num += 1
        step = {
            "rank": rank,
            "device": device,
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

    def move(self, part: str, seconds: float, cpu_s: float = 0.0) -> None:
        """Charge to another part what was charged to the forward pass."""
        self.seconds["forward"] -= seconds
        self.seconds[part] += seconds
        self.cpu["forward"] -= cpu_s
        self.cpu[part] += cpu_s

    def note_wait(self, waited_s: list[Any]) -> None:
        """Charge what graphs waited for batches since it was noted last, by their variable."""
        for variable in waited_s:
            until_s = float(variable.numpy())
            self.move("input", until_s - self._waited_for_batches_s)
            self._waited_for_batches_s = until_s

    def wait_for(self, wait: Any, result: Any) -> None:
        """Wait for devices, beside which the program goes on by itself until it waits, too."""
        begin_s = self._since_s
        wait(result)
        self.charge()
        if self._ahead_s is not None:  # what never waits may wait in an unknown way
            self._ahead_s += self._since_s - begin_s

    def run(
        self,
        name: str,
        call: Callable[[], Any],
        finish: Callable[[Any], None],
        place: Callable[[], tuple[str, int]],
        most_launch_s: float = CALL_S,
    ) -> Any:
        """Call a function that computes, whose calls are steps if it takes most of the time.

        `place` is the kind of device, and the rank. Launching takes CPU time of the main thread.
        """
        if threading.get_ident() != self.thread or self.inside:
            return call()
        self.charge()
        begin_s, cpu_s = self._since_s, self.cpu["forward"]
        result = self.timed(call, "forward")()
        launch_s = min(most_launch_s, self.cpu["forward"] - cpu_s)
        self.move("launch", launch_s, launch_s)
        self.timed(finish, "forward")(result)
        times = self._called.setdefault(name, [-2.0, 0.0])
        times[0] += 1
        if times[0] > 0:  # the first ones compile
            times[1] += self._since_s - begin_s
        if times[1] > 2 * self._called.get(self._steps_of, [0.0, 0.0])[1]:
            self._steps_of = name
        if self._steps_of == name:
            self._end_step(*place())
        return result

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
    """Finds each framework once, as the others do, and times what follows its import."""

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Any:
        time_steps = _FRAMEWORKS.pop(name, None)
        if time_steps is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def and_time(module: Any) -> None:
                execute(module)
                try:
                    time_steps(module)
                except Exception as error:  # the program has to run, whatever it has
                    print(f"[scalemark: steps of this {name} are not timed: {error!r}]")

            setattr(spec.loader, "exec_module", and_time)  # noqa: B010 - mypy lets no method be replaced
        return spec


def _time_torch(torch: Any) -> None:
    steps = STEPS
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


def _time_tensorflow(tf: Any) -> None:
    """Time outermost calls of graphs, which note themselves how long they wait for batches."""
    run = functools.partial(
        STEPS.run,
        place=lambda: ("gpu" if tf.config.list_logical_devices("GPU") else "cpu", 0),
        finish=lambda _: STEPS.note_wait(waited_s if tf.executing_eagerly() else []),
    )
    variables = importlib.import_module("tensorflow.python.ops.resource_variable_ops")
    functions = importlib.import_module("tensorflow.python.eager.polymorphic_function")
    iterators = importlib.import_module("tensorflow.python.data.ops.iterator_ops")
    distributed = importlib.import_module("tensorflow.python.distribute.input_lib")
    waited_s: list[Any] = []  # a variable

    def same(tensor: Any) -> Any:
        with tf.device(tensor.device):
            return tf.identity(tensor)

    def clocked(original: Any) -> Any:
        @functools.wraps(original)
        def get(*args: Any, **kwargs: Any) -> Any:
            if tf.executing_eagerly() or STEPS.inside[-2:] == ["input", "input"]:  # of a device
                return original(*args, **kwargs)
            with tf.init_scope(), tf.device("CPU:0"):
                if not waited_s:
                    waited_s.append(variables.ResourceVariable(0.0, dtype=tf.float64))
            with tf.device("CPU:0"):
                begin_s = tf.timestamp()
            with tf.control_dependencies([begin_s]):
                batch = original(*args, **kwargs)
            tensors = tf.nest.flatten(batch, expand_composites=True)
            with tf.device("CPU:0"), tf.control_dependencies(tensors):
                noted = waited_s[0].assign_add(tf.timestamp() - begin_s)
            with tf.control_dependencies([noted]):  # nothing computes before it
                return tf.nest.map_structure(same, batch, expand_composites=True)

        return STEPS.timed(get, "input")

    iterators.OwnedIterator.__init__ = STEPS.timed(iterators.OwnedIterator.__init__, "input")
    for iterator in (iterators.OwnedIterator, distributed.DistributedIteratorBase):
        for name in ("get_next", "get_next_as_optional", "__next__"):
            setattr(iterator, name, clocked(getattr(iterator, name)))
    function = functions.polymorphic_function.Function
    plain = function.__call__
    function.__call__ = functools.wraps(plain)(
        lambda self, *args, **kwargs: run(self.name, lambda: plain(self, *args, **kwargs))
    )
    trainer = "keras.src.backend.tensorflow.trainer"
    if trainer in sys.modules:  # TensorFlow itself imports it, unless Keras is imported first
        _time_keras(run, sys.modules[trainer])
    _FRAMEWORKS[trainer] = functools.partial(_time_keras, run)


def _time_keras(run: Any, trainer: Any) -> None:
    """Time the calls of `fit`, which launches each operation by itself where it runs eagerly."""
    plain = trainer.TensorFlowTrainer.make_train_function

    def make(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = self.train_function
        plain(self, *args, **kwargs)
        train = self.train_function
        if train is not before:
            most_s = VARIABLE_S * len(self.trainable_variables) if self.run_eagerly else CALL_S
            self.train_function = lambda data: run("fit", lambda: train(data), most_launch_s=most_s)
        return self.train_function

    trainer.TensorFlowTrainer.make_train_function = make


def _time_jax(jax: Any) -> None:
    """Time outermost calls of compiled functions, and of gradients that are not compiled."""
    array = importlib.import_module("jax._src.array").ArrayImpl
    run = functools.partial(
        STEPS.run,
        place=lambda: (jax.default_backend(), jax.process_index()),
        finish=functools.partial(STEPS.wait_for, jax.block_until_ready),
    )

    def clocked(make: Any, most_launch_s: float) -> Any:
        @functools.wraps(make)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if not args and "fun" not in kwargs:
                return functools.partial(wrapped, **kwargs)
            made = make(*args, **kwargs)
            name = getattr(made, "__qualname__", repr(made))

            @functools.wraps(made)
            def call(*args: Any, **kwargs: Any) -> Any:
                return run(name, lambda: made(*args, **kwargs), most_launch_s=most_launch_s)

            for name_of_more in set(dir(made)) - set(dir(call)):  # as `lower`
                setattr(call, name_of_more, getattr(made, name_of_more))
            return call

        return wrapped

    for name in ("jit", "pmap"):
        setattr(jax, name, clocked(getattr(jax, name), CALL_S))
    for name in ("grad", "value_and_grad"):
        setattr(jax, name, clocked(getattr(jax, name), float("inf")))
    for owner, name in (
        *((jax, name) for name in ("block_until_ready", "device_get")),
        *((array, name) for name in ("item", "tolist")),
    ):
        setattr(owner, name, STEPS.timed(getattr(owner, name), "sync"))
    wait = array.block_until_ready  # of C++
    array.block_until_ready = STEPS.timed(lambda self: wait(self), "sync")
    array._value = property(STEPS.timed(array._value.fget, "sync"))


_FRAMEWORKS = {"torch": _time_torch, "tensorflow": _time_tensorflow, "jax": _time_jax}
STEPS = PartTimer()
# a worker that is forked takes no steps
os.register_at_fork(after_in_child=lambda: setattr(STEPS, "thread", None))
