"""Trials of a user's own program lack many axes: they are stored, filtered, sorted and exchanged."""

import hashlib
import json
from dataclasses import replace

import pytest

from analysis.selection import Selection, load
from store.database import open_for_reading
from store.errors import StoreError
from store.merge import merge
from store.reading import listing, queries
from store.reading.listing import full_names
from store.tables import ReadOtherwiseError
from tests.analysis.gpu_box import on_gpus
from tests.programs import OTHERS_WORDS, REPORTED, fill_programs, program
from tests.store.command import store as store_command
from tests.tables import asked

MIXED = [
    (program(1, 0), 10.0),
    (program(2, 2, batch_size=8), 20.0),
    (program(4, 10, "none", batch_size=16, precision="bf16"), 40.0),
]


@pytest.fixture
def mixed(db: str) -> str:
    """Three trials of a program, with and without a batch size, and one of ours."""
    fill_programs([*MIXED, (on_gpus(), 50.0)], db)
    return db


def chosen(db: str, *filters: str) -> list[float]:
    engine = open_for_reading(db)
    return [
        row["throughput"]
        for row in asked(queries.measured, engine, asked(full_names, engine, filters))
    ]


def listed(db: str, *columns: str, sort: str | None = None) -> list[tuple[object, ...]]:
    engine = open_for_reading(db)
    rows = queries.selected(engine, asked(listing.listing, engine, columns=columns, sort=sort))
    return [tuple(row.values()) for row in rows]


@pytest.mark.parametrize(
    ("filters", "throughputs"),
    [
        (["batch_size>=8"], [20, 40]),
        (["batch_size<16"], [20, 50]),
        (["batch_size!=8"], [10, 40, 50]),
        (["precision=bf16"], [40]),
        (["precision!=fp32"], [10, 20, 40]),
        (["variable_update!=replicated"], [10, 20, 40]),
        (["staged_vars=no"], [50]),
        (["engine=command"], [10, 20, 40]),
        (["item=tokens", "num_gpus<4"], [10, 20]),
        (["zero>=2"], [20, 40]),
        (["zero=10", "offload~n*"], [40]),
        (["strategy=offload=cpu zero=2"], [20]),
    ],
)
def test_filters_hold_of_trials_that_have_the_axis(mixed, filters, throughputs):
    assert chosen(mixed, *filters) == throughputs


def test_a_name_of_ours_is_no_free_axis_and_a_slip_gets_the_nearest(mixed):
    engine = open_for_reading(mixed)
    assert asked(full_names, engine, ["model=train", " zero>1", "axes.zero=2"]) == [
        "model=train",
        "axes.zero>1",
        "axes.zero=2",
    ]
    with pytest.raises(StoreError, match=r"^ofload: no such filter; did you mean offload\?"):
        asked(full_names, engine, ["ofload=cpu"])
    with pytest.raises(StoreError, match=r"^modle: no such filter; did you mean model\?"):
        asked(full_names, engine, ["modle=train"])


@pytest.mark.parametrize("sort", ["batch_size", "-batch_size"])
def test_what_has_no_such_axis_comes_last(mixed, sort):
    rows = listed(mixed, "batch_size", "throughput", sort=sort)
    assert rows[-1] == (None, 10.0)
    known = [batch_size for batch_size, _ in rows[:-1]]
    assert known == sorted(known, reverse=sort.startswith("-"))


def test_free_axes_are_columns_by_their_bare_names(mixed):
    assert listed(mixed, "zero", "item", sort="-zero")[0] == (10, "tokens")


def test_views_have_what_was_counted_and_nulls_for_what_is_lacked(mixed):
    statement = 'SELECT item, precision, batch_size, "axes.zero", speed_up FROM scaling ORDER BY'
    with queries.queried(open_for_reading(mixed), f"{statement} throughput") as (names, rows):
        assert list(names) == ["item", "precision", "batch_size", "axes.zero", "speed_up"]
        assert [tuple(row) for row in rows] == [
            ("tokens", None, None, 0, 1.0),
            ("tokens", None, 8, 2, None),
            ("tokens", "bf16", 16, 10, None),
            ("tokens", "fp32", 2, None, 1.0),
        ]


def test_a_reported_number_travels_and_stays_one():
    fill_programs([(program(), 10.0)], "r.db", measured=REPORTED)
    merge("other.db", ["r.db"])
    for name in ("r.db", "other.db"):
        (result,) = load(Selection(db=name))
        assert result.is_reported
        assert listed(name, "reported", "median_step_s") == [(True, None)]


def test_show_and_list_name_no_axis_that_a_program_lacks(db):
    fill_programs(MIXED[:1], db)
    for arguments in (("list",), ("show", MIXED[0][0].trial_id)):
        shown = store_command(*arguments, "--db", db).stdout
        assert "offload=cpu zero=0" in shown
        trial = shown.partition("\nattempt 1")[0]
        assert [word for word in OTHERS_WORDS if word in trial] == []


def test_show_has_the_command_line_once(db):
    fill_programs(MIXED[:1], db)
    shown = store_command("show", MIXED[0][0].trial_id, "--db", db).stdout
    assert shown.count("torchrun --nproc-per-node={num_gpus}") == 1
    found = json.loads(store_command("show", MIXED[0][0].trial_id, "--db", db, "--json").stdout)
    assert found["trial"]["command"] == MIXED[0][0].command


def test_what_is_compared_is_no_part_of_a_trial_and_may_change(db):
    spec = MIXED[0][0]
    compared = replace(spec, compare="axes.zero")
    assert (compared.trial_id, compared.curve) == (spec.trial_id, spec.curve)
    fill_programs([(spec, 10.0)], db)
    fill_programs([(compared, 12.0)], db, name="second")
    assert listed(db, "trial_id", "strategy") == [(spec.trial_id, "zero=0")] * 2
    checked = store_command("db", "check", "--db", db)
    assert checked.returncode == 0, checked.stdout


def test_how_a_program_is_read_is_no_part_of_a_trial_and_changes_until_numbers_are_read(db):
    spec = MIXED[0][0]
    other = replace(spec, read="keras", item="samples", per_gpu=True)
    assert other.trial_id == spec.trial_id
    fill_programs([(spec, None)], db)  # its output was not read
    fill_programs([(other, 12.0)], db, name="second")
    assert listed(db, "trial_id", "read") == [(spec.trial_id, "keras")] * 2
    assert store_command("db", "check", "--db", db).returncode == 0
    with pytest.raises(ReadOtherwiseError) as refused:
        fill_programs([(spec, 10.0)], db, name="third")
    assert str(refused.value).startswith(
        f"trial {spec.trial_id[:8]} has numbers that were read with command.read=keras "
        "command.item=samples command.per_gpu=true; give that again, or `scalemark "
        "read --sweep second command.read=json command.item=tokens command.per_gpu=false"
    )


def test_numbers_of_two_readings_of_a_trial_are_not_merged(db):
    spec = MIXED[0][0]
    fill_programs([(replace(spec, read="keras"), 12.0)], "keras.db")
    fill_programs([(spec, 10.0)], "json.db")
    with pytest.raises(ReadOtherwiseError):
        merge("json.db", ["keras.db"])
    assert listed("json.db", "read", "throughput") == [("json", 10.0)]


def test_the_id_of_a_trial_from_when_its_reading_was_a_part_of_it_is_known():
    spec = MIXED[0][0]
    values = {
        name: value for name, value in json.loads(spec.to_json()).items() if name != "compare"
    }
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    earlier = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert earlier != spec.trial_id
    assert spec.has_id(earlier)
    assert not replace(spec, read="keras").has_id(earlier)


def test_a_list_of_other_items_than_images_names_them(mixed):
    header, *rows = store_command("list", "--db", mixed).stdout.splitlines()
    assert "throughput  item" in header
    assert all(" tokens " in row for row in rows)
