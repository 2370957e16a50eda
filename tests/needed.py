"""What some tests need of the machine."""

import os

import pytest


def needed(complaint: str, *, in_ci: bool = os.environ.get("CI") == "true") -> None:
    """With a complaint the test is skipped, and fails in CI, where nothing may be left out unnoticed."""
    if complaint and in_ci:
        pytest.fail(complaint, pytrace=False)
    if complaint:
        pytest.skip(complaint)
