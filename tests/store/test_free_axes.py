"""Axes that a sweep brought itself are stored, filtered and read like ours."""

import pytest
import sqlalchemy as sa

import store.tables
from analysis.selection import Selection, load
from scalemark.records.axes import AxisValue
from scalemark.records.trial import AXES, TrialSpec
from store.checks import check
from store.database import open_for_reading
from store.errors import StoreError
from store.filters import attempt_ids, nearest
from store.merge import merge
from store.reading import listing, queries
from store.tables import WITH_AXES
from store.writer import Writer
from tests.filled import begin, fill
from tests.programs import program
from tests.specs import small
from tests.store.command import store as store_command
from tests.tables import asked, changing

PUBLIC_RIGHTS = """
SELECT relname FROM pg_class
WHERE relkind = 'v' AND relnamespace = current_schema()::regnamespace
      AND has_table_privilege('public', oid, 'SELECT') ORDER BY 1
"""


def trial(**free: AxisValue) -> TrialSpec:
    return small(free=tuple(free.items()))


def chosen(db: str, *filters: str) -> list[float]:
    rows = asked(queries.measured, open_for_reading(db), filters)
    return [row["throughput"] for row in rows]


def reported(db: str, sql: str) -> list[tuple[object, ...]]:
    with open_for_reading(db).connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text(sql))]


def test_a_free_axis_belongs_to_the_identity_whatever_its_order():
    assert trial(zero=1, offload="cpu") == trial(offload="cpu", zero=1)
    assert trial(zero=1).trial_id != trial(zero=2).trial_id != small().trial_id
    assert TrialSpec.from_json(trial(zero=1).to_json()) == trial(zero=1)
    assert TrialSpec.of_axes(trial(zero=1).axes) == trial(zero=1)


def test_one_and_true_are_two_values_and_one_and_1_0_are_not():
    assert trial(zero=1) != trial(zero=True)
    assert trial(zero=1) == trial(zero=1.0) == trial(zero="1")
    assert trial(zero=0.00001) == trial(zero="1e-05")
    assert trial(zero=True) == trial(zero="true")
    assert TrialSpec.from_json('{"free":{"zero":true},' + small().to_json()[1:]) == trial(zero=True)


@pytest.mark.parametrize("text", ["2.10", "1.0", "007", "1_000", "nan", "inf", "1e5"])
def test_text_that_is_written_otherwise_than_the_number_stays_text(text):
    assert trial(zero=text).axes["axes.zero"] == text


@pytest.mark.parametrize("value", [1e16, -1e300, 2**53 - 1, 1e-300, "1e+16"])
def test_a_large_or_small_number_comes_back_from_its_record(value):
    assert TrialSpec.from_json(trial(zero=value).to_json()) == trial(zero=value)


def test_names_of_ours_are_taken_by_nobody(db):
    """An axis or a column that is defined later leaves older trials as they were."""
    spec = trial(num_gpus=16, host="far", id="a", throughput=2, strategy="mine")
    fill(db, [(spec, 10.0), (small(), 20.0)])
    assert spec.num_gpus == small().num_gpus
    assert [result.spec for result in load(Selection(db=db))] == [spec, small()]
    assert chosen(db, "axes.num_gpus=16") == [10.0]
    assert chosen(db, "num_gpus=16") == []
    assert reported(db, 'SELECT "axes.host" FROM throughput WHERE throughput = 10') == [("far",)]


@pytest.mark.parametrize("name", ["", "Zero", "1st", "a-b", "a" * 41])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(ValueError, match=f"axes.{name}: "):
        trial(**{name: 1})


@pytest.mark.parametrize("value", [1, "a"])
def test_an_axis_with_and_without_its_prefix_is_named_twice(value):
    with pytest.raises(ValueError, match=r"axes\.zero is named twice"):
        trial(**{"zero": 1, "axes.zero": value})


@pytest.mark.parametrize("value", [float("nan"), "", "two\nlines", None, [1], 2**53])
def test_a_value_that_no_table_can_show_is_refused(value):
    with pytest.raises(ValueError, match=r"axes\.zero="):
        trial(zero=value)


def test_a_word_that_is_read_as_no_number_is_refused_with_how_to_quote_it():
    with pytest.raises(ValueError, match=r"""text stands in quotes, as "\+axes\.zero='nan'"$"""):
        trial(zero=float("nan"))


def test_each_is_a_column_of_the_table_and_of_every_view(db):
    fill(db, [(trial(zero=1, order="up"), 10.0), (small(), 20.0)])
    assert reported(db, 'SELECT "axes.zero", "axes.order" FROM trials ORDER BY 1') in (
        [(None, None), (1, "up")],  # SQLite has nulls first
        [(1, "up"), (None, None)],
    )
    for view in WITH_AXES:
        names = open_for_reading(db).connect().execute(sa.text(f"SELECT * FROM {view}")).keys()
        assert {"axes.zero", "axes.order", "strategy", *AXES} <= set(names)
    assert reported(db, 'SELECT throughput FROM throughput WHERE "axes.zero" = 1') == [(10.0,)]


def test_its_column_becomes_wider_when_it_must(db):
    fill(db, [(trial(zero=1), 10.0)], name="whole")
    fill(db, [(trial(zero=2.5), 20.0)], name="numbers")
    assert reported(db, 'SELECT "axes.zero" FROM trials ORDER BY 1') == [(1.0,), (2.5,)]
    fill(db, [(trial(zero=True), 30.0), (trial(zero="off"), 40.0)], name="words")
    assert {zero for (zero,) in reported(db, 'SELECT "axes.zero" FROM trials')} == {
        "1",
        "2.5",
        "true",
        "off",
    }


def test_its_column_stays_when_it_holds_the_value_already(db, monkeypatch):
    fill(db, [(trial(zero=2.5, offload="cpu"), 10.0)], name="first")

    def refuse(connection: sa.Connection) -> None:
        raise AssertionError("a column changes its type")

    monkeypatch.setattr(store.tables, "drop_views", refuse)
    fill(db, [(trial(zero=1, offload=2.5), 20.0)], name="second")
    assert sorted(reported(db, 'SELECT "axes.zero", "axes.offload" FROM trials')) == [
        (1.0, "2.5"),
        (2.5, "cpu"),
    ]


def test_results_keep_their_values_when_its_column_becomes_wider(db):
    specs = [trial(zero=1), trial(zero=2.5), trial(zero="1.0"), trial(zero=True)]
    for number, spec in enumerate(specs):
        fill(db, [(spec, 10.0)], name=f"sweep {number}")
    assert [result.spec for result in load(Selection(db=db))] == specs
    assert list(check(db)) == []


def test_a_changed_value_of_a_free_axis_is_found(db):
    fill(db, [(trial(zero=1), 10.0), (small(), 20.0)])
    with changing(db) as connection:
        connection.execute(sa.text('UPDATE trials SET "axes.zero" = 5'))
    assert sorted(finding.what for finding in check(db)) == [
        "columns differ from its spec: axes.zero=5 (spec: 1)",
        "columns differ from its spec: axes.zero=5 (spec: None)",
    ]


@pytest.mark.integration
def test_a_new_axis_keeps_rights_and_views_of_others(postgresql_url):
    fill(postgresql_url, [(small(), 10.0)])
    with changing(postgresql_url) as connection:
        connection.execute(sa.text("GRANT SELECT ON throughput, scaling TO PUBLIC"))
        connection.execute(sa.text("CREATE VIEW mine AS SELECT throughput, model FROM throughput"))
    fill(postgresql_url, [(trial(zero=1), 20.0)], name="second")
    assert reported(postgresql_url, "SELECT throughput FROM mine ORDER BY 1") == [(10.0,), (20.0,)]
    assert reported(postgresql_url, 'SELECT "axes.zero" FROM scaling ORDER BY 1') == [(1,), (None,)]
    assert reported(postgresql_url, PUBLIC_RIGHTS) == [("scaling",), ("throughput",)]


@pytest.mark.integration
def test_a_wider_axis_names_a_view_that_is_in_the_way(postgresql_url):
    fill(postgresql_url, [(trial(zero=1), 10.0)])
    with changing(postgresql_url) as connection:
        connection.execute(sa.text("CREATE VIEW mine AS SELECT throughput FROM throughput"))
    writer = Writer(postgresql_url)
    with pytest.raises(StoreError, match="view mine depends on view throughput"):
        begin(writer, {trial(zero="off"): 1}, name="second")
    writer.close()
    with changing(postgresql_url) as connection:
        connection.execute(sa.text("DROP VIEW mine"))
    fill(postgresql_url, [(trial(zero="off"), 20.0)], name="second")
    assert reported(postgresql_url, 'SELECT "axes.zero" FROM scaling ORDER BY 1') == [
        ("1",),
        ("off",),
    ]


def test_filters_compare_numbers_as_numbers_and_words_as_words(db):
    fill(
        db,
        [
            (trial(zero=1), 10.0),
            (trial(zero=2), 20.0),
            (trial(zero="off"), 30.0),
            (trial(zero=False), 40.0),
            (small(), 50.0),
        ],
    )
    assert chosen(db, "axes.zero>=1.5") == [20.0]
    assert chosen(db, "axes.zero=1,off") == [10.0, 30.0]
    assert chosen(db, "axes.zero=false") == [40.0]
    assert chosen(db, "axes.zero!=1") == [20.0, 30.0, 40.0]  # the last trial has no such axis
    assert chosen(db, "axes.misspelt!=1") == []
    assert chosen(db, "axes.zero~o*") == [30.0]
    assert chosen(db, "axes.zero=") == [50.0]
    assert chosen(db, "axes.nobody=1") == []
    with pytest.raises(StoreError, match="zero: no such filter"):
        attempt_ids(["zero=1"])


def test_text_like_a_number_is_no_number_to_filters(db):
    fill(db, [(trial(zero=2), 10.0), (trial(zero="2.0"), 20.0), (trial(zero="1e999"), 30.0)])
    assert chosen(db, "axes.zero>=1") == [10.0]
    assert chosen(db, "axes.zero=2") == [10.0]
    assert chosen(db, "axes.zero=2.0") == [10.0, 20.0]
    assert chosen(db, "axes.zero=1e999") == [30.0]


@pytest.mark.parametrize("text", ["1_0", "١٠", "１０", "infinity", "nan", "0x10"])
def test_a_number_is_written_in_plain_digits(db, text):
    """A bug: `axes.tag=1_0` chose trials with `tag=10`, as Python reads it so."""
    fill(db, [(trial(zero=10), 10.0), (trial(zero=text), 20.0)])
    assert chosen(db, f"axes.zero={text}") == [20.0]
    for wrong in (f"axes.zero>={text}", f"num_gpus={text}", f"throughput<{text}"):
        with pytest.raises(StoreError, match="number"):
            chosen(db, wrong)
    assert chosen(db, "axes.zero = 10") == chosen(db, "num_gpus = 1 ", "axes.zero=10") == [10.0]


def test_a_misspelt_name_is_near_with_and_without_the_prefix():
    assert nearest("zeros", ["model", "axes.zero"]) == "did you mean zero?"
    names = ["model", "num_gpus", *(f"a{number}" for number in range(50)), "foreign"]
    assert nearest("foo", names[:9]).startswith("there are model, num_gpus, a0")
    of_many = nearest("foo", names)
    assert of_many.startswith("the nearest of 53 names are foreign, ")
    assert of_many.count(",") == 7
    assert nearest("axes.zer", ["model", "axes.zero"]) == "did you mean axes.zero?"


def test_lists_have_it(db):
    fill(db, [(trial(zero=1), 10.0), (small(), 20.0)])
    engine = open_for_reading(db)
    listed = asked(listing.listing, engine, columns=["attempt", "axes.zero"], sort="-axes.zero")
    assert queries.selected(engine, listed) == [
        {"attempt": 1, "axes.zero": 1},
        {"attempt": 2, "axes.zero": None},
    ]
    with pytest.raises(StoreError, match=r"axes.zeros: no such column; did you mean axes.zero\?"):
        asked(listing.listing, engine, columns=["axes.zeros"])


def test_results_keep_it_apart_and_name_it(db):
    fill(db, [(trial(zero=1), 10.0), (trial(zero=2), 20.0), (small(), 30.0)])
    results = load(Selection(db=db))
    assert [result.free for result in results] == [{"axes.zero": 1}, {"axes.zero": 2}, {}]
    assert len({result.curve for result in results}) == 3
    assert [result.spec for result in results] == [trial(zero=1), trial(zero=2), small()]


def test_an_environment_variable_is_a_column_like_any_other(db):
    ring, tree = (small(free=(("env.NCCL_ALGO", value),)) for value in ("Ring", "Tree"))
    fill(db, [(ring, 10.0), (tree, 20.0), (small(), 30.0)])
    assert chosen(db, "env.NCCL_ALGO=Ring") == chosen(db, "env.NCCL_ALGO~Ri*") == [10.0]
    assert chosen(db, "env.NCCL_ALGO=") == [30.0]
    sql = "SELECT throughput FROM throughput WHERE \"env.NCCL_ALGO\" = 'Tree'"
    assert reported(db, sql) == [(20.0,)]
    listed = store_command("list", "--db", db, "NCCL_ALGO=Tree", "--columns", "env.NCCL_ALGO")
    assert listed.stdout.split() == ["env.NCCL_ALGO", "Tree"]
    assert [result.spec for result in load(Selection(db=db))] == [ring, tree, small()]
    assert list(check(db)) == []


def test_a_list_tells_variables_apart_and_says_who_inherits(db):
    """A bug: rows of two values looked alike, and one that inherits was blank."""
    threads = [small(free=(("env.OMP_NUM_THREADS", value),)) for value in ("1", "2")]
    fill(db, [*((spec, 10.0) for spec in threads), (small(), 30.0)])
    lines = store_command("list", "--db", db).stdout.splitlines()
    place = lines[0].split().index("env.OMP_NUM_THREADS")
    assert [line.split()[place] for line in lines[1:]] == ["1", "2", "inherited"]


def test_a_list_repeats_no_axis_that_strategies_name(db):
    fill(db, [(program(zero=0), 10.0), (program(zero=2, compare="axes.zero"), 20.0)])
    heading, *lines = store_command("list", "--db", db).stdout.splitlines()
    assert "axes.zero" not in heading  # `zero=0 offload=cpu`, and `zero=2`
    assert "axes.offload" in heading
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("env.NCLC_ALGO=Ring", "no trial there has env.NCLC_ALGO; did you mean env.NCCL_ALGO? "),
        ("env.X!=1", "no trial there has env.X; there are env.NCCL_ALGO; leave some of that out"),
        ("NCCL_ALGO=a b, c", r"a value is written without quotes, a comma within it as \,; "),
        ("NCCL_ALGO='a b, c'", r"a value is written without quotes, a comma within it as \,; "),
        ("NCCL_ALGO='Ring'", "a value is written without quotes, "),
    ],
)
def test_an_axis_that_no_trial_has_is_said_with_those_that_there_are(db, asked, said):
    fill(db, [(small(free=(("env.NCCL_ALGO", algo),)), 10.0) for algo in ("Ring", "a b, c")])
    assert said in store_command("list", asked, "--db", db).stderr


def test_it_travels_into_another_database():
    fill("r.db", [(trial(zero=1), 10.0)])
    fill("other.db", [(trial(zero="auto"), 10.0)], name="other")  # another kind of value
    assert merge("other.db", ["r.db"]).num_new == 1
    found = reported("other.db", 'SELECT id, "axes.zero" FROM trials ORDER BY 2')
    assert found == [(trial(zero=1).trial_id, "1"), (trial(zero="auto").trial_id, "auto")]
