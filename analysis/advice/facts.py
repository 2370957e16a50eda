"""Collects the facts that advice needs beside the results: durations, prices, the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from analysis.results import Environment, Result, is_quotable
from analysis.source import Source
from simulator.costs.box import Hardware
from simulator.costs.work import step_work
from store.reading.durations import Durations, recorded_durations_s
from store.reading.queries import Row


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts behind the results of a source; each is read when it is first asked for."""

    source: Source
    _durations: dict[str, Durations] = field(default_factory=dict)  # by machine

    def attempt_without_number(self, result: Result) -> int:
        """Return the last attempt that failed, of a result of which some did."""
        attempts = self.source.attempts
        failed = [number for number in result.attempt_ids if not is_quotable(attempts[number])]
        return failed[-1]

    def profile(self, environment: Environment) -> Hardware | None:
        return (
            Hardware.from_json(environment.hardware_profile)
            if environment.hardware_profile
            else None
        )

    def machine(self, environment: Environment) -> Row | None:
        """Return a row of `store.reading.provenance.machines`; None for published figures."""
        return self._machines.get(environment.key)

    def durations(self, environment: Environment) -> Durations:
        """Return the durations that were recorded on a machine."""
        machine = self.machine(environment)
        if machine is None:
            return Durations()
        key = machine["key"]
        if key not in self._durations:
            recorded = recorded_durations_s(self.source.engine, key, on_devices=True)
            self._durations[key] = Durations(recorded, step_work)
        return self._durations[key]

    @cached_property
    def _machines(self) -> Mapping[str, Row]:
        if not self.source.selection.origin.is_ours:
            return {}
        by_key = {machine["key"]: machine for machine in self.source.machines}
        found = {}
        for result in reversed(self.source.results):
            attempt = self.source.attempts[result.attempt_ids[0]]
            found[result.environment.key] = by_key[attempt["machine"]]
        return found
