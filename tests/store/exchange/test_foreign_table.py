"""Tables of other programs are read row by row, whatever wrote them, and each fault has its place."""

from pathlib import Path

import pytest

from store.errors import StoreError
from store.imports import read_table


def read(content: str | bytes, name: str = "t.csv"):
    """Columns, rows that could be read, and the others as texts."""
    data = content.encode() if isinstance(content, str) else content
    Path(name).write_bytes(data)
    table = read_table(name)
    rows = [dict(zip(table.columns, cells, strict=True)) for _, cells in table.rows]
    rejected = [f"{one.where}: {one.reason}" for one in table.rejected]
    return table.columns, rows, rejected


@pytest.mark.parametrize(
    "content",
    [
        "gpus,img_s\n1,10.5\n2,20\n",
        "gpus;img_s\r\n1;10.5\r\n2;20",
        "gpus\timg_s\n1\t10.5\n\n2\t20\n\n",
        "\ufeffgpus|img_s\r1|10.5\r2|20\r",
        '\n\n"gpus", img_s \n"1",10.5\n2 ,20\n',
    ],
)
def test_text_is_read_by_its_delimiter_whatever_ends_its_lines(content):
    columns, rows, rejected = read(content)
    assert columns == ("gpus", "img_s")
    assert rows == [{"gpus": "1", "img_s": "10.5"}, {"gpus": "2", "img_s": "20"}]
    assert rejected == []


def test_a_cell_in_quotes_may_hold_delimiters_quotes_and_lines():
    _, rows, _ = read('name,gpus\n"a,b ""c""\nd",2\n')
    assert rows == [{"name": 'a,b "c"\nd', "gpus": "2"}]


def test_an_empty_cell_is_none_and_a_column_without_a_name_is_numbered():
    columns, rows, _ = read(",gpus\n0,\n")
    assert columns == ("column 1", "gpus")
    assert rows == [{"column 1": "0", "gpus": None}]


def test_a_row_of_other_length_is_rejected_with_its_line():
    _, rows, rejected = read("\na,b\n1\n\n1,2\n1,2,3\n")
    assert rows == [{"a": "1", "b": "2"}]
    assert rejected == [
        "t.csv line 3: 1 cells; wanted 2, as the line of column names has",
        "t.csv line 6: 3 cells; wanted 2, as the line of column names has",
    ]


def test_a_quote_that_is_not_closed_is_rejected_at_its_beginning():
    _, rows, rejected = read('a,b\n1,2\n3,"4\n5,6\n')
    assert rows == [{"a": "1", "b": "2"}]
    assert rejected == ["t.csv line 3: unexpected end of data; is a quote not closed?"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "t.csv: empty; wanted a table with a line of column names"),
        (" \n\n", "t.csv: empty"),
        ("gpus,img_s,gpus\n1,2,3\n", "t.csv: gpus: a name of more than one column"),
        ("gpus,img_s\n".encode("utf-16"), "t.csv: UTF-16; save it as UTF-8"),
        (b"gpus\0img_s\n", "t.csv: no text; wanted CSV, TSV or Markdown"),
        (b"PAR1\0 of Parquet", "t.csv: no text; wanted CSV, TSV or Markdown"),
    ],
)
def test_what_is_no_table_is_refused_as_a_whole(content, said):
    with pytest.raises(StoreError) as refusal:
        read(content)
    assert str(refusal.value).startswith(said)


def test_markdown_is_read_without_its_rule_its_bold_names_and_its_escapes():
    content = "| **GPUs** | `img/s` |\n|:---:|---:|\n| 1 | 10.5 |\n| 2 | a \\| b |\n"
    columns, rows, rejected = read(content, "t.md")
    assert columns == ("GPUs", "img/s")
    assert rows == [{"GPUs": "1", "img/s": "10.5"}, {"GPUs": "2", "img/s": "a | b"}]
    assert rejected == []
    assert len(read("| a | b |\n|-|-|\n| 1 | 2 |\n| - | - |\n", "t.md")[1]) == 2
    prose = f"# Results\n\nOn 8 GPUs, as of May:\n\n{content}\nHigher is better, and more.\n"
    assert read(prose, "t.md")[:2] == (columns, rows)
    with pytest.raises(StoreError, match=r"^t\.md line 5: more than one table; wanted a file each"):
        read("| a |\n|---|\n| 1 |\n| b |\n|---|\n", "t.md")
