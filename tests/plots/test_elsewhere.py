"""Numbers that were measured elsewhere are shown as tables, charts and a page, apart from ours and marked as such."""

import json
from pathlib import Path

import pytest

from plots.layout import NOT_IN_TABLE
from scalemark.records.references import Origin
from store.imports import ImportOptions, import_files
from tests.filled import fill
from tests.specs import small

ROWS = "gpus,img_s,optimizer\n1,100,adam\n1,102,adam\n2,190,adam\n2,194,adam\n1,110,sgd\n"


@pytest.fixture
def taken_in() -> None:
    Path("mine.csv").write_text(ROWS)
    meanings = ImportOptions(maps=("img_s=throughput", "gpus=num_gpus"), axes=("optimizer",))
    import_files("results.db", ["mine.csv"], said=meanings)


@pytest.mark.usefixtures("taken_in")
def test_a_table_says_what_it_knows_and_no_more(plots, snapshot):
    ended = plots("table", "--origin", "elsewhere")
    assert ended.exit_code == 0, ended.stderr
    assert NOT_IN_TABLE in ended.stdout
    assert ended.stdout == snapshot


def test_a_table_without_a_model_is_titled_by_its_axes(plots):
    """A bug: the title was `, opt=sgd`."""
    Path("t.csv").write_text("opt,gpus,img_s\nsgd,1,100\nsgd,2,190\n")
    meanings = ImportOptions(maps=("img_s=throughput", "gpus=num_gpus"), axes=("opt",))
    import_files("results.db", ["t.csv"], said=meanings)
    assert plots("table", "--origin", "elsewhere").stdout.startswith("opt=sgd\n")


@pytest.mark.usefixtures("taken_in")
def test_records_are_marked_with_their_origin(plots):
    rows = json.loads(plots("table", "--origin", "elsewhere", "--json").stdout)
    assert {row["origin"] for row in rows} == {"elsewhere"}
    assert {row["versions"] for row in rows} == {"measured elsewhere: mine.csv"}
    assert [row["repeats"] for row in rows if row["strategy"] == "optimizer=sgd"] == [[110.0]]
    assert [name for name in rows[0] if name in ("precision", "variable_update", "data")] == []


@pytest.mark.usefixtures("taken_in")
def test_a_page_is_made_of_them(plots):
    fill("results.db", [(small(model="vgg16"), 100.0)])
    ended = plots("report", "--origin", str(Origin.ELSEWHERE), "--out", "page.html")
    assert (ended.exit_code, ended.stderr) == (0, "")
    page = Path("page.html").read_text(encoding="utf-8")
    assert "elsewhere: measured by another program" in page
    assert "optimizer=adam" in page
    assert "vgg16" not in page


@pytest.mark.usefixtures("taken_in")
def test_a_table_belongs_to_no_sweep(plots):
    refused = plots("table", "--origin", "elsewhere", "--sweep", "first")
    assert refused.exit_code == 2
    assert "tables of others belong to no sweep" in refused.stderr


@pytest.mark.usefixtures("taken_in")
def test_one_of_several_tables_is_chosen_by_its_name(plots):
    Path("yours.csv").write_text("num_gpus,throughput\n1,5\n")
    import_files("results.db", ["yours.csv"])
    rows = json.loads(
        plots("table", "--origin", "elsewhere", "--source", "yours.csv", "--json").stdout
    )
    assert [row["throughput"] for row in rows] == [5.0]
    refused = plots("table", "--origin", "elsewhere", "--source", "theirs.csv")
    assert "theirs.csv: no such source; there are" in refused.stderr
    assert "mine.csv" in refused.stderr


def test_each_of_several_tables_has_its_own_axes_and_hosts(plots, snapshot):
    Path("a.csv").write_text(
        "nodes,gpus,tps,zero,comm\n1,8,800,2,nccl\n2,16,1500,2,\n2,16,1450,3,nccl\n4,32,2900,,\n"
    )
    Path("b.csv").write_text("num_gpus,throughput,model,precision\n1,10,m,bf16\n2,19,m,bf16\n")
    meanings = ImportOptions(
        maps=("tps=throughput", "gpus=num_gpus", "nodes=hosts"),
        axes=("zero", "comm"),
        compare="zero",
        constants={"item": "tokens", "hardware": "8xA100/node"},
    )
    import_files("results.db", ["a.csv"], said=meanings)
    import_files("results.db", ["b.csv"])
    ended = plots("table", "--origin", "elsewhere")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout == snapshot


def test_charts_of_axes_that_a_table_lacks_are_passed_over(plots):
    Path("mine.csv").write_text("num_gpus,throughput,zero\n1,5,0\n2,9,0\n1,4,2\n2,8,2\n")
    import_files("results.db", ["mine.csv"], said=ImportOptions(axes=("zero",)))
    ended = plots("chart", "--origin", "elsewhere")
    assert ended.exit_code == 0
    assert "batch_sizes: nothing to show: some trials do not say their batch size" in ended.stderr
    assert Path("figures/scaling-elsewhere.png").exists()


@pytest.mark.usefixtures("taken_in")
def test_their_charts_have_names_of_their_own(plots):
    """A bug: they took the place of the charts of measured numbers."""
    ended = plots("chart", "--origin", "elsewhere", "--chart", "throughput")
    assert ended.stdout == "figures/throughput-elsewhere.png\n"
