"""Filters as keyword arguments: `model="vgg16", num_gpus=">=4"` means what the commands mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from analysis.newest import Newest, selected
from analysis.origin import Chosen, choose
from analysis.results import BaselineRule
from analysis.selection import Selection
from analysis.source import Source
from scalemark.records.origin import Origin
from scalemark.text.untrusted import masked
from scalemark.text.wording import as_typed
from store.errors import StoreError
from store.filters.selection import nearest

Value = str | int | float | bool
Wanted = Value | Iterable[Value] | None
"""A value, several of which one must hold, or text that begins with an operator, as `>=4`; None
stands for no filter.
"""

_OPERATOR = re.compile(r"\s*(>=|<=|!=|==|=|>|<|~)")
_OPTIONS = ("sweep", "origin", "source", "baseline")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A choice of results, as the options of a command make it."""

    db: str  # file or URL
    filters: tuple[str, ...] = ()
    sweep: str | None = None
    origin: Origin | None = None  # None: that of the newest sweep that matches
    source_name: str | None = None  # of figures of others
    baseline: BaselineRule = BaselineRule.SAME

    def narrowed(self, filters: Sequence[str], wanted: Mapping[str, Wanted]) -> Choice:
        """Return the choice with more filters; an option replaces an earlier one. Raises StoreError
        for an option that is none.
        """
        given = {name: value for name, value in wanted.items() if value is not None}
        options = {name: value for name, value in given.items() if _is_option(name, value)}
        others = [_filter(name, value) for name, value in given.items() if name not in options]
        found = replace(self, filters=(*self.filters, *filters, *others))
        if "sweep" in options:
            found = replace(found, sweep=str(options["sweep"]))
        if "source" in options:
            found = replace(found, source_name=str(options["source"]))
        if "origin" in options:
            found = replace(found, origin=Origin(one_of("origin", options["origin"], Origin)))
        if "baseline" in options:
            rule = one_of("baseline", options["baseline"], BaselineRule)
            found = replace(found, baseline=BaselineRule(rule))
        return found

    @property
    def is_newest(self) -> bool:
        """Say whether it chooses nothing, and so is about the newest sweep."""
        return not (self.filters or self.sweep or self.origin or self.source_name)

    @property
    def needs_database(self) -> bool:
        return self.origin is not Origin.PUBLISHED

    @property
    def shown_db(self) -> str:
        """The database without a password."""
        return masked(self.db)

    @property
    def words(self) -> str:
        """Return its choice as filters."""
        return " ".join([*(f"{name}={value}" for name, value in self._options()), *self.filters])

    @property
    def code(self) -> str:
        """The call that makes the same choice."""
        wanted = [repr(text) for text in self.filters]
        wanted += [f"{name}={str(value)!r}" for name, value in self._options()]
        return f"scalemark.open({', '.join([repr(self.shown_db), *wanted])})"

    def _options(self) -> list[tuple[str, object]]:
        options = {"sweep": self.sweep, "origin": self.origin, "source": self.source_name}
        if self.baseline is not BaselineRule.SAME:
            options["baseline"] = self.baseline
        return [(name, value) for name, value in options.items() if value]

    def of_advice(self) -> tuple[Selection, Newest | None]:
        """Return what `analysis advise` takes: where nothing is chosen, all of the origin of the
        newest sweep, so that what it repeats or completes counts, and that sweep.
        """
        if self.is_newest:
            return selected(self.db, None, None, None, None)
        return self._chosen().selection, None

    @property
    def other_origins(self) -> tuple[Origin, ...]:
        """The origins of numbers that were passed over for those of the newest sweep."""
        if not self.is_newest:
            return self._chosen().others
        _, newest = self.of_advice()
        return newest.others if newest else ()

    def _chosen(self) -> Chosen:
        options = (self.filters, self.sweep, self.origin, self.source_name, self.baseline)
        return choose(self.db, *options)

    def source(self) -> Source:
        """Return what is chosen, with at least one result.

        Raises NothingFoundError, and StoreError where the database cannot be read or a filter is
        none.
        """
        if self.is_newest:
            found, newest = self.of_advice()
            selection = replace(newest.selection if newest else found, baseline=self.baseline)
        else:
            selection = self._chosen().selection
        source = Source(selection=selection)
        _ = source.results
        return source


def _is_option(name: str, wanted: Wanted) -> bool:
    """One sweep is an option, as `--sweep`; several, or a pattern of names, are a filter."""
    is_one = isinstance(wanted, str) and not _OPERATOR.match(wanted)
    return name in _OPTIONS and (name != "sweep" or is_one)


def _filter(name: str, wanted: Wanted) -> str:
    """Return it as it is typed on a command line."""
    if isinstance(wanted, str):
        return f"{name}{wanted}" if _OPERATOR.match(wanted) else f"{name}={wanted}"
    if isinstance(wanted, Iterable):
        return f"{name}={','.join(_one(value) for value in wanted)}"
    return f"{name}={as_typed(wanted)}"


def _one(value: Value) -> str:
    """Return one of several values, whose commas are its own."""
    return as_typed(value).replace(",", r"\,")


def one_of(name: str, wanted: Wanted, choices: type[StrEnum]) -> str:
    """Raise StoreError unless it is the text of a choice."""
    known = [str(choice) for choice in choices]
    if str(wanted) not in known:
        raise StoreError(f"{name}={str(wanted)[:100]!r}: {nearest(str(wanted)[:100], known)}")
    return str(wanted)
