"""Evaluates expressions of a trial's axes, as `batch_size*num_gpus`, by the library simpleeval.

They say how many items a step has, fill placeholders, make derived axes, and leave trials out.
"""

import ast
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TypeGuard

import simpleeval

from scalemark.records.axes import PREFIX, AxisValue, is_free, whole_if_equal
from scalemark.records.trial import USED_BY_PROGRAMS
from scalemark.text.wording import did_you_mean

MOST_CHARACTERS = 200
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Not)
_SIGNS = (ast.USub, ast.UAdd)
_KNOWN_NODES = (
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Name, ast.Constant),
    *(ast.Load, ast.And, ast.Or, *_ARITHMETIC, *_COMPARISONS, *_SIGNS),
)
_AXIS = re.compile(rf"(?:{re.escape(PREFIX)})?\b([A-Za-z_]\w*)", re.ASCII)
_WANTED = "wanted numbers, axes, + - * / // %, comparisons and brackets, as batch_size // num_gpus"


class ExpressionError(ValueError):
    """Raised for an expression that has no value; says what was found and what is wanted."""


def names(text: str) -> list[str]:
    """Return the axes that an expression names, each once. Raises ExpressionError."""
    named: dict[str, None] = {}
    for node in ast.walk(_parsed(text)):
        if isinstance(node, ast.Name):
            named[node.id] = None
    return list(named)


def is_computed(text: str) -> bool:
    """Return whether a text is an expression with an operator in it, whatever it names."""
    try:
        return isinstance(_parsed(text), ast.BinOp | ast.BoolOp | ast.Compare)
    except ExpressionError:
        return False


def value_of(text: str, axes: Mapping[str, AxisValue]) -> AxisValue:
    """Return the value of an expression, 2 and not 2.0; `axes` go by their bare names.

    Raises ExpressionError.
    """
    for name in names(text):
        if name in axes:
            continue
        known = [other for other, value in axes.items() if _is_number(value)]
        hint = f"wanted one of {', '.join(known)}"
        hint = did_you_mean(name, [*known, *USED_BY_PROGRAMS], hint)
        if name in USED_BY_PROGRAMS:
            hint = f"as nothing uses it; give {name}=, and write {{{name}}} into the command"
        raise ExpressionError(f"{text}: {name} is no axis of this trial, {hint}")
    evaluator = simpleeval.SimpleEval(operators=_OPERATORS, functions={}, names=dict(axes))
    try:
        value: AxisValue = evaluator.eval(text, previously_parsed=_parsed(text))
    except ArithmeticError as error:
        given = ", ".join(f"{name}={axes[name]}" for name in names(text))
        beside = f"; with {given}" if given else f"; {_WANTED}"
        raise ExpressionError(f"{text}: {error}{beside}") from error
    except (simpleeval.InvalidExpression, TypeError) as error:
        raise ExpressionError(f"{text}: {error}; {_WANTED}") from error
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        raise ExpressionError(f"{text} is {value}; wanted a finite number")
    return whole_if_equal(value)


def substituted(text: str, derived: Mapping[str, str]) -> str:
    """Return an expression with those of derived axes in place of their names.

    Raises ExpressionError for some that are derived from each other in a circle.
    """

    def of_name(name: re.Match[str]) -> str:
        if name[1] in derived:
            return f"({derived[name[1]]})"
        return name[1]

    if not derived:
        return text
    for _ in range(len(derived) + 1):
        text = _AXIS.sub(of_name, text)
    for name in _AXIS.finditer(text):
        if name[1] in derived:
            raise ExpressionError(f"axes.{name[1]}: derived from itself, perhaps by other axes")
    return text


def amount(name: str, axes: Mapping[str, AxisValue | None]) -> float | None:
    """Return what `items_per_step` or `flops_per_item` of a trial is, a number above 0; None where
    it is not given. `axes` is `TrialSpec.axes`. Raises ExpressionError.
    """
    text = str(axes.get(name) or "")
    if not text:
        return None
    try:
        value = value_of(text, bare(axes))
    except ExpressionError as error:
        raise ExpressionError(f"command.{name}={error}") from error
    if not _is_number(value) or value <= 0:
        raise ExpressionError(f"command.{name}={text} is {value}; wanted more than 0")
    return float(value)


def check(axes: Mapping[str, AxisValue | None]) -> None:
    """Raise ExpressionError for an amount that has no value."""
    amount("items_per_step", axes)
    amount("flops_per_item", axes)


def bare(axes: Mapping[str, AxisValue | None]) -> dict[str, AxisValue]:
    """Return the axes that a trial has, by the names that an expression uses."""
    by_name: dict[str, AxisValue] = {}
    for name, value in axes.items():
        if value is not None and not is_free(name):
            by_name[name] = value
    for name, value in axes.items():
        if value is not None and name.startswith(PREFIX):
            by_name.setdefault(name.removeprefix(PREFIX), value)
    return by_name


@cache
def _parsed(text: str) -> ast.expr:
    """Return the tree of an expression; cells of a grid share it. Raises ExpressionError."""
    if len(text) > MOST_CHARACTERS:
        raise ExpressionError(
            f"{text[:40]}...: {len(text)} characters; wanted {MOST_CHARACTERS} or less"
        )
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(f"{text}: {_WANTED}") from error
    for node in ast.walk(tree):
        if not isinstance(node, _KNOWN_NODES) or (
            isinstance(node, ast.Constant) and not isinstance(node.value, int | float | str)
        ):
            shown = ast.unparse(node) if isinstance(node, ast.expr) else ast.unparse(tree)
            raise ExpressionError(f"{text}: found {shown}; {_WANTED}")
    return tree


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _of_numbers(operation: Callable[..., AxisValue]) -> Callable[..., AxisValue]:
    """Return an operation that refuses text: "fp16"*2 and "%9d" % 1 mean something in Python."""

    def checked(*operands: AxisValue) -> AxisValue:
        for operand in operands:
            if not isinstance(operand, int | float):
                raise TypeError(f"found {operand}, which is no number")
        return operation(*operands)

    return checked


def _operators(kinds: Iterable[type[ast.AST]]) -> dict[type[ast.AST], Callable[..., AxisValue]]:
    return {kind: simpleeval.DEFAULT_OPERATORS[kind] for kind in kinds}


_OPERATORS = {
    **{kind: _of_numbers(how) for kind, how in _operators((*_ARITHMETIC, *_SIGNS)).items()},
    **_operators(_COMPARISONS),
}
