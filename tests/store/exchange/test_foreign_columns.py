"""The columns of a table of other programs get their meaning, and its rows are kept as measured elsewhere."""

from pathlib import Path

import pytest

from scalemark.records.references import published
from scalemark.stats.welch import interval
from store.database import open_for_reading
from store.errors import StoreError
from store.imports import FIELDS, ImportOptions, import_files
from store.reading.references import known_references, measured_elsewhere
from tests.store.command import store
from tests.store.test_references import MINE
from tests.tables import asked, contents

MAPS = ("img_s=throughput", "gpus=num_gpus")

RESULTS = "gpus,img_s,optimizer,seed\n1,100.5,adam,1\n1,101,adam,2\n2,190,adam,1\n2,200,sgd,1\n"


def said(**changes):
    return ImportOptions(**{"maps": MAPS, "axes": ("optimizer",), "ignored": ("seed",)} | changes)


def write(content: str, name: str = "results.csv") -> str:
    Path(name).write_text(content, encoding="utf-8")
    return name


def take_in(db: str, content: str = RESULTS, **changes):
    """What became of the rows, and the trials that are there now."""
    added = import_files(db, [write(content)], said=said(**changes))
    return added, asked(measured_elsewhere, open_for_reading(db))


def test_rows_that_agree_in_all_axes_are_repeats_of_one_trial(db):
    added, trials = take_in(db)
    assert (added.num_elsewhere, added.rejected) == (4, [])
    found = [(one["num_gpus"], one["axes"], one["repeats"]) for one in trials]
    assert found == [
        (1, {"optimizer": "adam"}, [100.5, 101.0]),
        (2, {"optimizer": "adam"}, [190.0]),
        (2, {"optimizer": "sgd"}, [200.0]),
    ]


def test_what_a_table_does_not_say_is_not_said(db):
    _, (trial, *_) = take_in(db)
    known = {name: value for name, value in trial.items() if value not in ("", "?", None)}
    assert known == {
        "origin": "table",
        "source": "results.csv",
        "num_gpus": 1,
        "item": "images",
        "axes": {"optimizer": "adam"},
        "repeats": [100.5, 101.0],
        "throughput": pytest.approx((100.5 * 101) ** 0.5),
    }


def test_rows_come_once_and_a_longer_table_brings_what_is_new(db):
    take_in(db)
    added, _ = take_in(db)
    assert (added.num_elsewhere, added.num_known) == (0, 4)
    # the second is the same number again, measured once more
    added, trials = take_in(db, RESULTS + "1,99,adam,3\n1,101,adam,4\n")
    assert (added.num_elsewhere, added.num_known, added.num_corrected) == (2, 4, 0)
    assert trials[0]["repeats"] == [100.5, 101.0, 99.0, 101.0]


def test_a_table_that_corrects_an_earlier_one_is_told_of(db):
    """A bug: a figure and its correction were two repeats, and nothing was said."""
    take_in(db)
    added, trials = take_in(db, RESULTS.replace("190", "185"))
    assert (added.num_elsewhere, added.num_known, added.num_corrected) == (1, 3, 1)
    assert trials[1]["repeats"] == [190.0, 185.0]


def test_numbers_measured_elsewhere_are_in_no_table_of_measurements_or_references(db):
    before = contents(db, "reference_results")
    take_in(db)
    assert contents(db, "reference_results") == before
    assert len(asked(known_references, open_for_reading(db))) == 423


def test_constants_stand_in_every_row(db):
    constants = {"model": "gpt2", "item": "tokens", "axes.framework": "jax", "hardware": "8xA100"}
    _, (trial, *_) = take_in(db, constants=constants)
    assert (trial["model"], trial["item"], trial["hardware"]) == ("gpt2", "tokens", "8xA100")
    assert trial["axes"] == {"framework": "jax", "optimizer": "adam"}


def test_a_column_is_an_axis_under_another_name_and_of_its_own_type(db):
    content = "gpus,img_s,Learning Rate,zero,tag,build\n1,5,0.1,2,true,007\n1,6,,x,1e3,\n"
    axes = ("Learning Rate=lr", "zero", "tag=axes.tag", "build")
    _, trials = take_in(db, content, axes=axes, ignored=())
    assert [one["axes"] for one in trials] == [
        {"lr": 0.1, "zero": 2, "tag": "true", "build": "007"},
        {"zero": "x", "tag": "1e3"},
    ]


def test_versions_that_are_equal_as_numbers_stay_two_values(db):
    _, trials = take_in(db, "gpus,img_s,torch\n1,5,2.1\n1,6,2.10\n", axes=("torch",), ignored=())
    assert [one["axes"]["torch"] for one in trials] == [2.1, "2.10"]


def test_an_axis_that_figures_have_already_is_that_one(db):
    _, (trial, *_) = take_in(db, axes=("optimizer=precision",))
    assert (trial["precision"], trial["axes"]) == ("adam", {})


def test_a_column_of_a_name_of_ours_needs_no_map(db):
    content = "num_gpus,throughput,batch_size,hosts\n8,100,64,2\n"
    _, (trial,) = take_in(db, content, maps=(), axes=(), ignored=())
    assert (trial["batch_size"], trial["hosts"]) == (64, 2)


def test_throughput_of_one_gpu_is_counted_for_all(db):
    _, trials = take_in(db, per_gpu=True)
    assert [one["throughput"] for one in trials] == [
        pytest.approx((100.5 * 101) ** 0.5),
        380.0,
        400.0,
    ]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("1,abc,x,1", "column img_s: abc; wanted a finite number"),
        ("1,-5,x,1", "column img_s: -5; wanted a number greater than 0"),
        ("1,0,x,1", "column img_s: 0; wanted a number greater than 0"),
        ("1,nan,x,1", "column img_s: nan; wanted a finite number"),
        ("1,1e999,x,1", "column img_s: 1e999; wanted a finite number"),
        ("64k,7,x,1", "column gpus: 64k; wanted all its digits"),
        ("1,7 tok/s,x,1", "column img_s: 7 tok/s; wanted a finite number"),
        ("1,٣,x,1", "column img_s: ٣; wanted a finite number"),
        ("1,,x,1", "column img_s is empty; wanted throughput"),
        ("1.5,7,x,1", "column gpus: 1.5; wanted a whole number"),
        ("0,7,x,1", "num_gpus=0: wanted 1 or more, up to 2147483647"),
        (",7,x,1", "column gpus is empty; wanted num_gpus"),
        ("1,7,a\x1b[31m,1", r"axes.optimizer=a\x1b[31m: wanted a line of 1 to 200 printable"),
    ],
)
def test_a_row_that_cannot_be_is_rejected_with_line_and_column(row, said):
    added, trials = take_in("r.db", f"{RESULTS}{row}\n")
    (rejected,) = added.rejected
    assert rejected.where == "results.csv line 6"
    assert rejected.reason.replace("\x1b", r"\x1b").startswith(said)
    assert len(trials) == 3


def test_text_of_another_encoding_is_rejected_with_line_and_column():
    Path("results.csv").write_bytes(RESULTS.encode() + b"4,7,caf\xe9,1\n")
    (rejected,) = import_files("r.db", ["results.csv"], said=said()).rejected
    assert rejected.where == "results.csv line 6"
    assert rejected.reason.startswith("column optimizer: caf")
    assert rejected.reason.endswith("not UTF-8: save the table as UTF-8")


def test_a_formula_is_kept_as_the_text_that_it_is(db):
    _, trials = take_in(db, "gpus,img_s,optimizer,seed\n1,5,=cmd|'/c calc'!A1,1\n")
    assert trials[0]["axes"] == {"optimizer": "=cmd|'/c calc'!A1"}


def test_an_empty_table_brings_nothing_and_says_so():
    added, _ = take_in("r.db", "gpus,img_s,optimizer,seed\n")
    (rejected,) = added.rejected
    assert rejected.reason == "a line of column names, and no row below it"


def test_nothing_is_imported_where_one_of_several_tables_is_not_understood():
    write(RESULTS, "a.csv")
    write("gpus,img_s,optimizer,seed,more\n", "b.csv")
    with pytest.raises(
        StoreError, match=r"^b\.csv: this column is neither mapped nor an axis: more"
    ):
        import_files("r.db", ["a.csv", "b.csv"], said=said())
    assert not Path("r.db").exists()


def test_a_table_that_is_cited_holds_references(db):
    columns = ["throughput", "num_gpus", "source", "citation", "hardware", "model"]
    write(",".join(columns) + "\n10,1,A blog,its address,V100,m\n10,1,A blog,its address,V100,m\n")
    added = import_files(db, ["results.csv"])
    assert (added.num_references, added.num_known, added.num_elsewhere) == (1, 1, 0)
    reference = asked(known_references, open_for_reading(db))[-1]
    assert (reference["origin"], reference["citation"]) == ("added", "its address")


def test_the_published_table_is_known_in_every_database(db):
    path = str(Path(__file__).parents[3] / "store" / "published" / "throughput.csv")
    added = import_files(db, [path])
    assert (added.num_references, added.num_known, added.rejected) == (0, 399, [])


def test_every_field_of_a_reference_can_be_in_a_table(db):
    values = {name: MINE.values[name] for name in FIELDS if name in MINE.values} | {"hosts": 2}
    columns = list(values)
    write(
        ",".join(columns)
        + "\n"
        + ",".join(
            "" if values[one] is None else str(values[one]).replace(",", ";") for one in columns
        )
        + "\n"
    )
    import_files(db, ["results.csv"])
    found = asked(known_references, open_for_reading(db))[-1]
    assert {name: found[name] for name in columns} == values | {
        "citation": MINE.citation.replace(",", ";")
    }


def test_what_the_command_says_of_the_file_is_said_of_its_rows(db):
    about = {"source": "our old box", "hardware": "8xK80", "num_gpus": "8"}
    write("img_s\n10\n")
    options = ImportOptions(maps=("img_s=throughput",), constants=about)
    import_files(db, ["results.csv"], said=options)
    (trial,) = asked(measured_elsewhere, open_for_reading(db))
    assert (trial["source"], trial["hardware"], trial["num_gpus"]) == ("our old box", "8xK80", 8)


def test_the_command_takes_a_table_in_and_says_what_it_did(snapshot):
    write(RESULTS + "4,x,sgd,1\n")
    arguments = ["db", "import", "results.csv", "--db", "r.db", "--map", MAPS[0], "--map", MAPS[1]]
    asked = store(*arguments, "--axis", "optimizer")
    assert (asked.returncode, asked.stdout) == (2, "")
    ended = store(*arguments, "--axis", "optimizer", "--ignore", "seed")
    assert ended.returncode == 1
    assert f"{asked.stderr}---\n{ended.stdout}---\n{ended.stderr}" == snapshot


def test_constants_of_the_command_are_pairs(db):
    write(RESULTS)
    for option, why in (("model", "wanted NAME=VALUE"), ("item=tokens", "item is given twice")):
        ended = store("db", "import", "results.csv", "--db", db, "--set", "item=x", "--set", option)
        assert ended.returncode == 2
        assert why in ended.stderr


def test_published_figures_have_one_key_however_they_came():
    (first, *_) = published()
    assert first.key == type(first)(**{**first.values, "origin": "added"}).key


def test_a_date_that_is_none_is_rejected_with_its_line(db):
    content = "day,gpus,img_s\n2026-03-05,1,5\n05.03.2026,1,6\n2026-03-06 23:10,1,7\n"
    added, trials = take_in(db, content, axes=("day=when",), ignored=())
    assert [one["axes"]["when"] for one in trials] == ["2026-03-05", "2026-03-06 23:10"]
    (rejected,) = added.rejected
    assert rejected.where == "results.csv line 3"
    assert rejected.reason == (
        "column day: when=05.03.2026: no date; wanted one as 2026-03-14, or "
        "2026-03-14T23:10:00; write it so, or call the axis otherwise"
    )


@pytest.mark.parametrize("number", ["1e-300", "1e300", "9e-13", "2e15"])
def test_a_throughput_that_nothing_reaches_is_rejected(db, number):
    """A bug: the interval over such repeats overflowed."""
    added, trials = take_in(db, f"gpus,img_s\n1,5\n1,{number}\n", axes=(), ignored=())
    assert [one["repeats"] for one in trials] == [[5.0]]
    (rejected,) = added.rejected
    assert rejected.where == "results.csv line 3"
    assert "wanted a number from 1e-12 to 1e+15, in items per second" in rejected.reason


def test_the_widest_repeats_that_are_taken_in_have_an_interval(db):
    _, (trial,) = take_in(db, "gpus,img_s\n1,1e-12\n1,1e15\n", axes=(), ignored=())
    low, high = interval(trial["repeats"])
    assert low < 1e-12
    assert high > 1e15
