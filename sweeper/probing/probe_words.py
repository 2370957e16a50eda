"""Shows a probe: a row per device, a matrix of pairs, a row per all-reduce."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scalemark.records.machine import DeviceKind, Figure, Probe, Probed

_MIB = 2**20
_UNKNOWN = "-"


def lines_of(probe: Probe) -> Iterator[str]:
    """Yield all that people read of a probe."""
    kind = probe.kind
    names = " and ".join(dict.fromkeys(probe.devices))
    counted = kind.counted(len(probe.devices))
    yield f"{counted} of {probe.host}{f' ({names})' if kind is DeviceKind.GPU else ''}"
    if kind.note:
        yield kind.note
    yield f"measured {probe.measured_at[:16].replace('T', ' ')} UTC"
    yield from _devices(probe)
    if any(probe.of(Probed.PAIR)):
        yield from _matrix(probe)
    if any(probe.of(Probed.ALL_REDUCE)):
        yield from _all_reduces(probe)
    for problem in probe.problems:
        yield f"\nnot measured: {problem}"
    for doubt in probe.doubts:
        yield f"\ntoo low, perhaps: {doubt}"


def _devices(probe: Probe) -> Iterator[str]:
    precisions = list(dict.fromkeys(each.precision for each in probe.figures if each.precision))
    yield "\nTFLOP/s of a matrix product; GB/s of memory, and of copies from and to the host"
    rows = [["", *precisions, "memory", "from host", "to host"]]
    owners: list[int | None] = [*range(len(probe.devices)), None]
    for owner in owners:
        cells = [_peak(probe, owner, precision) for precision in precisions]
        cells.append(_rate(probe, Probed.MEMORY, owner, None))
        if owner is None:
            cells += [_UNKNOWN, _UNKNOWN]
        else:
            cells.append(_rate(probe, Probed.TO_DEVICE, None, owner))
            cells.append(_rate(probe, Probed.TO_HOST, owner, None))
        if any(cell != _UNKNOWN for cell in cells):
            rows.append(["host" if owner is None else f"{probe.kind.singular} {owner}", *cells])
    yield from _aligned(rows)
    if probe.kind is DeviceKind.CPU_DEVICE:
        yield "the peak is of all cores together, which the devices share"
        for figure in probe.of(Probed.MEMORY):
            yield f"memory and copies: tensors of {_size(figure.num_bytes or 0)}"


def _matrix(probe: Probe) -> Iterator[str]:
    yield f"\nGB/s from each {probe.kind.singular} (row) to each other (column)"
    if probe.kind is DeviceKind.CPU_DEVICE:
        yield "they share the host's memory: a copy within it"
    numbers = range(len(probe.devices))
    rows = [["", *map(str, numbers)]]
    for source in numbers:
        rates = [_rate(probe, Probed.PAIR, source, target) for target in numbers]
        rows.append([str(source), *rates])
    yield from _aligned(rows)


def _all_reduces(probe: Probe) -> Iterator[str]:
    yield f"\nall-reduce over {probe.kind.counted(len(probe.devices))} by {probe.all_reduce}"
    rows = [["bytes of each", "bus GB/s", "ms"]]
    share = 2 * (len(probe.devices) - 1) / len(probe.devices)
    for figure in probe.of(Probed.ALL_REDUCE):
        assert figure.value is not None
        assert figure.num_bytes is not None
        took_ms = 1e3 * share * figure.num_bytes / figure.value
        rows.append([_size(figure.num_bytes), _giga(figure), f"{took_ms:.3g}"])
    yield from _aligned(rows)


def _peak(probe: Probe, owner: int | None, precision: str) -> str:
    for figure in probe.of(Probed.PEAK):
        if figure.source == owner and figure.precision == precision and figure.value:
            return f"{figure.value / 1e12:.3g}"
    return _UNKNOWN


def _rate(probe: Probe, what: Probed, source: int | None, target: int | None) -> str:
    for figure in probe.of(what):
        if (figure.source, figure.target) == (source, target):
            return _giga(figure)
    return _UNKNOWN


def _giga(figure: Figure) -> str:
    assert figure.value is not None
    return f"{figure.value / 1e9:.3g}" if figure.value < 1e12 else f"{figure.value / 1e9:.0f}"


def _size(num_bytes: int) -> str:
    return f"{num_bytes // _MIB} MiB" if num_bytes >= _MIB else f"{num_bytes // 1024} KiB"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the rows with the first column to the left, all others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()
