"""Vega-Lite specifications of the page's charts, without data: the page's script gives them rows,
and the texts of their axes.

Colors are the page's CSS variables, so that a chart follows the page from light to dark and onto
paper without being drawn again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plots.looks import NUM_COLORS

Spec = dict[str, Any]

PATHS = {  # as Vega draws these shapes, for the buttons that show and hide lines
    "circle": "M4 0a4 4 0 1 1-8 0a4 4 0 1 1 8 0Z",
    "square": "M-4-4h8v8h-8Z",
    "triangle-up": "M0-4.5 4.5 4h-9Z",
    "diamond": "M0-5 5 0 0 5-5 0Z",
    "cross": "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3Z",
    "triangle-down": "M0 4.5 4.5-4h-9Z",
}
SHAPES = tuple(PATHS)
DASHES = ((1, 0), (6, 3), (2, 2), (8, 2, 2, 2))


def style(index: int) -> dict[str, Any]:
    """Of the line of this number: told apart by color, in grey by shape, and beyond the number of
    colors by dashes.
    """
    return {
        "color": f"var(--s{index % NUM_COLORS})",
        "shape": SHAPES[index % len(SHAPES)],
        "dash": list(DASHES[index // NUM_COLORS % len(DASHES)]),
    }


def specs() -> dict[str, Spec]:
    """By kind of chart."""
    return {
        "scaling": _lines("throughput", ",.4~r", interval=True),
        "speed_up": _lines("speed_up", ".3~r", interval=False),
        "efficiency": _lines("efficiency", ".0%", interval=False),
        "heat_map": _heat_map(),
        "steps": _steps(),
    }


def _base() -> Spec:
    return {
        "height": 260,
        "background": "transparent",
        "autosize": {"type": "fit-x", "contains": "padding"},  # the page says how wide
        "config": {
            "aria": False,  # the container says what it is, and where the numbers stand
            # as the page has it: the width of a text is measured before it is drawn
            "font": "system-ui, sans-serif",
            "view": {"stroke": None},
            "axis": {
                **dict.fromkeys(("labelColor", "titleColor"), "var(--ink)"),
                **dict.fromkeys(("domainColor", "tickColor"), "var(--faint)"),
                "gridColor": "var(--line)",
                "titleFontWeight": "normal",
                "labelFontSize": 12,
                "titleFontSize": 12,
                "labelLimit": 220,
            },
            "legend": dict.fromkeys(("labelColor", "titleColor"), "var(--ink)")
            | {"titleFontWeight": "normal"},
        },
    }


_HOVER = (
    ("series", "line"),
    ("num_gpus", "devices"),
    ("images", "images/s"),
    ("interval", "95 % interval"),
    ("repeats", "processes"),
    ("speed_up_text", "speed-up"),
    ("efficiency_text", "efficiency"),
    ("verdict", "verdict"),
)


def _tooltip(told: Sequence[tuple[str, str]]) -> list[Spec]:
    return [{"field": field, "title": title, "type": "nominal"} for field, title in told]


def _lines(quantity: str, form: str, *, interval: bool) -> Spec:
    """Layers: ideal line first, intervals, lines, points. Scales' domains and ranges come with the
    rows.
    """
    own = {"field": "series", "type": "nominal", "legend": None}
    color, dash, shape = {"color": own}, {"strokeDash": own}, {"shape": own}
    y = {"field": quantity, "type": "quantitative"}
    layers: list[Spec] = [
        {
            "data": {"name": "ideal"},
            "mark": {"type": "line", "strokeDash": [3, 3], "color": "var(--faint)"},
            "encoding": {"y": {"field": "ideal", "type": "quantitative"}},
        }
    ]
    if interval:
        limits = {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}}
        layers.append({"mark": {"type": "rule", "strokeWidth": 1.5}, "encoding": limits | color})
    layers += [
        {"mark": {"type": "line", "strokeWidth": 2}, "encoding": {"y": y} | color | dash},
        {
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
            "encoding": {"y": y, "tooltip": _tooltip(_HOVER)} | color | shape,
        },
    ]
    return _base() | {
        "data": {"name": "points"},
        "encoding": {
            "x": {
                "field": "num_gpus",
                "type": "quantitative",
                "scale": {"zero": True, "nice": False},
                "axis": {"format": "d", "grid": False},
            },
            "y": {
                "type": "quantitative",
                "scale": {"zero": True},
                "axis": {"format": form, "tickCount": 5},
            },
        },
        "layer": layers,
    }


def _heat_map() -> Spec:
    """A row per table, a column per strategy; color is the share of the row's best, so that rows
    can be compared.
    """
    hover = (("row", "table"), *_HOVER[1:], ("share_text", "of the best"))
    return _base() | {
        "data": {"name": "points"},
        "encoding": {
            "y": {"field": "row", "type": "nominal", "axis": {"title": None}},
            "x": {
                "field": "series",
                "type": "nominal",
                "axis": {"title": None, "labelAngle": -30, "orient": "top"},
            },
        },
        "layer": [
            {
                "mark": {"type": "rect", "stroke": "var(--line)"},
                "encoding": {
                    "color": {
                        "field": "share",
                        "type": "quantitative",
                        "scale": {"domain": [0, 1], "range": ["#f3f6fa", "#08519c"]},
                        "legend": {
                            "title": "of the row's best",
                            "format": ".0%",
                            "orient": "bottom",
                            "gradientLength": 160,
                        },
                    },
                    "tooltip": [
                        {"field": "series", "title": "strategy", "type": "nominal"},
                        *_tooltip(hover),
                    ],
                },
            },
            {
                "mark": {"type": "text", "fontSize": 12},
                "encoding": {
                    "text": {"field": "text", "type": "nominal"},
                    "color": {
                        "condition": {"test": "datum.share > 0.55", "value": "#ffffff"},
                        "value": "#111111",
                    },
                },
            },
        ],
    }


def _steps() -> Spec:
    """Time of each call; warm-up hollow, steady state filled, the median a line."""
    repeat = {
        "field": "repeat",
        "type": "nominal",
        "legend": {"title": "repeat", "orient": "bottom"},
    }
    hover = (
        ("number", "call"),
        ("ms", "ms"),
        ("phase", "phase"),
        ("repeat", "repeat"),
        ("attempt", "attempt"),
    )
    return _base() | {
        "data": {"name": "points"},
        "encoding": {
            "x": {
                "field": "number",
                "type": "quantitative",
                "scale": {"zero": False, "nice": False},
                "axis": {
                    "title": "call of the training function",
                    "format": "d",
                    "tickMinStep": 1,
                    "grid": False,
                },
            },
            "y": {
                "field": "ms",
                "type": "quantitative",
                "scale": {"zero": True},
                "axis": {"title": "ms per call", "tickCount": 5},
            },
        },
        "layer": [
            {
                "mark": {"type": "point", "size": 28, "opacity": 1},
                "encoding": {
                    "stroke": repeat,
                    "fillOpacity": {
                        "condition": {"test": "datum.phase == 'warm-up'", "value": 0},
                        "value": 1,
                    },
                    "fill": repeat,
                    "tooltip": _tooltip(hover),
                },
            },
            {
                "data": {"name": "medians"},
                "mark": {"type": "rule", "strokeDash": [4, 3], "color": "var(--ink)"},
                "encoding": {"x": None, "y": {"field": "median", "type": "quantitative"}},
            },
        ],
    }
