"""Names of tables, charts and their parts, and what a reader must know to read their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from analysis.pivot import Label, Table
from analysis.results import Origin, Place, Result, over
from analysis.text.wording import counted, listed
from scalemark.host.own_code import typed

_BARE = {
    "model": "{}",
    "precision": "{}",
    "data": "{} data",
    "scaling": "{} scaling",
    "strategy": "{}",
}
_OF_A_MODEL = ("batch_size", "image_px", "strategy")
_SPEAKING = ("strategy", "variable_update", "precision", "model")


def title(setting: Mapping[str, object]) -> str:
    """Of a table by its setting, as `resnet50 (batch_size 4, image_px 64, fp32, synthetic data,
    weak scaling)`.
    """
    told = [named(axis, value) for axis, value in setting.items() if axis != "model"]
    if "model" not in setting:
        return ", ".join(told)
    return f"{setting['model']} ({', '.join(told)})" if told else str(setting["model"])


def table_title(place: Place, setting: Mapping[str, object]) -> str:
    """As `title`; of a simulated table it begins so."""
    told = title(setting)
    return f"simulated: {told}" if told and place.origin is Origin.SIMULATED else told


def named(axis: str, value: object) -> str:
    """As `batch_size 64`, `synthetic data`, `2 hosts`; sources do not tell everything."""
    if axis == "planted" and value == "":
        return "nothing planted"
    if value in (None, ""):
        return f"{axis} not told"
    if axis == "hosts":
        return counted(int(str(value)), "host")
    return _BARE.get(axis, f"{axis} {{}}").format(value)


def headings(table: Table, what: str) -> tuple[str, str]:
    """Headline and setting of a picture, as `resnet50: images/s (weak scaling)` and `batch_size 64,
    fp32, synthetic data`.
    """
    setting = {axis: value for axis, value in table.setting.items() if axis != "scaling"}
    model, what = setting.pop("model", None), f"{what} ({scaling(table)})"
    return what if model is None else f"{model}: {what}", title(setting)


def scaling(table: Table) -> str:
    """As `weak scaling`, or `simulated, weak scaling`. Published figures are told by their batch
    per GPU: where that is known, scaling was weak.
    """
    if table.place.origin is Origin.PUBLISHED:
        batches = {result.axes.get("batch_size") for result in table.results}
        return "scaling unknown" if None in batches else "weak scaling"
    told = " and ".join(
        f"{value} scaling"
        for value in sorted({str(result.axes["scaling"]) for result in table.results})
    )
    return f"simulated, {told}" if table.place.is_simulated else told


def row_title(table: Table, row: Label) -> str:
    """As `ps_cpu`, `4 GPUs`, `distributed_ring over 2 hosts`."""
    return _told(
        table.rows_by,
        [_value(table, axis, value) for axis, value in zip(table.rows_by, row, strict=True)],
        row,
    )


def short_title(table: Table, axes: Sequence[str], label: Label) -> str:
    """Of a row or a column above notes that tell what the models have (`model_notes`): as `4 GPUs`,
    `vgg16`.
    """
    told = [
        str(value) if axis == "model" else _value(table, axis, value)
        for axis, value in zip(axes, label, strict=True)
    ]
    return _told(axes, told, label)


def _told(axes: Sequence[str], told: Sequence[str], label: Label) -> str:
    """Hosts as part of the strategy behind which they stand."""
    if tuple(axes[:2]) != ("strategy", "hosts"):
        return ", ".join(told)
    return ", ".join([f"{told[0]}{over(int(label[1]))}", *told[2:]])


def model_notes(table: Table) -> list[str]:
    """What varies with the model, as `batch_size: 64 (alexnet 512)`."""
    found = []
    axes = dict.fromkeys(axis for of in table.of_models.values() for axis in of)
    for axis in axes:
        values = {model: of[axis] for model, of in table.of_models.items()}
        differs = len(set(values.values())) > 1
        if axis in _OF_A_MODEL or (differs and table.place.origin.is_ours):
            found.append(_of_models(axis, values))
    return found


def _of_models(axis: str, values: Mapping[str, object]) -> str:
    told = {
        model: "not told" if value in (None, "") else str(value) for model, value in values.items()
    }
    by_value: dict[str, list[str]] = {}
    for model, value in told.items():
        by_value.setdefault(value, []).append(model)
    if len(by_value) == 1:
        return f"{axis} {next(iter(by_value))}"
    return f"{axis} " + "; ".join(
        f"{value}: {', '.join(models)}" for value, models in by_value.items()
    )


def _value(table: Table, axis: str, value: object) -> str:
    if axis == "num_gpus":
        return table.place.counted(int(str(value)))
    if axis == "model":
        return title(
            {"model": value}
            | {
                axis: of
                for axis, of in table.of_models.get(str(value), {}).items()
                if axis in _OF_A_MODEL
            }
        )
    return str(value) if value and axis in _SPEAKING else named(axis, value)


def made_with(place: Place) -> str:
    """Machine and software, one line."""
    return f"{place.machine}; {place.versions}"


def place_notes(place: Place) -> list[str]:
    """What must stand below every number of this place."""
    found = [made_with(place)]
    if place.shares_host:
        found.append(f"{place.origin} side by side with other trials on the same machine")
    if place.device_kind.note:
        found.append(place.device_kind.note)
    return found


def host_notes(results: Iterable[Result]) -> list[str]:
    """Where hosts are no machines of their own."""
    found = sorted({result.hosts for result in results if result.is_on_one_machine})
    return (
        [f"over {listed([str(hosts) for hosts in found])} hosts: {_ONE_MACHINE}"] if found else []
    )


_ONE_MACHINE = (
    "processes of one machine, which share its cores and memory; machines of their own may be "
    "faster or slower"
)


def alone_notes(results: Iterable[Result]) -> list[str]:
    """Where intervals stand beside numbers of one process."""
    is_alone = any(len(result.repeats) == 1 and result.low is not None for result in results)
    return (
        ["interval of one process alone (n 1): within it; another process may bring more, or less"]
        if is_alone
        else []
    )


def table_notes(table: Table) -> list[str]:
    """What must stand below every number of this table."""
    return [*place_notes(table.place), *host_notes(table.results)]


def notes(
    table: Table, bars: str = "bars: 95 % intervals, over processes or within the only one"
) -> list[str]:
    """What must stand below the picture of a table: of its place, and how to read its intervals and
    marks.
    """
    found = table_notes(table)
    if any(result.low is not None for result in table.results):
        found.append(bars)
    if not all(result.is_valid for result in table.results):
        found.append(f"hollow: {in_doubt(table.place)}")
    return found


def in_doubt(place: Place) -> str:
    """What a mark of doubt says of a number of this place."""
    if place.origin is Origin.PUBLISHED:
        return "left in doubt by its source"
    return f"suspect or invalid, see {typed('store')} show"
