"""A peak of a probe is of a real product of matrices; without room it says so."""

from scalemark.records.machine import ProbedPeak
from trainer import probing
from trainer.watching.utilization import fastest_s


def test_the_fastest_turn_counts():
    looks = iter([0, 1, 1, 2, 2, 9, 9, 13, 13, 99])  # turns of 1, 1, 7, 4 and 86 s
    fastest = fastest_s(lambda: None, lambda: None, lambda: next(looks), 2.0, 11.5)
    assert fastest == 4 / 2


def test_a_device_without_room_has_a_problem_instead_of_a_peak(make_devices, monkeypatch):
    monkeypatch.setattr(probing, "peak_flops_per_s", lambda devices, kind: None)
    found = probing._peak(make_devices(2), "fp32", 1)
    problem = "CPU device 1: no memory for a large matrix"
    assert found == ProbedPeak(precision="fp32", device=1, value=None, problem=problem)
