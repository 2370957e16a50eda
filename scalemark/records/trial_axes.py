"""The axes of trials: each is defined here once, as a field. See `scalemark.records.axes`."""

from __future__ import annotations

from typing import Any

from scalemark.records.axes import ENGINES, OWN_MODELS, AxisValue, Engine, axis, record_of_axes
from scalemark.records.machine import DeviceKind


@record_of_axes
class TrainingAxes:
    """The axes of training, most of which a program of the user does not have."""

    engine: str = axis(
        "what runs the trial",
        default=Engine.tensorflow.value,
        choices=ENGINES,
        set_by="engine",
        engines=ENGINES,
    )
    model: str = axis(
        "a definition in scalemark/models/, your own as my_model.py:build, or a program",
        set_by="model",
        engines=ENGINES,
    )
    model_digest: str = axis(
        "of the file of a model of your own: a changed file is another trial",
        default="",
        set_by="model",
    )
    num_gpus: int = axis(
        "replicas in step, over all hosts", given=1, least=1, in_curve=False, engines=ENGINES
    )
    hosts: int = axis(
        "hosts that share the replicas evenly; more than 1 in distributed modes, or for programs",
        default=1,
        least=1,
        in_curve=False,
        engines=(Engine.tensorflow, Engine.command),
    )
    device_kind: str = axis(
        "what replicas run on", choices=tuple(DeviceKind), set_by="hardware", engines=ENGINES
    )
    variable_update: str = axis(
        "how replicas share variables", folder="variable_updates", auto=True, engines=OWN_MODELS
    )
    local_parameter_device: str = axis(
        "where shared variables live", choices=("cpu", "gpu"), auto=True, engines=OWN_MODELS
    )
    all_reduce: str = axis(
        "how gradients meet", folder="all_reduces", auto=True, engines=OWN_MODELS
    )
    staged_vars: bool = axis(
        "use the weights of the previous step", default=False, engines=OWN_MODELS
    )
    gradient_repacking: int = axis(
        "number of packs; 0 = one message per tensor, or those of tf.distribute",
        default=0,
        least=0,
        most=256,
        engines=OWN_MODELS,
    )
    compact_gradients: bool = axis(
        "send packs as half precision", default=False, engines=OWN_MODELS
    )
    precision: str = axis(
        "number format of the computation; auto = of GPUs with tensor cores bf16, or fp16 where "
        "they have none, else fp32",
        folder="precisions",
        auto=True,
        engines=ENGINES,
    )
    loss_scale: str = axis(
        "none, dynamic, static, or a factor of the loss; auto = dynamic for fp16, else none",
        default="none",
        auto=True,
        engines=OWN_MODELS,
    )
    xla: str = axis(
        "compile with XLA: on = each tower, auto = clusters of operations",
        default="off",
        choices=("off", "on", "auto"),
        engines=OWN_MODELS,
    )
    recompute: bool = axis(
        "compute activations again in the backward pass instead of keeping them",
        default=False,
        engines=OWN_MODELS,
    )
    optimizer: str = axis(
        "how gradients change weights", folder="optimizers", given="momentum", engines=ENGINES
    )
    learning_rate: float = axis(
        "factor of a gradient", auto=True, least=0, sets_step_time=False, engines=ENGINES
    )
    momentum: float = axis(
        "share of the last update", auto=True, least=0, below=1, engines=OWN_MODELS
    )
    learning_rate_warm_up: int = axis(
        "updates over which the learning rate rises to its value; 0 = none",
        default=0,
        least=0,
        sets_step_time=False,
        engines=OWN_MODELS,
    )
    weight_decay: float = axis(
        "of all trainable variables: factor of their L2 loss, or adamw's own decay",
        auto=True,
        least=0,
        engines=OWN_MODELS,
    )
    data: str = axis("a file in trainer/data/", set_by="data", engines=OWN_MODELS)
    data_dir: str = axis(
        "folder of the shards; empty = our cache", default="", set_by="data.dir", engines=OWN_MODELS
    )
    distortions: bool = axis("random crop, flip and colors", auto=True, engines=OWN_MODELS)
    data_format: str = axis(
        "order of dimensions; auto = NCHW on GPUs for fp32 and, without XLA, tf32, else NHWC",
        default="NHWC",
        choices=("NHWC", "NCHW"),
        auto=True,
        engines=OWN_MODELS,
    )
    image_px: int = axis(
        "height and width of the model's input, in pixels; 0 = it takes no images, or a model of "
        "your own says",
        auto=True,
        least=0,
        engines=OWN_MODELS,
    )
    seq_len: int = axis(
        "tokens of a sequence; 0 = the model takes no tokens, or a model of your own says",
        default=0,
        auto=True,
        least=0,
        engines=OWN_MODELS,
    )
    num_classes: int = axis(
        "classes of the model, of tokens the vocabulary; 0 = a model of your own says",
        set_by="model",
        least=0,
        sets_step_time=False,
        engines=OWN_MODELS,
    )
    batch_size: int = axis(
        "examples per replica and micro-batch; auto = the model's, small on CPU devices, doubled "
        "with the memory of GPUs from 32 GiB on",
        auto=True,
        least=1,
        engines=ENGINES,
    )
    gradient_accumulation: int = axis(
        "micro-batches per update, whose gradients are summed",
        default=1,
        least=1,
        engines=OWN_MODELS,
    )
    scaling: str = axis(
        "weak: batch_size is of one replica and micro-batch; strong: of all of them together",
        default="weak",
        choices=("weak", "strong"),
        sets_step_time=False,
        engines=ENGINES,
    )
    steps_per_execution: int = axis(
        "steps inside one call of the training function", default=1, least=1, engines=OWN_MODELS
    )
    cache: bool = axis(
        "keep serialized records in memory once read; auto = all data but imagenet",
        default=True,
        auto=True,
        engines=OWN_MODELS,
    )
    data_threads: int = axis(
        "private threads of the input pipeline; 0 = TensorFlow's", default=0, least=0, most=1024
    )
    prefetch: int = axis(
        "batches waiting on each device; 0 = copied when asked for", default=2, least=0, most=1024
    )
    min_warm_up_steps: int = axis(
        "least number of warm-up steps, until the step time is steady",
        auto=True,
        least=0,
        sets_step_time=False,
        engines=ENGINES,
    )
    min_warm_up_s: float = axis(
        "least seconds of warm-up; auto = 5 on GPUs, whose clocks settle, else 0",
        default=0.0,
        auto=True,
        least=0,
        sets_step_time=False,
    )
    num_steps: int = axis(
        "measured steps, at least", auto=True, least=1, sets_step_time=False, engines=ENGINES
    )
    min_window_s: float = axis(
        "seconds that measuring goes on for, at least; auto = 5 on GPUs, else 1",
        default=0.0,
        auto=True,
        least=0,
        sets_step_time=False,
        engines=OWN_MODELS,
    )
    profile: bool = axis(
        "profile a few steps after the measurement", default=False, sets_step_time=False
    )
    replica_times: bool = axis(
        "time each replica's own compute after the measurement, to find a slow one",
        default=False,
        sets_step_time=False,
        engines=OWN_MODELS,
    )
    # as "drift=0.05 noise=0.02", names in order; see `scalemark.records.measurement`
    injected: str = axis(
        "what was slowed or broken on purpose",
        default="",
        set_by="injected",
        engines=(Engine.simulated,),
    )
    seed: int = axis("of weights and data", given=1, least=0, sets_step_time=False, engines=ENGINES)


def _of_program(text: str, *, default: AxisValue, **options: Any) -> Any:
    """Define an axis of programs alone, a setting of `command`."""
    return axis(text, default=default, engines=(Engine.command,), **options)


@record_of_axes
class TrialAxes(TrainingAxes):
    """The axes of any trial. No `auto` is left in them.

    A field with a default is left out of the identity while it has that default, so that an axis
    that is added later does not change the identity of older trials. Therefore a default never
    changes.
    """

    # as scalemark.program.template reads it
    command: str = _of_program(
        "the command line, with {AXIS} where an axis's value goes", default="", set_by="command.run"
    )
    shell: bool = _of_program("/bin/sh reads the command line", default=False)
    read: str = _of_program(
        "how its output is read: KIND or KIND:ARGUMENT (docs/your_program.md)", default=""
    )
    item: str = _of_program(
        "what it counts per second: images, tokens, samples, ...", default="", sets_step_time=False
    )
    items_per_step: str = _of_program(
        "items in a step of all replicas, as batch_size*num_gpus", default="", sets_step_time=False
    )
    per_gpu: bool = _of_program(
        "the speed that it prints is of one GPU", default=False, sets_step_time=False
    )
    flops_per_item: str = _of_program(
        "FLOPs of an item, forward and backward, as 6*params, for its utilization (MFU)",
        default="",
        sets_step_time=False,
    )
    compare: str = _of_program(
        "the axis to compare; empty = all free axes",
        default="",
        in_curve=False,
        sets_step_time=False,
    )
    takes_apart: bool = _of_program(
        "time the parts of its steps from inside, for `explain`; no speed is kept of it",
        default=False,
        sets_step_time=False,
    )
