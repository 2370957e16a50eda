"""The frame of a comparison: one row per pair of trials that are equal but for what is compared."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.compare.compare_words import sentence
from analysis.compare.pairs import paired
from analysis.compare.rows import Row, rows_of
from analysis.compare.sides import Side
from analysis.statistics.judgement import Answer
from frames.empty import frame

_NUMBERS = {
    "a": "str",
    "b": "str",
    "a_throughput": "float64",
    "b_throughput": "float64",
    "item": "str",
    "ratio": "float64",
    "ratio_low": "float64",
    "ratio_high": "float64",
    "answer": "str",
    "is_sure": "bool",
    "a_num_repeats": "int64",
    "b_num_repeats": "int64",
    "why": "str",
    "a_trial_id": "str",
    "b_trial_id": "str",
}


def comparison_frame(a: Side, b: Side, *, trust_steps: bool) -> pd.DataFrame:
    """Raises StoreError where no two trials can be compared, with the reason."""
    rows = list(rows_of(paired(a, b).pairs, a, b, trust_steps=trust_steps))
    apart = dict.fromkeys((axis for row in rows for axis in row.pair.setting), "object")
    dtypes = apart | _NUMBERS
    return frame([_record(row) for row in rows], dtypes).infer_objects()


def _record(row: Row) -> dict[str, Any]:
    a, b, judged = row.pair.a, row.pair.b, row.judgement
    return {
        **row.pair.setting,
        "a": row.name_a,
        "b": row.name_b,
        "a_throughput": a.throughput,
        "b_throughput": b.throughput,
        "item": a.item if b.throughput is None else b.item,
        "ratio": judged and judged.ratio.ratio,
        "ratio_low": judged and judged.ratio.low,
        "ratio_high": judged and judged.ratio.high,
        "answer": _answer(row),
        "is_sure": judged is not None and judged.is_sure,
        "a_num_repeats": len(a.repeats),
        "b_num_repeats": len(b.repeats),
        "why": sentence(row),
        "a_trial_id": a.trial_id,
        "b_trial_id": b.trial_id,
    }


def _answer(row: Row) -> str:
    if row.judgement is None:
        return "nothing to compare"
    if row.judgement.answer is not Answer.DIFFERENT:
        return str(row.judgement.answer)
    return "a is faster" if row.judgement.ratio.ratio > 1 else "b is faster"
