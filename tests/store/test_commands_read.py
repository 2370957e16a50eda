"""`list`, `show` and `query` in every format, whatever stands in the database."""

import csv
import io
import json
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from scalemark.records.machine import Gpu, GpuLink
from scalemark.records.measurement import ReplicaTimes
from store.commands import read
from store.commands.read import Format, write
from store.database import locate, open_for_reading
from store.errors import StoreError
from store.reading import listing, queries
from store.reading.listing import LISTABLE, show
from store.schema import AttemptRow, TagRow
from store.writer import Writer
from tests.app import run_app
from tests.filled import ENVIRONMENT, MACHINE, NOON, fill
from tests.specs import small
from tests.store.command import store
from tests.tables import asked

TIMES = ReplicaTimes(at_once=True, seconds={"GPU:0": (0.1, 0.3, 0.2), "GPU:1": (0.5, 0.5, 0.5)})


def test_show_has_each_replicas_own_compute():
    fill("results.db", [(small(num_gpus=2), 100.0)], details=[{"replica_times": TIMES}])
    lines = store("show", "1", "--db", "results.db").stdout.splitlines()
    first = lines.index("each replica's own compute")
    assert [line.split() for line in lines[first + 1 : first + 4]] == [
        ["replica", "rounds", "median_s", "fastest_s", "slowest_s"],
        ["GPU:0", "3", "0.2", "0.1", "0.3"],
        ["GPU:1", "3", "0.5", "0.5", "0.5"],
    ]


NASTY = [
    "=1+1",
    "+1",
    "-1",
    "@x",
    "\tx",
    "a|b\\|c",
    "two\nlines",
    "one\rover another",
    "\x1b[31mred",
    "naïve ☃",
    'say "no"',
    "<b>`x`",
]


def run(db: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return store(*arguments, "--db", db)


def answer(db: str, *arguments: str) -> str:
    ended = run(db, *arguments)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


@pytest.fixture
def filled(db: str) -> str:
    fill(
        db, [(small(num_gpus=1), 100.0), (small(num_gpus=2), 12345.678), (small(num_gpus=4), None)]
    )
    return db


@pytest.mark.integration
def test_list_takes_filters_columns_an_order_and_a_limit(filled):
    rows = json.loads(
        answer(
            filled,
            "list",
            "num_gpus>=2",
            "--columns",
            "attempt, num_gpus",
            "--sort=-num_gpus",
            "--json",
        )
    )
    assert rows == [{"attempt": 3, "num_gpus": 4}, {"attempt": 2, "num_gpus": 2}]
    assert answer(filled, "list", "--columns", "attempt", "--limit", "1").split() == [
        "attempt",
        "3",
    ]
    slowest_first = answer(
        filled, "list", "--columns", "attempt,throughput", "--sort", "throughput"
    ).splitlines()
    assert [line.split() for line in slowest_first[1:]] == [["1", "100"], ["2", "12346"], ["3"]]


def test_list_shows_deleted_attempts_only_when_asked_for(filled):
    with Writer(filled).engine.begin() as connection:
        connection.execute(sa.update(AttemptRow).where(AttemptRow.id == 2).values(deleted_at=NOON))
    assert [row["attempt"] for row in json.loads(answer(filled, "list", "--json"))] == [1, 3]
    assert [
        row["attempt"] for row in json.loads(answer(filled, "list", "--deleted", "--json"))
    ] == [2]
    assert [
        row["attempt"]
        for row in json.loads(answer(filled, "list", "--deleted", "num_gpus=2", "--json"))
    ] == [2]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            ["num_gpus=64"],
            "none of its 3 attempts is like num_gpus=64; num_gpus is 1, 2, 4 there; leave some of that out, or see all with scalemark list --db ",
        ),
        (
            ["num_gpus=64", "model!=a b"],
            "none of its 3 attempts is like num_gpus=64 'model!=a b'; num_gpus is 1, 2, 4 there; leave",
        ),
        (
            ["gradient_repacking=5"],
            "none of its 3 attempts is like gradient_repacking=5; gradient_repacking is 0 there; leave",
        ),
        (
            ["model=trivia"],
            "none of its 3 attempts is like model=trivia; did you mean model=trivial?",
        ),
        (
            ["model=vgg16"],
            "none of its 3 attempts is like model=vgg16; model is trivial there; leave some of that out",
        ),
        (
            ["num_gpus=1", "num_gpus=2"],
            "none of its 3 attempts is like num_gpus=1 num_gpus=2; nothing is both num_gpus=1 and num_gpus=2; num_gpus=1,2 asks for either; leave",
        ),
        (["--deleted"], "no attempt in it is deleted; leave --deleted out to see those that count"),
    ],
)
@pytest.mark.parametrize(
    ("form", "empty"), [("table", "attempt"), ("csv", "attempt"), ("json", "[\n]\n")]
)
def test_an_empty_list_says_why_and_leaves_stdout_to_data(filled, arguments, why, form, empty):
    ended = run(filled, "list", *arguments, "--format", form)
    assert ended.returncode == 0
    assert ended.stderr.startswith(f"list: {locate(filled).name}: {why}")
    assert ended.stdout.startswith(empty)
    assert len(ended.stdout.splitlines()) <= 2


def test_a_list_of_numbers_that_were_measured_elsewhere_says_how_to_see_them():
    Path("mine.csv").write_text("zero,num_gpus,throughput\n1,2,50\n")
    assert run("r.db", "db", "import", "mine.csv", "--axis", "zero").returncode == 0
    hint = "r.db: only numbers that were measured elsewhere in it; `scalemark table --origin elsewhere` shows them"
    assert run("r.db", "list").stderr == f"list: {hint}\n"
    assert run("r.db", "list", "zero=1").stderr == f"list: {hint}\n"


def test_hints_name_the_database_that_was_named(filled):
    refused = run(filled, "show", "nope").stderr
    assert "see `scalemark list --db " in refused
    Path("mine.csv").write_text("zero,num_gpus,throughput\n1,2,50\n")
    added = run("r.db", "db", "import", "mine.csv", "--axis", "zero").stdout
    assert "shown by: scalemark table --origin elsewhere --db r.db" in added


def test_a_list_of_a_database_without_attempts_says_so(filled):
    with Writer(filled).engine.begin() as connection:
        connection.execute(sa.update(AttemptRow).values(deleted_at=NOON))
    name = locate(filled).name
    reported = f"list: {name}: no attempt in it yet; run a sweep first; --deleted lists the 3 that are deleted\n"
    assert run(filled, "list").stderr == reported
    assert run(filled, "list", "--deleted").stderr == ""
    fill("empty.db", [])
    assert (
        run("empty.db", "list").stderr
        == "list: empty.db: no attempt in it yet; run a sweep first\n"
    )


@pytest.mark.integration
def test_every_column_there_is_can_be_listed_and_sorted_by(filled):
    from store.reading.listing import LISTABLE

    (row, *_) = json.loads(answer(filled, "list", "--columns", ",".join(LISTABLE), "--json"))
    assert list(row) == list(LISTABLE)
    assert (row["num_steps"], row["num_measured_steps"], row["run_dir"], row["host"]) == (
        4,
        2,
        "/runs/x",
        "testbox",
    )
    from store.reading.listing import listing
    from store.reading.queries import selected

    engine = open_for_reading(filled)
    for name in LISTABLE:
        assert len(selected(engine, asked(listing, engine, sort=name))) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "modle=x"], "list: modle: no such filter; did you mean model?"),
        (["list", "--columns", "modle"], "list: modle: no such column; did you mean model?"),
        (["list", "--sort", "num_gpu"], "list: num_gpu: no such column; did you mean num_gpus?"),
        (["list", "--columns", ""], "list: : no such column; the nearest of "),
        (
            ["show", "nope"],
            "show: nope: no attempt, trial or sweep; wanted the number of an attempt, 4 hexadecimal digits or more of a trial's id, or the name of a sweep (the newest: ",
        ),
        (["show", "x\x1b[31m\n"], r"show: x\x1b[31m\n: no attempt, trial or sweep"),
        (["show", ""], "show: which attempt or trial? give its number"),
        (["db", "query", "SELECT\x1b"], "db query: "),
    ],
)
def test_a_wrong_question_is_answered_in_one_line_with_exit_code_2(filled, arguments, message):
    ended = run(filled, *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert message in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def written(form: Format, columns: list[str], rows: list[list[object]]) -> str:
    out = io.StringIO(newline="")
    with redirect_stdout(out):
        write(form, columns, rows)
    return out.getvalue()


def test_csv_leaves_numbers_alone_and_disarms_formulas():
    read = list(
        csv.reader(io.StringIO(written(Format.CSV, ["=a", "b"], [[text, -1.5] for text in NASTY])))
    )
    assert read[0] == ["'=a", "b"]
    assert [row[1] for row in read[1:]] == ["-1.5"] * len(NASTY)
    assert [row[0] for row in read[1:]] == [
        f"'{text}" if text[0] in "=+-@\t" else text for text in NASTY
    ]
    assert (
        written(Format.CSV, ["a"], [[None], [True], [b"\xff"], [float("inf")], [[1]]])
        == 'a\n""\ntrue\nff\ninf\n[1]\n'
    )


def test_json_is_a_list_of_objects_with_nulls_for_what_it_cannot_tell():
    rows = [[text, float("nan")] for text in NASTY]
    assert json.loads(written(Format.JSON, ["a", "a"], rows)) == [
        {"a": text, "a_2": None} for text in NASTY
    ]
    assert json.loads(written(Format.JSON, ["a"], [])) == []


def test_a_table_shows_controls_instead_of_obeying_them():
    lines = written(Format.TABLE, ["n", "na\nme"], [[1, text] for text in NASTY]).splitlines()
    assert len(lines) == len(NASTY) + 1
    assert lines[0] == r"n  na\nme"
    assert r"1  \x1b[31mred" in lines
    assert all(line.isprintable() for line in lines)


def test_a_table_of_many_rows_keeps_every_row():
    lines = written(Format.TABLE, ["n"], [[count] for count in range(25_000)]).splitlines()
    assert [int(line) for line in lines[1:]] == list(range(25_000))


@pytest.mark.integration
def test_who_stops_reading_ends_the_output_without_a_word(filled):
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) SELECT i FROM n"
    for form in ((), ("--json",)):
        command = [sys.executable, "-m", "scalemark", "db", "query", many, *form, "--db", filled]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout
            assert process.stderr
            process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == ""
        assert process.returncode in (0, 1)


def test_names_of_the_database_do_no_harm_to_any_format(db):
    fill(db, [(small(), 1.0)], name="x' |\x1b[2J\n=1")
    assert r"x' |\x1b[2J\n=1" in answer(db, "list")
    assert json.loads(answer(db, "list", "--json"))[0]["sweep"] == "x' |\x1b[2J\n=1"
    assert r"sweep" in answer(db, "show", "x' |\x1b[2J\n=1")
    assert "\x1b" not in answer(db, "show", "1")


def test_a_percent_sign_and_a_colon_in_sql_are_only_text(filled):
    sql = "SELECT model FROM trials WHERE model LIKE 'triv%' AND model <> ':x' AND num_gpus = 1"
    assert json.loads(answer(filled, "db", "query", sql, "--json")) == [{"model": "trivial"}]


GPUS = tuple(
    Gpu(
        uuid=f"GPU-{i}",
        name="H200",
        memory_bytes=2**37,
        pci_bus_id=f"0{i}",
        compute_capability="9.0",
        power_limit_w=700.0,
        cores=(i,),
    )
    for i in range(2)
)


def test_show_tells_machine_environment_placement_and_tags(db):
    machine = replace(
        MACHINE,
        gpus=GPUS,
        driver="580.1",
        links=(GpuLink(between=("GPU-0", "GPU-1"), num_nvlinks=18),),
    )
    fill(
        db,
        [(small(), 100.0)],
        machine=machine,
        environment=ENVIRONMENT | {"variables": {"TF_GPU_THREAD_MODE": "gpu_private"}},
    )
    with Writer(db).engine.begin() as connection:
        connection.execute(sa.insert(TagRow).values(sweep_id=1, tag="night", added_at=NOON))
    (reported,) = show(open_for_reading(db), "1")["attempts"]
    assert [gpu["name"] for gpu in reported["gpus"]] == ["H200", "H200"]
    assert reported["links"] == [
        {"first_uuid": "GPU-0", "second_uuid": "GPU-1", "num_nvlinks": 18, "pcie": None}
    ]
    assert (reported["tags"][0]["tag"], reported["tags"][0]["of"]) == ("night", "sweep")
    text = answer(db, "show", small().trial_id[:6])
    for reported_so in (
        "H200",
        "580.1",
        "tensorflow  2.21.0",
        "gpu_private",
        "ResourceApplyMomentum @ CPU:1",
        "night",
    ):
        assert reported_so in text
    assert "not comparable with GPU results" in text  # its trial ran on CPU devices
    assert "100" in text


def test_show_of_a_sweep_has_its_counts_and_what_it_left_out(filled):
    reported = json.loads(answer(filled, "show", "first", "--json"))
    assert reported["counts"] == {"completed": 2, "failed": 1}
    assert reported["left_out"] == [{"overrides": "xla=on", "reason": "later"}]
    text = answer(filled, "show", "sweep=first")
    assert "xla=on" in text


def test_what_could_be_two_things_is_asked_back(db):
    fill(db, [(small(), 1.0)], name="1")
    engine = open_for_reading(db)
    with pytest.raises(
        StoreError, match=r"^1: it could be attempt 1 or sweep 1; say attempt=1 or sweep=1$"
    ):
        show(engine, "1")
    assert "sweep" in show(engine, "sweep=1")
    assert "trial" in show(engine, "attempt=1")


@pytest.mark.parametrize("sql", ["SELEC 1", "SELECT nosuch", "SELECT nosuch FROM throughput"])
def test_a_query_that_cannot_be_read_is_told_how_to_begin(filled, sql):
    ended = run(filled, "db", "query", sql)
    assert ended.returncode == 2
    assert ended.stderr.endswith(
        "; SELECT * FROM throughput LIMIT 1 shows the columns of that view\n"
    )


def test_a_table_lists_the_newest_and_says_so(db, monkeypatch, capsys):
    fill(db, [(small(), float(speed)) for speed in range(1, 6)])
    monkeypatch.setattr(read, "NEWEST", 2)
    listed = run_app(capsys, monkeypatch, "list", "--db", db)
    assert [line.split()[0] for line in listed.stdout.splitlines()[1:]] == ["4", "5"]
    assert listed.stderr == "list: the newest 2; --limit N shows N\n"
    engine = open_for_reading(db)
    chosen = asked(listing.listing, engine, ["throughput<=4"], columns=["attempt"], limit=3)
    assert [row["attempt"] for row in queries.selected(engine, chosen)] == [2, 3, 4]


def test_everything_of_all_attempts_is_written_for_other_programs(db):
    formula = small(data_dir="=1+1", free=(("axes.zero", 3),))
    fill(db, [(formula, 100.0), (small(), None)])
    header, first, second = csv.reader(
        answer(db, "list", "--format", "csv", "--columns", "all").splitlines()
    )
    attempts = [dict(zip(header, row, strict=True)) for row in (first, second)]
    assert {*LISTABLE, "axes.zero"} == set(header)
    assert [row["data_dir"] for row in attempts] == ["'=1+1", ""]
    assert [(row["outcome"], row["axes.zero"]) for row in attempts] == [
        ("completed", "3"),
        ("failed", ""),
    ]
