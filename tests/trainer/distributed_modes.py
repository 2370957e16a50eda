"""Trains in every distributed mode over real processes, prints which, and last what it found as JSON: `... HOSTS [lose]`.

In a process of its own, which is worker 0: the others are ranks of the trainer.
"""

import json
import os
import signal
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from scalemark.abilities import VARIABLE_UPDATES
from scalemark.records.attempt import WORKER_0, Rank, RankLimits
from scalemark.records.machine import DeviceKind
from scalemark.run_folder import RunFolder
from tests.specs import small
from trainer import LostRankError, UnsupportedTrialError, devices, mode_check
from trainer.data import digits
from trainer.own_rank import reserved_ports
from trainer.supervision import StartedRanks, job
from trainer.watching import op_placement

PER_HOST, NUM_STEPS = 2, 3
PATIENCE_S = (
    3600.0  # a busy machine may need long; what is stuck falls silent, which its test notices
)
REFERENCE = ("optimizer", "momentum", "learning_rate", "learning_rate_warm_up", "weight_decay")
PLAIN = {"-": {}}
SCALED = {"precision": "fp16", "loss_scale": "dynamic", "steps_per_execution": 3}
ACCUMULATED = {"micro-batches": {"gradient_accumulation": 4}}
WARMED = {
    "adamw": {
        "optimizer": "adamw",
        "momentum": 0.0,
        "learning_rate": 0.01,
        "weight_decay": 0.1,
        "learning_rate_warm_up": 2,
    }
}
OPTIONS = {
    "distributed_parameter_server": PLAIN
    | ACCUMULATED
    | WARMED
    | {
        "staged": {"staged_vars": True, "weight_decay": 0.0, "steps_per_execution": 3},
        "loss_scale": SCALED,
    },
    "distributed_replicated": PLAIN
    | ACCUMULATED
    | WARMED
    | {"adam": {"optimizer": "adam", "momentum": 0.0, "learning_rate": 0.01}, "loss_scale": SCALED},
    "distributed_sharded": PLAIN
    | ACCUMULATED
    | WARMED
    | {"packs": {"gradient_repacking": 2, "steps_per_execution": 3}},
    "distributed_all_reduce": PLAIN
    | ACCUMULATED
    | WARMED
    | {
        "packs": {"gradient_repacking": 2, "steps_per_execution": 3},
        "compact": {"compact_gradients": True},
    },
}


def modes():
    for update in OPTIONS:
        for all_reduce in VARIABLE_UPDATES[update].all_reduces:
            yield update, all_reduce


def main(num_hosts, lose):
    print("begins", flush=True)
    with started(num_hosts) as ranks:
        own = devices.claim(DeviceKind.CPU_DEVICE, PER_HOST)
        on = devices.connect(own, ranks.cluster, PATIENCE_S)
        print("connected", flush=True)
        if lose:
            found = {"lost": lose_one(on, ranks, num_hosts)}
        else:
            found = check_all(num_hosts, on)
            if num_hosts == 2:  # last: setting seeds may wait without end for what it sends
                found["input"] = check_input(on)
    print(json.dumps(found))


@contextmanager
def started(num_hosts):
    """The ranks of a trial with parameter servers, without worker 0."""
    spec = small(
        num_gpus=num_hosts * PER_HOST,
        hosts=num_hosts,
        variable_update="distributed_parameter_server",
    )
    with TemporaryDirectory() as path, reserved_ports(2 * num_hosts) as ports:
        folder = RunFolder(Path(path))
        folder.write(folder.trial, spec.to_json())
        of_trial = job(spec, folder)
        cluster = of_trial.cluster(["127.0.0.1"] * num_hosts, ports)
        ranks = StartedRanks(of_trial, cluster, (), RankLimits())
        try:
            for rank in cluster.ranks:
                if rank != WORKER_0:
                    ranks.start(rank)
            yield ranks
        finally:
            ranks.end()


def check_all(num_hosts, on):
    one = replace(on, replicas=on.replicas[:1])
    batches = list(mode_check.whole_batches(num_hosts * PER_HOST, NUM_STEPS))
    alone = small(learning_rate=0.1)
    references = {}

    def reference(changes):
        plain = {name: value for name, value in changes.items() if name in REFERENCE}
        if "staged_vars" in changes:
            return mode_check.one_step_stale(alone, one, batches), None
        if str(plain) not in references:
            training, loss = mode_check.train(replace(alone, **plain), one, batches)
            references[str(plain)] = training.update.weights(0), loss
        return references[str(plain)]

    found = {}
    for update, all_reduce in modes():
        options = OPTIONS[update] if num_hosts == 2 and all_reduce in ("none", "ring") else PLAIN
        for reported, changes in options.items():
            print(update, all_reduce, reported, flush=True)
            spec = replace(
                alone,
                num_gpus=num_hosts * PER_HOST,
                hosts=num_hosts,
                variable_update=update,
                all_reduce=all_reduce,
            )
            found[f"{update} {all_reduce} {reported}"] = check(
                replace(spec, **changes), on, batches, *reference(changes)
            )
    return found


def check(spec, on, batches, weights, loss):
    try:
        with op_placement.recorded() as placement:
            training, last_loss = mode_check.train(spec, on, batches)
    except UnsupportedTrialError as error:
        return {"refused": str(error)}
    ours = [training.update.weights(replica) for replica in range(spec.num_gpus)]
    summary = placement.summary()
    return {
        "weights": max(mode_check.largest_difference(each, weights) for each in ours),
        "loss": None if loss is None else abs(last_loss - loss),
        "problem": placement.problem(training.wanted(spec)),
        "places": {
            role: sorted({name.split(" @ ")[1] for name in summary[role]})
            for role in ("reduction", "update")
        },
        "ops": sorted({name.split(" @ ")[0] for name in summary["reduction"]}),
    }


def check_input(on):
    """Devices that batches of an input pipeline wait on, and whether they are those of one host with as many replicas."""
    spec = small(
        num_gpus=4,
        hosts=2,
        data="digits",
        variable_update="distributed_all_reduce",
        all_reduce="ring",
    )
    of_hosts = digits.open_input(spec, on).next()
    alike = digits.open_input(spec, replace(on, replicas=on.own_replicas * 2)).next()
    return {
        "devices": [images.device for images, _ in of_hosts],
        "labels": [
            [labels.numpy().tolist() for _, labels in batches] for batches in (of_hosts, alike)
        ],
    }


def lose_one(on, ranks, num_hosts):
    spec = small(
        num_gpus=num_hosts * PER_HOST,
        hosts=num_hosts,
        variable_update="distributed_replicated",
        all_reduce="none",
    )
    batches = list(mode_check.whole_batches(spec.num_gpus, 1))
    training, _ = mode_check.train(spec, on, batches)
    lost, _ = ranks._running[Rank(job_name="ps", task_index=1)]
    os.kill(lost, signal.SIGKILL)
    try:
        with devices.naming_lost_ranks(ranks.cluster):
            for _ in range(1000):
                training.towers.step(mode_check.split(batches, on))
    except LostRankError as error:
        return str(error)
    return "nothing was raised"


if __name__ == "__main__":
    main(int(sys.argv[1]), "lose" in sys.argv[2:])
