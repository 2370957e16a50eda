"""Filters as keyword arguments: `model="vgg16", num_gpus=">=4"` means what the commands mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from analysis.options import Newest, selected
from analysis.results import BaselineRule
from analysis.selection import ChosenOrigin, Selection, Source, choose
from scalemark.records.references import Origin
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
        options: dict[str, str] = {}
        texts = [*self.filters, *filters]
        for name, value in wanted.items():
            if _is_option(name, value):
                options[name] = str(value)
            elif value is not None:
                texts.append(_filter(name, value))
        origin, baseline = self.origin, self.baseline
        if "origin" in options:
            origin = Origin(one_of("origin", options["origin"], Origin))
        if "baseline" in options:
            baseline = BaselineRule(one_of("baseline", options["baseline"], BaselineRule))
        return Choice(
            db=self.db,
            filters=tuple(texts),
            sweep=options.get("sweep", self.sweep),
            origin=origin,
            source_name=options.get("source", self.source_name),
            baseline=baseline,
        )

    @property
    def is_newest(self) -> bool:
        """Say whether it chooses nothing, and so is about the newest sweep."""
        return not (self.filters or self.sweep or self.origin or self.source_name)

    @property
    def shown_db(self) -> str:
        """The database without a password."""
        return masked(self.db)

    @property
    def options(self) -> dict[str, str]:
        """The options that choose, by name."""
        given = {"sweep": self.sweep, "origin": self.origin, "source": self.source_name}
        if self.baseline is not BaselineRule.SAME:
            given["baseline"] = self.baseline
        return {name: str(value) for name, value in given.items() if value}

    @property
    def code(self) -> str:
        """The call that makes the same choice."""
        wanted = [repr(text) for text in self.filters]
        wanted += [f"{name}={value!r}" for name, value in self.options.items()]
        return f"scalemark.open({', '.join([repr(self.shown_db), *wanted])})"

    def for_advice(self) -> tuple[Selection, Newest | None]:
        """Return what `analysis advise` takes: where nothing is chosen, all of the origin of the
        newest sweep, so that what it repeats or completes counts, and that sweep.
        """
        if self.is_newest:
            return selected(self.db, None, None, None, None)
        return self._chosen().selection, None

    def other_origins(self) -> tuple[Origin, ...]:
        """Return the origins of numbers that were passed over for those of the newest sweep."""
        if not self.is_newest:
            return self._chosen().others
        _, newest = self.for_advice()
        return newest.others if newest else ()

    def source(self) -> Source:
        """Return what is chosen, with at least one result.

        Raises NothingFoundError, and StoreError where the database cannot be read or a filter is
        none.
        """
        if self.is_newest:
            selection, newest = self.for_advice()
            selection = newest.selection if newest else selection
            source = Source(selection=replace(selection, baseline=self.baseline))
        else:
            source = Source(selection=self._chosen().selection)
        _ = source.results
        return source

    def _chosen(self) -> ChosenOrigin:
        options = (self.filters, self.sweep, self.origin, self.source_name, self.baseline)
        return choose(self.db, *options)


def _is_option(name: str, wanted: Wanted) -> bool:
    """One sweep is an option, as `--sweep`; several, or a pattern of names, are a filter."""
    is_one = isinstance(wanted, str) and not _OPERATOR.match(wanted)
    return name in _OPTIONS and wanted is not None and (name != "sweep" or is_one)


def _filter(name: str, wanted: Wanted) -> str:
    """Return it as it is typed on a command line."""
    if isinstance(wanted, str):
        return f"{name}{wanted}" if _OPERATOR.match(wanted) else f"{name}={wanted}"
    if isinstance(wanted, Iterable):
        values = [as_typed(value).replace(",", r"\,") for value in wanted]
        return f"{name}={','.join(values)}"
    return f"{name}={as_typed(wanted)}"


def one_of(name: str, wanted: Wanted, choices: type[StrEnum]) -> str:
    """Raise StoreError unless it is the text of a choice."""
    known = [str(choice) for choice in choices]
    if str(wanted) not in known:
        raise StoreError(f"{name}={str(wanted)[:100]!r}: {nearest(str(wanted)[:100], known)}")
    return str(wanted)
