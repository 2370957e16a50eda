"""A file of the user's own defaults is read where the XDG specification has it, and refused with what there is."""

from pathlib import Path

import pytest

from scalemark.host.user_settings import UserSettingsError, user_settings

ALL = {"store.url": "mine.db", "launcher": "slurm", "sweep.repeats": 3}


def write(text: str, folder: Path = Path("settings")) -> dict[str, str]:
    """Return the variables that name it."""
    path = folder / "scalemark" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return {"XDG_CONFIG_HOME": str(folder.absolute())}


@pytest.mark.parametrize(
    "text",
    [
        'store.url = "mine.db"\nlauncher = "slurm"\nsweep.repeats = 3\n',
        'launcher = "slurm"\n[store]\nurl = "mine.db"\n[sweep]\nrepeats = 3\n',
    ],
)
def test_settings_are_named_as_on_the_command_line(text):
    assert user_settings(write(text)).values == ALL


def test_without_a_file_there_are_none():
    found = user_settings({"XDG_CONFIG_HOME": str(Path("none").absolute())})
    assert (found.values, found.database) == ({}, None)


@pytest.mark.parametrize("variables", [{}, {"XDG_CONFIG_HOME": ""}, {"XDG_CONFIG_HOME": "here"}])
def test_a_folder_that_is_none_leaves_that_of_the_home(variables, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    write('store.url = "mine.db"', tmp_path / ".config")
    write('store.url = "not.db"', Path("here"))
    assert user_settings(variables).database == "mine.db"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sweep.repeat = 3", "sweep.repeat: no such setting; did you mean sweep.repeats? there are store.url, launcher, sweep.repeats"),
        ("batch_size = 3", "batch_size: no such setting; there are store.url, launcher, sweep.repeats"),
        ("sweep.repeats = 0", "sweep.repeats = 0: wanted 1 to 1000"),
        ("sweep.repeats = 1001", "sweep.repeats = 1001: wanted 1 to 1000"),
        ("sweep.repeats = true", "sweep.repeats = True: wanted 1 to 1000"),
        ('sweep.repeats = "3"', "sweep.repeats = '3': wanted 1 to 1000"),
        ('launcher = "slrum"', "launcher = 'slrum': wanted one of agents, local, ray, slurm, in quotes"),
        ("store.url = 5", "store.url: wanted a file or a URL, in quotes"),
        ('store.url = ""', "store.url: wanted a file or a URL, in quotes"),
        ("launcher = slurm", "not TOML: Invalid value (at line 1, column 12)"),
        ("\0", "not TOML: "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_what_is_wanted(text, problem):
    variables = write(text)
    with pytest.raises(UserSettingsError) as caught:
        user_settings(variables)
    path = Path("settings/scalemark/config.toml").absolute()
    assert str(caught.value).startswith(f"{path}: {problem}")


def test_a_file_that_cannot_be_read_is_refused():
    variables = write("")
    path = Path("settings/scalemark/config.toml")
    path.unlink()
    path.mkdir()
    with pytest.raises(UserSettingsError, match="Is a directory"):
        user_settings(variables)
