"""Abilities that variable updates, all-reduces, precisions, optimizers and launchers declare in
their own files, for all who must know them and may not import TensorFlow.

A name that a user may choose is one file in one folder, and the folder is the registry. Each file
has two parts:

```
  trainer/all_reduces/ring.py    ABILITIES = AllReduceAbilities(...)    read by everybody: rules,
                                 and the functions that it names        cost model, explanations
                                 ─────────────────────────────────
                                 import tensorflow as tf                read by the trainer alone
                                 class Ring: ...
```

`ALL_REDUCES["ring"]` executes the first part only: the text above the first line that imports
tensorflow, keras, numpy, trainer, conf or sweeper. That part therefore imports nothing but the
standard library and `scalemark`. Who runs the name imports the whole file, as any module.

A file without ABILITIES, or whose ABILITIES lack a field, raises AbilitiesError, which names both.
Every command checks all files before it begins.
"""

from __future__ import annotations

from scalemark.abilities.all_reduce import AllReduceAbilities
from scalemark.abilities.folder import PROJECT, AbilitiesError, Folder, names, preferring
from scalemark.abilities.launcher import LauncherAbilities
from scalemark.abilities.optimizer import OptimizerAbilities
from scalemark.abilities.precision import PrecisionAbilities
from scalemark.abilities.variable_update import VariableUpdateAbilities
from scalemark.records.axes import Engine
from scalemark.records.trial import TrialSpec

__all__ = [
    "ALL_REDUCES",
    "DEFAULT_UPDATE",
    "LAUNCHERS",
    "LOCAL",
    "OPTIMIZERS",
    "PRECISIONS",
    "VARIABLE_UPDATES",
    "AbilitiesError",
    "check",
    "distributed",
    "fastest_precision",
    "half_precision",
    "has_enough_replicas",
    "jobs_of",
    "least_replicas",
    "names",
    "precision_of",
    "preferring",
    "rank_jobs",
    "starting_agents",
    "trains_apart",
]

DEFAULT_UPDATE = "replicated"
"""What variable_update=auto means: every replica has its copies, and gradients are all-reduced."""

LOCAL = "local"
"""The one launcher that runs attempts on this machine; all others have agents run them."""

VARIABLE_UPDATES = Folder("trainer/variable_updates", VariableUpdateAbilities)
ALL_REDUCES = Folder("trainer/all_reduces", AllReduceAbilities)
PRECISIONS = Folder("trainer/precisions", PrecisionAbilities)
OPTIMIZERS = Folder("trainer/optimizers", OptimizerAbilities)
LAUNCHERS = Folder("sweeper/launchers", LauncherAbilities)


def trains_apart(variable_update: str) -> bool:
    """Return whether replicas exchange nothing; False for a name of others, as horovod."""
    abilities = VARIABLE_UPDATES.get(variable_update)
    return abilities is not None and not abilities.exchanges


def least_replicas(variable_update: str) -> int:
    """Return the fewest replicas that it shares variables among; 1 for a name of others."""
    abilities = VARIABLE_UPDATES.get(variable_update)
    return 1 if abilities is None else abilities.least_replicas


def has_enough_replicas(spec: TrialSpec) -> bool:
    """Return whether its variable update shares variables among so few replicas."""
    return spec.num_gpus >= least_replicas(spec.variable_update)


def precision_of(name: str) -> PrecisionAbilities | None:
    """Return abilities by the name that sources use: mixed is fp16. None for unknown names."""
    return PRECISIONS.get("fp16" if name == "mixed" else name)


def fastest_precision(compute_capability: tuple[int, int] | None) -> str:
    """Return the precision in which GPUs with this or a later compute capability are fastest."""
    for name in ("bf16", "fp16"):  # the first needs no loss scale
        least = PRECISIONS[name].fastest_from
        if compute_capability and least and compute_capability >= least:
            return name
    return "fp32"


def half_precision(compute_capability: tuple[int, int] | None) -> str:
    """Return the fastest precision of 16 bits, on GPUs that nothing is known of fp16."""
    fastest = fastest_precision(compute_capability)
    return "fp16" if fastest == "fp32" else fastest


def rank_jobs(variable_update: str) -> tuple[str, ...]:
    """Return the jobs of each host's ranks; empty where a trial is one process."""
    abilities = VARIABLE_UPDATES.get(variable_update)
    return abilities.rank_jobs if abilities else ()


def jobs_of(spec: TrialSpec) -> tuple[str, ...]:
    """Return the jobs of each host's ranks, as `rank_jobs`; a user's program has one per host."""
    if spec.engine == Engine.command.value:
        return ("worker",) if spec.hosts > 1 else ()
    return rank_jobs(spec.variable_update)


def distributed() -> tuple[str, ...]:
    """Return the variable updates that can go over several hosts."""
    return tuple(name for name, one in VARIABLE_UPDATES.items() if one.goes_over_hosts)


def starting_agents() -> tuple[str, ...]:
    """Return the launchers that start agents themselves."""
    return tuple(name for name, one in LAUNCHERS.items() if one.starts_agents)


def check() -> None:
    """Read all declarations. Raises AbilitiesError for the first that is not complete."""
    for folder in (VARIABLE_UPDATES, ALL_REDUCES, PRECISIONS, OPTIMIZERS, LAUNCHERS):
        folder.check()
    chosen = {file.stem for file in (PROJECT / "conf" / "launcher").glob("*.yaml")}
    for name in sorted(chosen ^ {*LAUNCHERS, LOCAL}):
        raise AbilitiesError(
            f"launcher={name}: wanted both sweeper/launchers/{name}.py and "
            f"conf/launcher/{name}.yaml, found one of them"
        )
