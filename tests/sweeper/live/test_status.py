"""What a second terminal says of a sweep that was interrupted can be pasted."""

from contextlib import closing

import pytest
import sqlalchemy as sa

from scalemark.__main__ import main
from store.database import open_for_reading
from store.reading.sweeps import sweep_status
from store.schema import SweepRow
from store.writer import Writer
from sweeper.live.status import snapshot_of
from tests.filled import begin
from tests.specs import small


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("sweep.py model=trivial", "python sweep.py model=trivial"),
        ("scalemark sweep model=trivial", "scalemark sweep model=trivial"),
    ],
)
def test_the_command_that_runs_the_rest_is_as_it_was_typed(command, said):
    with closing(Writer("r.db")) as writer:
        begin(writer, {small(): 1})
        with writer.engine.begin() as connection:
            connection.execute(sa.update(SweepRow).values(command=command))
    (status,) = sweep_status(open_for_reading("r.db"), None)
    assert any(
        note.endswith(f"what is left is run by: {said}") for note in snapshot_of(status).notes
    )


def test_a_command_can_be_copied_from_a_narrow_terminal(capsys, monkeypatch):
    command = """scalemark sweep 'command=torchrun --n={num_gpus} "a  b"' '+axes.lr=0.1,a b'"""
    with closing(Writer("r.db")) as writer:
        begin(writer, {small(): 1})
        with writer.engine.begin() as connection:
            connection.execute(sa.update(SweepRow).values(command=command))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.argv", ["scalemark", "status", "--db", "r.db"])
    with pytest.raises(SystemExit):
        main()
    assert f"what is left is run by: {command}" in capsys.readouterr().out
