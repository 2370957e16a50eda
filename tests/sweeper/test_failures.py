"""What is said of failures when a sweep has ended."""

from sweeper.report import MOST_SHOWN, Failure, in_lines


def failure(label: str, ended: str, why: str) -> Failure:
    return Failure(label=label, ended=ended, why=why, log=f"runs/{label}/log.txt")


def test_equal_reasons_are_told_once_with_every_log(snapshot):
    unread = "found no number.\nIts last lines:\n" + "\n".join(f"hello {n}" for n in range(20))
    failures = [
        failure("train.py-zero=0-x1", "invalid", unread),
        failure("train.py-zero=1-x1", "failed", "exit code 1: ValueError: three"),
        failure("train.py-zero=0-x2", "invalid", unread),
        Failure(label="train.py-zero=1-x2 repeat 1", ended="skipped", why="interrupted 5 times"),
    ]
    assert "\n".join(in_lines(failures)) == snapshot


def test_failures_that_are_not_listed_are_counted():
    failures = [failure(f"trial-{n}", "failed", "no room") for n in range(MOST_SHOWN + 2)]
    first, *others, last = in_lines(failures)
    assert (first, len(others), last) == (f"{MOST_SHOWN} failed: no room", MOST_SHOWN, "and 2 more")
