"""Who was put out of a race is known by the reason of its repeats, as sweeps word it and once worded it."""

import pytest

from store.database import open_for_reading
from store.reading.raced_out import raced_out
from store.writer import Writer
from tests.filled import NOON, begin, make_empty
from tests.specs import small


def put_out(reason: str) -> list[str]:
    make_empty("r.db")
    writer = Writer("r.db")
    raced = begin(writer, {small(): 2}, name="race")
    raced.skip([repeat.repeat_id for repeat in raced.open_repeats()], reason, NOON)
    raced.end(NOON, finished=True)
    writer.close()
    return list(raced_out(open_for_reading("r.db")).values())


@pytest.mark.parametrize("word", ["behind", "slower than"])
def test_both_wordings_of_a_race_are_read(word):
    reason = f"race: 12.3 % {word} ps_cpu (at least 8.1 %) after 2 repeats; the others would hardly make it lead"
    assert put_out(reason) == [reason]


@pytest.mark.parametrize(
    "reason",
    ["race: it ended as out_of_memory", "race: decided, enough repeats of it are completed"],
)
def test_who_failed_or_needs_no_more_repeats_was_not_put_out(reason):
    assert put_out(reason) == []
