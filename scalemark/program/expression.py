"""Evaluates how many items a step has: `command.items_per_step=batch_size*num_gpus*seq_len`."""

from __future__ import annotations

import ast
import difflib
import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeGuard

from scalemark.records.axes import AxisValue
from scalemark.records.free_axes import PREFIX, is_free
from scalemark.records.trial import USED_BY_PROGRAMS

MOST_CHARACTERS = 200
_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
_WANTED = "wanted numbers, axes, + - * / // and brackets, as batch_size*num_gpus*seq_len"


class ExpressionError(ValueError):
    """Raised for an expression that has no value; says what was found and what is wanted."""


def names(text: str) -> list[str]:
    """Return the axes that an expression names, each once. Raises ExpressionError."""
    found: dict[str, None] = {}
    for node in ast.walk(_parsed(text)):
        if isinstance(node, ast.Name):
            found[node.id] = None
    return list(found)


def problems(text: str, known: Mapping[str, AxisValue]) -> Iterator[str]:
    """Say in a sentence each what is wrong with it; `known` are axes by their bare names."""
    try:
        used = names(text)
    except ExpressionError as error:
        yield str(error)
        return
    for name in used:
        if name not in known:
            hint = _hint(name, [one for one, value in known.items() if _is_number(value)])
            yield f"command.items_per_step={text}: {name} is no axis of this trial, {hint}"


def evaluated(text: str, axes: Mapping[str, AxisValue | None]) -> float:
    """Return a number above 0. `axes` is `TrialSpec.axes`. Raises ExpressionError."""
    bare = _bare(axes)
    for problem in problems(text, bare):
        raise ExpressionError(problem)
    try:
        value = float(_value(_parsed(text), bare, text))
    except (ZeroDivisionError, OverflowError) as error:
        raise ExpressionError(f"command.items_per_step={text}: {error}; {_WANTED}") from error
    if not 0 < value < math.inf:
        raise ExpressionError(f"command.items_per_step={text} is {value:g}; wanted more than 0")
    return value


def _hint(name: str, known: Collection[str]) -> str:
    """Name the nearest axis of numbers, or how a trial gets that axis."""
    if name in USED_BY_PROGRAMS:
        return f"as nothing uses it; give {name}=, and write {{{name}}} into the command"
    near = difflib.get_close_matches(name, [*known, *USED_BY_PROGRAMS], n=1)
    return f"did you mean {near[0]}?" if near else f"wanted one of {', '.join(known)}"


def _bare(axes: Mapping[str, AxisValue | None]) -> dict[str, AxisValue]:
    """Return the axes that a trial has by the names that an expression uses."""
    found: dict[str, AxisValue] = {}
    for name, value in axes.items():
        if value is not None and not is_free(name):
            found[name] = value
    for name, value in axes.items():
        if value is not None and name.startswith(PREFIX):
            found.setdefault(name.removeprefix(PREFIX), value)
    return found


def _parsed(text: str) -> ast.expr:
    """Return the tree of an expression that `_value` can compute. Raises ExpressionError."""
    if len(text) > MOST_CHARACTERS:
        raise ExpressionError(
            f"command.items_per_step={text[:40]}...: {len(text)} characters; wanted "
            f"{MOST_CHARACTERS} or less"
        )
    try:
        body = ast.parse(text.strip(), mode="eval").body
        _check(body, text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, ExpressionError):
            raise
        raise ExpressionError(f"command.items_per_step={text}: {_WANTED}") from error
    return body


def _check(node: ast.expr, text: str) -> None:
    if isinstance(node, ast.Name):
        return
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        _check(node.left, text)
        _check(node.right, text)
        return
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        _check(node.operand, text)
        return
    raise ExpressionError(f"command.items_per_step={text}: found {ast.unparse(node)}; {_WANTED}")


def _value(node: ast.expr, axes: Mapping[str, AxisValue], text: str) -> float:
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, int | float)  # `_check` let nothing else pass
        return node.value
    if isinstance(node, ast.Name):
        return _number(node.id, axes[node.id], text)
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, axes, text), _value(node.right, axes, text)
        return _OPERATIONS[type(node.op)](left, right)
    assert isinstance(node, ast.UnaryOp)
    value = _value(node.operand, axes, text)
    return -value if isinstance(node.op, ast.USub) else value


def _number(name: str, value: AxisValue, text: str) -> float:
    if not _is_number(value):
        raise ExpressionError(
            f"command.items_per_step={text}: {name}={value}; wanted an axis of numbers"
        )
    return value


def _is_number(value: AxisValue) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
