"""What advice must know beside the results: durations, watts, prices, and what the machine has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from analysis.results import Origin, Place, Result, is_quotable
from analysis.source import Source
from costs.hardware import Hardware
from store.reading.durations import Durations, recorded_durations_s
from store.reading.power import powers_w
from store.reading.queries import Row


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Behind the results of a source; each is read when it is first asked for."""

    source: Source
    _durations: dict[str, Durations] = field(default_factory=dict)  # by machine

    def watts(self, result: Result) -> list[float | None]:
        """Of each process of a result, of all its GPUs; of simulated ones as their profile says.
        None where nobody knows.
        """
        if result.place.origin is Origin.PUBLISHED:
            return [None] * len(result.repeats)
        if profile := self.profile(result.place):
            return [None if profile.power_w is None else profile.power_w * result.num_gpus] * len(
                result.repeats
            )
        if result.hosts > 1 and not result.is_on_one_machine:
            return [None] * len(result.repeats)  # NVML tells of the GPUs of one machine
        quotable = [one for one in result.attempt_ids if is_quotable(self.source.attempts[one])]
        return [self._powers_w.get(attempt) for attempt in quotable]

    def attempt_without_number(self, result: Result) -> int:
        """The last one of a result of which some failed."""
        return next(
            one
            for one in reversed(result.attempt_ids)
            if not is_quotable(self.source.attempts[one])
        )

    def profile(self, place: Place) -> Hardware | None:
        """Of a simulated place."""
        return Hardware.from_json(place.hardware_profile) if place.hardware_profile else None

    def machine(self, place: Place) -> Row | None:
        """As `store.reading.provenance.machines` has it; None of published figures."""
        return self._machines.get(place.key)

    def durations(self, place: Place) -> Durations:
        """Recorded on the machine of a place."""
        machine = self.machine(place)
        if machine is None:
            return Durations()
        key = machine["key"]
        if key not in self._durations:
            self._durations[key] = Durations(
                recorded_durations_s(self.source.engine, key, on_devices=True)
            )
        return self._durations[key]

    @cached_property
    def _machines(self) -> Mapping[str, Row]:
        if self.source.selection.origin is Origin.PUBLISHED:
            return {}
        by_key = {machine["key"]: machine for machine in self.source.machines}
        first = {
            result.place.key: result.attempt_ids[0] for result in reversed(self.source.results)
        }
        return {
            place: by_key[self.source.attempts[attempt]["machine"]]
            for place, attempt in first.items()
        }

    @cached_property
    def _powers_w(self) -> dict[int, float]:
        return powers_w(self.source.engine, sorted(self.source.attempts))
