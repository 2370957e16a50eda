"""Takes the links of a box from a probe of it, instead of a profile like it, or a guess."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from analysis.calibration.boxes import Possible
from analysis.calibration.environments import Guess
from analysis.results import Result
from analysis.source import Source
from costs.probed_links import ProbedLinks
from scalemark.host import kept_probes
from scalemark.records.devices import DeviceKind
from scalemark.records.machine import GpuLink
from store.reading import provenance


def with_probe(guess: Guess, result: Result, source: Source) -> Guess:
    """Return the guess of a result's machine with the links that `scalemark probe` measured there.

    A probe of one GPU, or of some, does not tell how all are linked; one with doubts is not used.
    """
    gpus = result.environment.gpus
    if gpus is None or not result.attempt_ids:
        return guess
    key = source.attempts[result.attempt_ids[-1]]["machine"]
    probe = kept_probes.read(key, DeviceKind.GPU)
    if probe is None or probe.doubts or len(probe.devices) < max(2, gpus.num):
        return guess
    links = ProbedLinks(
        probe=probe,
        links=[_link(row) for row in provenance.links(source.engine, key)],
        numa_nodes=provenance.numa_nodes(source.engine, key),
    )
    return _with_links(guess, links)


def _link(row: dict[str, Any]) -> GpuLink:
    between = (row["first_uuid"], row["second_uuid"])
    return GpuLink(between=between, num_nvlinks=row["num_nvlinks"], pcie=row["pcie"])


def _with_links(guess: Guess, links: ProbedLinks) -> Guess:
    """Change one box: where links were guessed it is the only one that it may be."""
    found: dict[str, Any] = {}
    if links.links and not links.has_nvlinks:
        found = {"nvlink_gb_per_s": None, "nvlink_clique": 0}
    found |= {field: value for field, value, _ in links.fields() if value is not None}
    if not any(node is not None for node in links.numa_nodes.values()):
        del found["num_sockets"]  # as in virtual machines: it says nothing of sockets
    box = guess.hardware
    # the driver may not know which GPUs share a board
    found["gpus_per_switch"] = max(found["gpus_per_switch"], box.gpus_per_board)
    box = replace(box, **found)
    return Guess(
        hardware=box,
        reason=f"{guess.reason}; links {links.measured}",
        others=(Possible(hardware=box, weight=1.0),) if guess.others else (),
    )
