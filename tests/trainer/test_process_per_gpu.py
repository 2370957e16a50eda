"""A process per replica on one host trains as one device would, and its trial is of one host."""

import json
from dataclasses import replace

import pytest

from scalemark.records.measurement import Outcome
from tests.specs import small
from tests.trainer import test_selfcheck
from tests.trainer.test_main import fork, run  # noqa: F401 - fixtures
from trainer import UnsupportedTrialError
from trainer.own_rank import as_asked, with_processes

PER_GPU = small(variable_update="process_per_gpu", all_reduce="ring", num_gpus=2)


def test_every_process_stands_for_a_host_of_one_replica():
    ranks = with_processes(PER_GPU)
    assert (ranks.hosts, ranks.gpus_per_host) == (2, 1)
    assert with_processes(ranks) == ranks  # ranks that are started by hand read it so
    assert as_asked(ranks) == PER_GPU
    assert as_asked(small(num_gpus=2)) == with_processes(small(num_gpus=2)) == small(num_gpus=2)


def test_a_process_per_gpu_over_several_hosts_is_refused():
    spec = small(variable_update="process_per_gpu", all_reduce="ring", num_gpus=4, hosts=2)
    with pytest.raises(UnsupportedTrialError, match=r"hosts=2: .* is of one host; leave it out"):
        with_processes(spec)


@pytest.mark.integration
def test_the_selfcheck_proves_every_process_exact():
    mode = ("--modes", "process_per_gpu_ring")
    ended = test_selfcheck.run(*mode, "--devices", "cpu_device", "--json")
    assert ended.returncode == 0, ended.stderr
    ring = json.loads(ended.stdout)["checks"]
    assert [(check["options"], check["outcome"]) for check in ring] == [
        ("-", "passed"),
        ("steps_per_execution=3", "passed"),
        ("gradient_repacking=2", "passed"),
        ("gradient_repacking=2 steps_per_execution=3", "passed"),
        ("gradient_accumulation=4", "passed"),
    ]
    assert max(check["difference"] for check in ring) < 1e-6


@pytest.mark.integration
@pytest.mark.parametrize(("num_packs", "num_sent"), [(0, 1), (4, 2)])
def test_a_trial_starts_its_processes_and_ends_with_them(run, num_packs, num_sent):  # noqa: F811
    """All its gradients are less than a bucket; of four packs one is the largest tensor."""
    asked = replace(PER_GPU, gradient_repacking=num_packs)
    exit_code, folder = run(asked)
    assert exit_code == 0, folder.log.read_text()
    result = folder.read_result()
    assert result.outcome == Outcome.COMPLETED
    assert result.op_placement["reduction"] == {"CollectiveReduceV2 @ worker-0 CPU:0": num_sent}
    assert (folder.path / "log-worker-1.txt").exists()
    assert folder.read_trial() == asked  # as the sweep asked for it: of one host
