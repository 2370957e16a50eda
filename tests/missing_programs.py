"""What a test run says at its end of tests that were skipped for want of programs: which scripts would make them run."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

_SCRIPT = re.compile(r"\bscripts/install-[\w-]+")


def advice(reasons: Iterable[str]) -> str:
    """One line of the scripts that these reasons name, and how many tests each would make run; empty where none is named."""
    counts = Counter(found[0] for reason in reasons if (found := _SCRIPT.search(reason)))
    if not counts:
        return ""
    reported = ", ".join(f"{script} ({num})" for script, num in counts.most_common())
    num = counts.total()
    return f"{num} {'test was' if num == 1 else 'tests were'} skipped for want of programs, which these scripts install: {reported}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Say it below pytest's own summaries, and above its closing line."""
    yield
    if line := advice(str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())):
        terminalreporter.write_line(line, yellow=True)
