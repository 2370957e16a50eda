"""Runs the commands that answer questions, see `tests.app`."""

import json
from typing import Any

import pytest

from tests.app import Ended, run_app


def analysis(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> Ended:
    return run_app(capsys, monkeypatch, *arguments)


def advised(ended: Ended) -> list[dict[str, Any]]:
    """Return the answers of `advise --json`, each with its candidates as plain results."""
    assert ended.exit_code == 0, ended.stderr
    answers = json.loads(ended.stdout)["answers"]
    for answer in answers:
        answer["work"] = answer["question"]["work"]
        ranking = answer["ranking"] or {}
        for name in ("pick", "top"):
            candidate = ranking.get(name)
            answer[name] = candidate and candidate["result"] | {"score": candidate["score"]}
        for name in ("tied", "unclear", "out", "worse"):
            answer[name] = []
            for behind in ranking.get(name, []):
                candidate = behind["candidate"]
                facts = {
                    "score": candidate["score"],
                    "ratio": behind["ratio"],
                    "low": behind["low"],
                }
                answer[name].append(candidate["result"] | facts)
    return answers
