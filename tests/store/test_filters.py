"""Filters choose attempts by what is known of them; whatever stands in their values is only text."""

from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from scalemark.records.measurement import Outcome
from scalemark.records.trial import TrialSpec
from store.database import open_for_reading, reading
from store.errors import StoreError
from store.filters import attempt_ids, with_prefixes
from store.schema import AttemptRow, SweepRow, TagRow
from store.writer import Writer
from tests.filled import ENVIRONMENT, MACHINE, NOON, PLACEMENT, attempt, begin, fill
from tests.specs import small

NASTY = [
    "it's",
    'say "no"',
    "; DROP TABLE attempts; --",
    "two\nlines",
    "naïve ☃ \U0001f980",
    "%_*?[x]\\",
    "x" * 10_000,
    "=1+1",
]


def found(db: str, *filters: str, deleted: bool = False) -> list[int]:
    with reading(open_for_reading(db)) as connection:
        return sorted(connection.scalars(attempt_ids(filters, deleted=deleted)))


@pytest.fixture
def filled(db: str) -> str:
    """Attempts 1 to 4 of the first sweep, 5 and 6 of the second, which ran side by side on another machine."""
    fill(
        db,
        [
            (small(model="resnet50", num_gpus=1), 100.0),
            (small(model="resnet50", num_gpus=4), 350.0),
            (small(model="vgg16", num_gpus=4, learning_rate=0.1), None),
            (small(model="trivial", num_gpus=8, all_reduce="nccl", staged_vars=True), 50.0),
        ],
    )
    writer = Writer(db)
    newer = ENVIRONMENT | {"packages": {"tensorflow": "2.22.0"}}
    spec = small(model="Resnet_v2", num_gpus=2)
    sweep = {
        "name": "second",
        "machine": replace(MACHINE, host="other"),
        "environment": newer,
        "shares_host": True,
    }
    ledger = begin(writer, {spec: 2}, rerun=True, **sweep)
    for repeat in ledger.open_repeats():
        ledger.claim(repeat)
        beside = replace(PLACEMENT, shares_host=True)
        ledger.run(repeat, "/runs/y", beside, NOON)
        made = replace(
            attempt(spec, 70.0, repeat=repeat.repeat, environment=newer), placement=beside
        )
        ledger.finish(
            repeat.repeat_id, replace(made, started_at=NOON + timedelta(days=repeat.repeat))
        )
    writer.close()
    return db


CHOSEN: list[tuple[list[str], list[int]]] = [
    ([], [1, 2, 3, 4, 5, 6]),
    (["model=resnet50"], [1, 2]),
    (["model==resnet50"], [1, 2]),
    (["model=resnet50", "num_gpus>=4"], [2]),
    (["model=resnet50,vgg16"], [1, 2, 3]),
    (["model!=vgg16"], [1, 2, 4, 5, 6]),
    (["model!=vgg16,trivial"], [1, 2, 5, 6]),
    (["model~res*"], [1, 2]),
    (["model~?esnet[_50]*"], []),
    (["model~Resnet_*"], [5, 6]),
    (["model~*n?t*"], [1, 2, 5, 6]),
    (["num_gpus<4"], [1, 5, 6]),
    (["num_gpus>4"], [4]),
    (["num_gpus<=1"], [1]),
    (["num_gpus=1,8"], [1, 4]),
    (["learning_rate=0.1"], [3]),
    (["learning_rate>=1e-1"], [3]),
    (["staged_vars=yes"], [4]),
    (["staged_vars=FALSE", "num_gpus>2"], [2, 3]),
    (["staged_vars!=true"], [1, 2, 3, 5, 6]),
    (["strategy=replicated_nccl"], [4]),
    (["outcome=failed"], [3]),
    (["outcome!=completed"], [3]),
    (["verdict=valid"], [1, 2, 4, 5, 6]),
    (["verdict!=valid"], [3]),
    (["verdict="], [3]),
    (["throughput>=70", "throughput<300.5"], [1, 5, 6]),
    (["throughput!=100"], [2, 3, 4, 5, 6]),
    (["sweep=second"], [5, 6]),
    (["sweep~s*"], [5, 6]),
    (["host=testbox"], [1, 2, 3, 4]),
    (["gpu="], [1, 2, 3, 4, 5, 6]),
    (["repeat=2"], [6]),
    (["shares_host=no"], [1, 2, 3, 4]),
    (["shares_host=yes,no"], [1, 2, 3, 4, 5, 6]),
    (["tensorflow=2.22.0"], [5, 6]),
    (["tensorflow!=2.22.0"], [1, 2, 3, 4]),
    (["software_key="], [3]),
    (["attempt=2,6,77"], [2, 6]),
    (["attempt>4"], [5, 6]),
    (["origin="], [1, 2, 3, 4, 5, 6]),
    (["device_kind=cpu_device"], [1, 2, 3, 4, 5, 6]),
    (["started_at=2026-11-21"], [1, 2, 3, 4]),
    (["started_at=2026-11-21T12:01"], [1, 2, 3, 4]),
    (["started_at=2026-11-21T12:01:00.000001"], []),
    (["started_at>2026-11-21"], [5, 6]),
    (["started_at>=2026-11-22 12:00"], [5, 6]),
    (["started_at<2026-11-22T12:00:00"], [1, 2, 3, 4]),
    (["started_at<=2026-11-22"], [1, 2, 3, 4, 5]),
    (["started_at=2026-11-22T14:00+02:00"], [5]),
    (["started_at!=2026-11-21,2026-11-23"], [5]),
    (["num_gpus>=99999999999"], []),
]


def test_filters_choose_attempts(filled):
    assert [(filters, found(filled, *filters)) for filters, _ in CHOSEN] == CHOSEN


def with_threads(text: str) -> TrialSpec:
    return small(free=(("env.OMP_NUM_THREADS", text),))


OF_VARIABLES = [
    ("env.OMP_NUM_THREADS>=2", [2, 3]),
    ("env.OMP_NUM_THREADS>2", [3]),
    ("env.OMP_NUM_THREADS<2", [1]),
    ("OMP_NUM_THREADS>=2", [2, 3]),
    ("env.OMP_NUM_THREADS=2", [2]),
    ("env.OMP_NUM_THREADS=2.0", []),  # a variable holds its very characters
    ("env.OMP_NUM_THREADS!=2", [1, 3, 4, 5, 6]),
    ("env.OMP_NUM_THREADS=", [5]),
    ("env.OMP_NUM_THREADS=inherited", [5]),
    ("env.OMP_NUM_THREADS=null,1", [1, 5, 6]),
    ("env.OMP_NUM_THREADS!=inherited", [1, 2, 3, 4, 6]),
    ("env.OMP_NUM_THREAD!=2", []),  # misspelt
]


def test_filters_of_variables_know_numbers_and_what_is_inherited(db):
    """A bug: no trial had 2 threads or more, nor another value than 2 where it inherited one."""
    specs = [*map(with_threads, ("1", "2", "10", "1,2")), small(), with_threads("null")]
    fill(db, [(spec, 1.0) for spec in specs])
    with reading(open_for_reading(db)) as connection:
        named = [with_prefixes(connection, [text])[0] for text, _ in OF_VARIABLES]
    assert [
        (text, found(db, full)) for (text, _), full in zip(OF_VARIABLES, named, strict=True)
    ] == (OF_VARIABLES)


def test_a_trial_is_named_by_the_beginning_of_its_id(filled):
    spec = small(model="resnet50", num_gpus=4)
    assert found(filled, f"trial={spec.trial_id[:6]}") == [2]
    assert found(filled, f"trial={spec.trial_id},{small(model='resnet50').trial_id}") == [1, 2]
    assert found(filled, f"trial!={spec.trial_id}") == [1, 3, 4, 5, 6]


def test_a_tag_holds_for_the_attempts_of_its_sweep_and_its_trial(filled):
    trial_id = small(model="resnet50", num_gpus=1).trial_id
    tags = [
        {"attempt_id": 3, "tag": "odd"},
        {"trial_id": trial_id, "tag": "base"},
        {"sweep_id": 2, "tag": "baseline, new"},
    ]
    with closing(Writer(filled)) as writer, writer.engine.begin() as connection:
        for tag in tags:
            connection.execute(sa.insert(TagRow).values(**tag, added_at=NOON))
    assert found(filled, "tag=odd") == [3]
    assert found(filled, "tag=base,odd") == [1, 3]
    assert found(filled, "tag~base*") == [1, 5, 6]
    assert found(filled, r"tag=baseline\, new") == [5, 6]
    assert found(filled, "tag!=base") == [2, 3, 4, 5, 6]
    assert found(filled, "tag!=odd", "tag~base*") == [1, 5, 6]


def test_deleted_attempts_are_chosen_only_among_themselves(filled):
    with closing(Writer(filled)) as writer, writer.engine.begin() as connection:
        connection.execute(sa.update(AttemptRow).where(AttemptRow.id == 2).values(deleted_at=NOON))
    assert found(filled, "model=resnet50") == [1]
    assert found(filled, "model=resnet50", deleted=True) == [2]


def test_it_can_stand_within_another_statement_about_attempts(filled):
    statement = sa.select(AttemptRow.id).where(
        AttemptRow.repeat == 1, AttemptRow.id.in_(attempt_ids(["num_gpus>=2"]))
    )
    with reading(open_for_reading(filled)) as connection:
        assert sorted(connection.scalars(statement)) == [2, 3, 4, 5]


@pytest.mark.parametrize("value", NASTY, ids=range(len(NASTY)))
def test_any_sweep_name_can_be_filtered_by(db, value):
    fill(db, [(small(), 1.0)], name=value)
    fill(db, [(small(), 2.0)], name="another")
    escaped = value.replace(",", r"\,").replace("=1", r"\=1")
    assert found(db, f"sweep={escaped}") == [1]
    assert found(db, f"sweep!={escaped}") == [2]
    assert found(db, f"sweep~{value}") == [1]
    assert found(db, f"model={escaped}") == []
    with reading(open_for_reading(db)) as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(SweepRow)) == 2


WRONG = {
    "modle=resnet50": r"^modle: no such filter; did you mean model\?$",
    "zzzzzz=1": r"^zzzzzz: no such filter; the nearest of \d+ names are (\S+, ){7}\S+$",
    "model": r"^model: no operator found; wanted NAME, one of = != < <= > >= ~, and a value, as model=resnet50$",
    "resnet50": r"^resnet50: no operator found; .* as model=resnet50, num_gpus>=4 or sweep=resnet50$",
    "": r"^: no operator found",
    "num_gpus=four": r"^num_gpus=four: num_gpus is a whole number; found four$",
    "num_gpus>=": r"^num_gpus>=: num_gpus is a whole number; found nothing$",
    "num_gpus=1,,2": r"^num_gpus=1,,2: num_gpus is a whole number; found nothing$",
    "num_gpus=4.5": r"num_gpus is a whole number; found 4\.5",
    "num_gpus>=1,2": r"^num_gpus>=1,2: >= compares with one value; several go with = and !=$",
    "num_gpus~4": r"^num_gpus~4: ~ does not suit num_gpus; wanted one of = != < <= > >=$",
    "num_gpus=" + "9" * 5000: r"^num_gpus=9{71}\.\.\.: num_gpus is a whole number",
    "num_gpus=" + "9" * 30: r"wanted a whole number between -2\*\*63 and 2\*\*63",
    "learning_rate=fast": r"^learning_rate=fast: learning_rate is a number; found fast$",
    "learning_rate=nan": r"^learning_rate=nan: learning_rate is a number; found nan$",
    "model>=a": r"^model>=a: >= does not suit model; wanted one of = != ~$",
    "cache=1": r"^cache=1: cache is true or false, yes or no; found 1$",
    "cache>no": r"^cache>no: > does not suit cache; wanted one of = !=$",
    "outcome=complete": r"^outcome=complete: no such outcome; did you mean completed\?$",
    "verdict=good": r"^verdict=good: no such verdict; there are valid, suspect, invalid$",
    "device_kind=tpu": r"^device_kind=tpu: no such device_kind; did you mean gpu\?$",
    "trial=xyz": r"^trial=xyz: wanted the beginning of a trial's id, 4 to 16 of 0-9 and a-f; found xyz$",
    "trial=abc": r"^trial=abc: wanted the beginning of a trial's id, 4 to 16 of 0-9 and a-f; found abc$",
    "started_at=yesterday": r"^started_at=yesterday: wanted a date as 2026-11-21, or a time as .*; found yesterday$",
    "started_at=9999-12-31": r"^started_at=9999-12-31: wanted a date",
    "started_at>0001-01-01T00:00+02:00": r"wanted a date",
    "started_at=2026-02-30": r"^started_at=2026-02-30: wanted a date",
    "model=\udcff": r"^model=\\udcff: not valid UTF-8$",
    "model=a\0b": r"^model=a\\x00b: has a zero byte, which no database takes for text$",
    "model~" + "x" * 60_000: r"wanted a pattern of 20000 characters or fewer",
    "model=" + "," * 20_000: r"20001 values; wanted 10000 or fewer",
    "origin=measured": r"^origin=measured: wanted the option --origin measured; this filter is about the file",
    "\x1b[31mred=1": r"^\\x1b\[31mred=1: no operator found",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_filter_is_refused_with_what_is_wanted(text):
    with pytest.raises(StoreError, match=WRONG[text]):
        attempt_ids([text])


def test_too_many_filters_are_refused():
    with pytest.raises(StoreError, match="101 filters: wanted 100 or fewer"):
        attempt_ids(["num_gpus=1"] * 101)


@pytest.mark.integration
def test_as_many_filters_and_values_as_are_allowed_work(db):
    fill(db, [(small(), 1.0), (small(num_gpus=2), None)])
    many = ",".join(map(str, range(1, 10_001)))
    assert found(db, *["num_gpus<2"] * 99, f"num_gpus={many}") == [1]
    assert found(db, f"outcome={Outcome.FAILED}", f"num_gpus!={','.join(['1'] * 10_000)}") == [2]
