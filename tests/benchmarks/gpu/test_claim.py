"""What cannot be written is refused before a stage runs, and so is a folder that is in use."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.gpu.__main__ import main
from benchmarks.gpu.kit import Kit
from benchmarks.gpu.running import ClaimError, claimed, found_python
from tests.benchmarks.gpu.boxes import H100, box

KIT = Kit(box=box(), folder=Path("kit"), torch_python="python")


def refused(kit: Kit) -> str:
    with pytest.raises(ClaimError) as error, claimed(kit):
        pass
    return str(error.value)


def test_a_folder_is_claimed_by_one_kit_at_a_time():
    with claimed(KIT):
        wanted = (
            f"--out kit: in use by process {os.getpid()}; wait for it, or choose another folder"
        )
        assert refused(KIT) == wanted
    with claimed(KIT):
        pass


def test_a_folder_of_another_machine_is_refused():
    with claimed(KIT):
        pass
    assert "the numbers of another machine or device" in refused(replace(KIT, box=box(H100)))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--json", "."], "--json .: a folder, wanted a file"),
        (["--torch-python", "no/python"], "no/python: found no such program, wanted a Python"),
        (["--torch-python", "a_text"], "--torch-python a_text: found no such program, wanted"),
        (["--torch-python", "./a_text"], "./a_text: Exec format error; wanted a Python"),
        (["--torch-python", "echo"], "echo: found another program, wanted a Python"),
        (["--out", "a_file"], "a_file: a file, wanted a folder"),
        (["--out", "a_file/kit"], "a_file/kit: Not a directory; choose a folder that can be"),
    ],
)
def test_what_cannot_be_written_is_refused_at_once(arguments, said, capsys):
    Path("a_file").touch()
    Path("a_text").write_text("no program")
    Path("a_text").chmod(0o755)
    with pytest.raises(SystemExit) as ended:
        main(["--device", "cpu", *arguments])
    assert (ended.value.code, said in capsys.readouterr().err) == (2, True)


def test_a_python_is_found_by_its_name_and_where_one_is():
    """A bug: a path was taken from the folder of the kit, not from where it was typed."""
    Path("python").symlink_to(sys.executable)
    assert found_python("./python") == str(Path.cwd() / "python")
    assert found_python(sys.executable) == sys.executable
