"""Numbers that were measured elsewhere are scaled, compared and advised on, apart from ours and with no word of what nobody knows."""

import json
from pathlib import Path

import pytest

from store.imports import ImportOptions, import_files
from tests.analysis.commands.command import advised
from tests.filled import fill
from tests.specs import small

ROWS = {
    ("ddp", 2): ([100, 101, 102], [196, 195, 197], [380, 370, 375]),
    ("fsdp", 2): ([90, 91, 90.5], [178, 180, 179], [350, 352, 351]),
    ("fsdp", 3): ([80, 81, 79], [150, 150, 151], [300]),
}
OF_TENSORFLOW = (
    *("variable_update", "all_reduce", "local_parameter_device", "TensorFlow", "data not"),
    *("precision", "sweep.repeats", "process", "published", "python sweep.py", "scalemark sweep"),
)


def take_in(*, compare: str = "", **constants: str) -> None:
    lines = ["gpus,tok_s,way,zero"]
    for (way, zero), of_counts in ROWS.items():
        for num_gpus, repeats in zip((1, 2, 4), of_counts, strict=True):
            lines += [f"{num_gpus},{one},{way},{zero}" for one in repeats]
    Path("mine.csv").write_text("\n".join(lines))
    meanings = ImportOptions(
        maps=("tok_s=throughput", "gpus=num_gpus"),
        axes=("way", "zero"),
        compare=compare,
        constants={"item": "tokens", **constants},
    )
    import_files("results.db", ["mine.csv"], said=meanings)


@pytest.mark.parametrize(
    "arguments",
    [
        ("scaling", "--all"),
        ("advise", "--all"),
        ("compare", "way=ddp", "way=fsdp zero=2"),
    ],
)
def test_commands_speak_of_a_table_alone(analysis, snapshot, arguments):
    take_in()
    ended = analysis(*arguments, "--origin", "elsewhere")
    assert ended.exit_code == 0, ended.stderr
    assert ended.stdout == snapshot
    assert [word for word in OF_TENSORFLOW if word in ended.stdout] == []
    assert "measured elsewhere: mine.csv" in ended.stdout


@pytest.mark.parametrize("rows", ["ddp,1,99\nddp,2,190\nfsdp,2,188\nfsdp,1,98", None])
def test_what_to_measure_next_is_told_without_a_command(analysis, snapshot, rows):
    if rows:
        Path("mine.csv").write_text(f"way,gpus,tok_s\n{rows}\n")
        maps = ("tok_s=throughput", "gpus=num_gpus")
        meanings = ImportOptions(maps=maps, axes=("way",), constants={"item": "tokens"})
        import_files("results.db", ["mine.csv"], said=meanings)
    else:
        take_in()
    ended = analysis("advise", "--origin", "elsewhere")
    assert ended.stdout == snapshot
    assert "python" not in ended.stdout


def test_the_axis_that_is_named_plays_the_part_of_the_strategy(analysis):
    take_in(compare="way", model="gpt2")
    found = json.loads(analysis("scaling", "--all", "--origin", "elsewhere", "--json").stdout)
    assert [one["setting"].get("axes.zero") for one in found] == [2, 3]
    assert {one["setting"]["model"] for one in found} == {"gpt2"}


def scalings_of(analysis, rows: str) -> list[dict]:
    Path("mine.csv").write_text(rows)
    import_files("results.db", ["mine.csv"], said=ImportOptions(constants={"model": "m"}))
    return json.loads(analysis("scaling", "--origin", "elsewhere", "--json").stdout)


NODES = "num_gpus,hosts,throughput\n1,1,100\n2,1,195\n4,1,380\n8,1,740\n16,2,1400\n32,4,2600\n"


def test_hosts_that_grow_with_the_gpus_make_one_curve(analysis):
    (answer,) = scalings_of(analysis, NODES)
    (curve,) = answer["curves"]
    assert [(point["num_gpus"], point["hosts"]) for point in curve["points"]] == [
        (1, 1), (2, 1), (4, 1), (8, 1), (16, 2), (32, 4),
    ]  # fmt: skip
    assert curve["points"][-1]["speed_up"] == 26.0
    assert curve["points"][-1]["efficiency"] == pytest.approx(0.8125)
    assert curve["stops_paying"] is None
    ended = analysis("scaling", "--all", "--origin", "elsewhere")
    assert "m (1 to 4 hosts)\n" in ended.stdout
    assert "1 host," not in ended.stdout


@pytest.mark.parametrize("row", ["8,2,720", "4,2,300"], ids=["two at 8 GPUs", "more at fewer"])
def test_other_numbers_of_hosts_stay_apart(analysis, row):
    rows = NODES.replace("4,1,380\n", "") + row
    answers = scalings_of(analysis, rows)
    assert len(answers) == len({line.split(",")[1] for line in rows.splitlines()[1:]})


STRONG = "num_gpus,batch_size,throughput\n1,16,135.95\n4,4,420.2\n8,2,655.05\n"


def test_a_batch_that_stays_the_same_over_all_gpus_is_strong_scaling(analysis):
    (answer,) = scalings_of(analysis, STRONG)
    assert answer["scaling"] == "strong"
    (curve,) = answer["curves"]
    speed_ups = [round(point["speed_up"], 2) for point in curve["points"]]
    assert speed_ups == [1.0, 3.09, 4.82]
    ended = analysis("scaling", "--all", "--origin", "elsewhere")
    assert "Strong scaling: the batch of all GPUs stays 16." in ended.stdout


@pytest.mark.parametrize(
    "rows",
    [STRONG + "4,16,500\n", STRONG.replace("8,2", "8,4")],
    ids=["two at 4 GPUs", "another in all"],
)
def test_other_batches_are_not_called_strong_scaling(analysis, rows):
    assert {answer["scaling"] for answer in scalings_of(analysis, rows)} == {"weak"}


def test_repeats_of_a_table_make_intervals(analysis):
    take_in()
    (row,) = json.loads(
        analysis("compare", "axes.way=ddp num_gpus=1", "axes.zero=2 axes.way=fsdp num_gpus=1",
                 "--origin", "elsewhere", "--json").stdout
    )["pairs"]  # fmt: skip
    assert row["a"]["repeats"] == [100, 101, 102]
    assert row["a"]["throughput_low"] < 101 < row["a"]["throughput_high"]
    assert row["answer"] == "different"
    assert (row["more_repeats"], row["to_run"]) == (None, [])


def test_two_nights_whose_version_changed_are_compared_by_naming_it(analysis):
    rows = ["date,tensorflow,way,gpus,img_s"]
    for date, version in (("2026-03-13", "2.20.0"), ("2026-03-14", "2.21.0")):
        rows += [f"{date},{version},{way},1,100" for way in ("ring", "ps")]
    Path("nights.csv").write_text("\n".join(rows))
    meanings = ImportOptions(
        maps=("img_s=throughput", "gpus=num_gpus"), axes=("date=when", "tensorflow", "way")
    )
    import_files("results.db", ["nights.csv"], said=meanings)
    ended = analysis("compare", "when=2026-03-13", "when=2026-03-14")
    assert ended.exit_code == 2
    sides = (
        "when=2026-03-13 axes.tensorflow=2.20.0",
        "when=2026-03-14 axes.tensorflow=2.21.0",
    )
    assert f"name it on both sides, as '{sides[0]}' '{sides[1]}'" in ended.stderr
    pairs = json.loads(analysis("compare", *sides, "--json").stdout)["pairs"]
    assert [(pair["a"]["axes.way"], pair["b"]["axes.way"]) for pair in pairs] == [
        ("ps", "ps"), ("ring", "ring"),
    ]  # fmt: skip


def test_pairs_that_know_different_things_share_a_table(analysis, snapshot):
    Path("mine.csv").write_text(
        "opt,num_gpus,throughput,batch_size\na,1,5,8\nb,1,6,8\na,1,7,\nb,1,8,\n"
    )
    import_files("results.db", ["mine.csv"], said=ImportOptions(axes=("opt",)))
    ended = analysis("compare", "opt=a", "opt=b", "--origin", "elsewhere")
    assert ended.exit_code == 0, ended.stderr
    assert ended.stdout == snapshot


def test_our_own_numbers_and_those_of_a_table_are_never_shown_together(analysis):
    fill("results.db", [(small(), 100.0)])
    take_in()
    ours = analysis("scaling", "--all", "--json").stdout
    theirs = analysis("scaling", "--all", "--origin", "elsewhere", "--json").stdout
    assert "mine.csv" not in ours
    assert "mine.csv" in theirs
    assert {json.dumps(one["setting"]) for one in json.loads(ours)}.isdisjoint(
        json.dumps(one["setting"]) for one in json.loads(theirs)
    )


def test_filters_choose_rows_by_their_axes(analysis):
    take_in()
    for zero in ("axes.zero>=3", "zero>=3", "zero!=2", "axes.zero~3*"):
        asked = ("scaling", "--origin", "elsewhere", "--json", zero, "num_gpus<4")
        (found,) = json.loads(analysis(*asked).stdout)
        assert "zero=3" in json.dumps(found)
        assert "zero=2" not in json.dumps(found)
    refused = analysis("scaling", "--all", "--origin", "elsewhere", "zeroo=3")
    assert "zeroo: no such filter" in refused.stderr
    refused = analysis("scaling", "--all", "--origin", "elsewhere", "axes.zero=9")
    assert refused.exit_code == 2
    assert "nothing that was measured elsewhere like axes.zero=9" in refused.stderr


@pytest.mark.parametrize("command", ["scaling", "advise", "compare zero=2 zero=3"])
def test_a_database_of_tables_alone_is_about_these(analysis, command):
    take_in()
    ended = analysis(*command.split())
    assert ended.exit_code == 0
    assert ended.stdout == analysis(*command.split(), "--origin", "elsewhere").stdout
    refused = analysis(*command.split(), "--origin", "measured")
    assert "--origin elsewhere" in refused.stderr


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("explain", "a table says how fast a program was, and not what it did"),
        ("conclusions", "wanted measured or simulated"),
        ("guard", "figures that others measured have no history; wanted measured or simulated"),
    ],
)
def test_what_a_program_did_is_not_said_where_nobody_knows(analysis, command, why):
    take_in()
    for origin in ([], ["--origin", "elsewhere"]):
        refused = analysis(command, *origin)
        assert refused.exit_code == 2
        assert why in refused.stderr


def test_the_sides_of_a_comparison_must_differ(analysis):
    take_in()
    refused = analysis("compare", "axes.way=ddp", "axes.way=ddp", "--origin", "elsewhere")
    assert refused.exit_code == 2
    assert "nothing to compare" in refused.stderr


def test_two_free_axes_of_a_table_are_never_mixed(analysis):
    """A bug: all free axes were let differ where one was named."""
    take_in()
    asked = ("compare", "zero=2", "zero=3", "--origin", "elsewhere", "--json")
    pairs = json.loads(analysis(*asked).stdout)["pairs"]
    assert [(pair["a"]["num_gpus"], pair["b"]["num_gpus"]) for pair in pairs] == [
        (1, 1),
        (2, 2),
        (4, 4),
    ]
    assert {pair[side]["axes.way"] for pair in pairs for side in "ab"} == {"fsdp"}
    assert [pair["compared"].keys() for pair in pairs] == [{"strategy", "axes.zero"}] * 3


def test_a_free_axis_that_is_not_compared_is_other_work(analysis):
    take_in(compare="way", model="gpt2")
    found = advised(analysis("advise", "--all", "--origin", "elsewhere", "--json"))
    assert [one["work"]["axes.zero"] for one in found] == [2, 3]
    assert [one["pick"]["strategy"] for one in found] == ["way=ddp", "way=fsdp"]
    assert "gpt2 (zero 3)" in analysis("advise", "--all", "--origin", "elsewhere").stdout
