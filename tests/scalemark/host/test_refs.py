"""Commits run in worktrees of their own: nothing of the user's checkout is touched, and nothing that is not committed is run."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from command import start
from scalemark.host import refs, software
from scalemark.host.refs import RefError, describe, doubts, place_of, resolved, with_program

WORDS = ["python", "train.py"]


def git(*arguments: str) -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always"]
    asked = subprocess.run(["git", *own, *arguments], check=True, capture_output=True, text=True)
    return asked.stdout.strip()


def commit(**files: str) -> str:
    for name, text in files.items():
        Path(f"{name}.py").write_text(text)
    git("add", ".")
    git("commit", "-m", "a")
    return git("rev-parse", "HEAD")


@pytest.fixture
def commits(tmp_path, monkeypatch):
    """An old and a new commit, behind edits that are not committed."""
    monkeypatch.setenv("SCALEMARK_CACHE", str(tmp_path / "cache"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    git("init", "-b", "main")
    old, new = commit(train="import lib\n", lib="x = 1\n"), commit(lib="x = 2\n")
    git("branch", "older", old)
    git("stash", "list")
    Path("lib.py").write_text("x = 3\n")
    git("add", "lib.py")
    Path("lib.py").write_text("x = 4\n")
    return old, new


def variables() -> dict[str, str]:
    return dict(os.environ, PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin")


def place(ref: str, words=WORDS, folder=None, **more: str) -> refs.RunPlace:
    """Where it runs, used by nobody."""
    at = used(ref, words, folder, **more)
    at.close()
    return at


def used(ref: str, words=WORDS, folder=None, *, mends=True, **more: str) -> refs.RunPlace:
    folder = folder or Path.cwd()
    given = variables() | more
    return place_of(resolved(ref, folder), words, folder, given, mends=mends)


def test_a_ref_is_stored_with_its_commit(commits):
    old, new = commits
    here = Path.cwd()
    git("tag", "-am", "x", "v1", "HEAD~1")
    for ref in ("older", "HEAD~1", "v1", old, old[:7]):
        assert resolved(ref, here) == f"{ref}@{old[:8]}"
    before = resolved("main", here)
    assert before == f"main@{new[:8]}"
    commit(lib="x = 5\n")
    assert resolved("main", here) != before, "a branch that has moved is another trial"
    assert resolved(before, here) == before, "a trial of before stays at its commit"


def test_a_ref_that_cannot_be_run_is_refused(commits, tmp_path):
    here = Path.cwd()
    refused = {
        "mian": "axes.ref=mian: no commit of .*; did you mean main",
        "--all": "no commit of",
        "main@12345678": "no commit of",
        "main:lib.py": "no commit of",
    }
    for ref, problem in refused.items():
        with pytest.raises(RefError, match=problem):
            resolved(ref, here)
    with pytest.raises(RefError, match="in no git checkout"):
        resolved("main", tmp_path)
    Path("below").mkdir()
    with pytest.raises(RefError, match="has no folder below"):
        place("main", folder=here / "below")
    with pytest.raises(RefError, match="uv would install an environment for each commit"):
        place("main", ["uv", "run", "train.py"])
    git("-C", "..", "init", "other")
    git("-C", "../other", "commit", "--allow-empty", "-m", "a")
    git("submodule", "add", "../other", "inner")
    commit()
    with pytest.raises(RefError, match="it has submodules"):
        place("main")


def test_a_script_of_the_checkout_by_its_whole_path_is_refused(commits):
    """A bug: the checkout's code ran under the name of the commit."""
    script = str(Path("train.py").resolve())
    for words in (["python", script], ["python", "train.py", f"--model={script}"]):
        with pytest.raises(RefError, match="is of your checkout, not of that commit"):
            place("older", words)
    Path("data.bin").write_text("git does not know it")
    place("older", ["python", "train.py", str(Path("data.bin").resolve())])


def test_each_commit_is_run_where_nothing_of_the_user_is(commits):
    before = git("status", "--porcelain=v2", "--branch"), Path(".git/index").read_bytes()
    hook = Path(".git/hooks/post-checkout")
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch ../hooked\n")
    hook.chmod(0o755)
    texts = [(place(ref).folder / "lib.py").read_text() for ref in ("older", "main", "HEAD")]
    assert texts == ["x = 1\n", "x = 2\n", "x = 2\n"]
    assert (git("status", "--porcelain=v2", "--branch"), Path(".git/index").read_bytes()) == before
    assert Path("lib.py").read_text() == "x = 4\n"
    assert not list(Path("..").rglob("hooked"))
    said = list(doubts(WORDS, Path.cwd(), place("main")))
    assert said == [f"changes that are not committed in {Path.cwd()} are not run"]


def test_what_git_sets_for_a_hook_is_not_heeded(commits, monkeypatch):
    index = Path(".git/index").read_bytes()
    monkeypatch.setenv("GIT_DIR", str(Path(".git").absolute()))
    monkeypatch.setenv("GIT_INDEX_FILE", str(Path(".git/index").absolute()))
    assert (place("older").folder / "lib.py").read_text() == "x = 1\n"
    assert Path(".git/index").read_bytes() == index


def test_a_worktree_is_used_again_and_mended(commits):
    first = place("main")
    (first.folder / "checkpoint.bin").touch()
    assert place("HEAD").ref == f"HEAD@{commits[1][:8]}"
    assert (first.folder / "checkpoint.bin").exists(), "it was not made anew"
    (first.folder / "lib.py").write_text("x = 9\n")
    (first.folder / "train.py").unlink()
    (first.folder / "left.py").touch()
    assert place("main") == first
    assert (first.folder / "lib.py").read_text() == "x = 2\n"
    assert sorted(path.name for path in first.folder.iterdir()) == [
        ".git",
        "checkpoint.bin",
        "lib.py",
        "train.py",
    ]


@pytest.mark.parametrize("gone", ["folder", "its half", "its record", "lock of its index"])
def test_one_that_was_lost_or_half_made_is_made_again(commits, gone):
    first = place("main")
    (record,) = Path(".git/worktrees").iterdir()
    if gone == "folder":
        subprocess.run(["rm", "-r", str(first.root)], check=True)
    elif gone == "its half":
        (record / "locked").write_text("initializing")
        (first.folder / ".git").unlink()
    elif gone == "its record":
        subprocess.run(["rm", "-r", str(record)], check=True)
    else:
        (record / "index.lock").touch()
        (first.folder / "lib.py").unlink()
    git("worktree", "prune")
    assert place("main") == first
    assert (first.folder / "lib.py").read_text() == "x = 2\n"


def test_a_worktree_in_use_is_not_changed(commits):
    """A bug: another start undid what a running program had written, or removed all of it."""
    program = start.Program(
        arguments=["sleep", "60"], place=used("main"), set_by_trial={}, software_words=["sleep"]
    )
    process = start.start(program, subprocess.DEVNULL)
    program.place.close()
    root = program.place.root
    (root / "lib.py").write_text("x = 9\n")
    (root / "written.py").touch()
    with ended_at_last(process):
        assert place("main") == program.place
        assert ((root / "lib.py").read_text(), (root / "written.py").exists()) == ("x = 9\n", True)
        git("-C", str(root), "checkout", "--force", "--detach", commits[0])
        with pytest.raises(RefError, match=f"{root} is not at that commit"):
            place("main")
        assert (root / "written.py").exists()
    assert place("main") == program.place
    assert ((root / "lib.py").read_text(), (root / "written.py").exists()) == ("x = 2\n", False)


@contextmanager
def ended_at_last(process: subprocess.Popen) -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_one_of_which_git_says_nothing_is_refused_and_kept(commits, tmp_path, monkeypatch):
    """A bug: where `git status` took too long, all was removed that a program had written."""
    root = place("main").root
    (root / "checkpoint.bin").touch()
    shim = tmp_path / "shims/git"
    shim.parent.mkdir()
    shim.write_text(
        f'#!/bin/sh\ncase " $* " in *" status "*) exit 1;; esac\nexec {shutil.which("git")} "$@"\n'
    )
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")
    with pytest.raises(RefError, match=f"git does not answer in {root}"):
        place("main")
    assert (root / "checkpoint.bin").exists()


def test_one_whose_maker_was_killed_is_made_by_who_waited(commits, monkeypatch):
    _, new = commits
    root = place(new).root
    root.with_suffix(".lock").write_bytes(b"")  # as its maker leaves it while it makes
    (root / "lib.py").unlink()
    asked = fcntl.flock
    refused = []

    def flock(lock: int, how: int) -> None:
        if how & fcntl.LOCK_NB and not refused:
            refused.append(lock)
            raise BlockingIOError  # the maker had it, and is dead now
        asked(lock, how)

    monkeypatch.setattr(refs.fcntl, "flock", flock)
    assert (place(new).root / "lib.py").read_text() == "x = 2\n"
    assert refused


def test_worktrees_that_nobody_uses_are_few(commits, monkeypatch):
    monkeypatch.setattr(refs, "MOST_WORKTREES", 2)
    old, new = commits
    older = commit(lib="x = 5\n")
    in_use = used(old)
    second = place(new).root
    os.utime(in_use.root.with_suffix(".lock"), (1, 1))
    os.utime(second.with_suffix(".lock"), (2, 2))
    third = place(older).root
    assert in_use.root.exists(), "the oldest one is in use"
    assert not second.exists()
    in_use.close()
    again = place(new).root
    assert (again / "lib.py").read_text() == "x = 2\n"
    assert not in_use.root.exists()
    assert third.exists()
    assert git("worktree", "list").count("\n") == 2


def test_a_plan_changes_no_worktree_and_makes_new_ones(commits):
    root = place("main").root
    (root / "lib.py").write_text("x = 9\n")
    (root / "left.py").touch()
    used("main", mends=False).close()
    assert ((root / "lib.py").read_text(), (root / "left.py").exists()) == ("x = 9\n", True)
    new = used("older", mends=False)
    new.close()
    assert (new.folder / "lib.py").read_text() == "x = 1\n"


def test_several_at_once_make_one(commits):
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(place, ["main"] * 8))
    assert made == made[:1] * 8
    assert len(list(Path(".git/worktrees").iterdir())) == 1


def run(at: refs.RunPlace, *words: str) -> str:
    asked = subprocess.run(
        words, cwd=at.folder, env=at.variables, check=True, capture_output=True, text=True
    )
    return asked.stdout.strip()


def test_modules_of_the_checkout_give_way_to_those_of_the_commit(tmp_path):
    Path("pkg/src").mkdir(parents=True)
    git("init", "-b", "main", "pkg")
    os.chdir("pkg")
    (tmp_path / "site-packages/own-1.dist-info").mkdir(parents=True)
    url = f'{{"url": "file://{Path.cwd()}", "dir_info": {{"editable": true}}}}'
    (tmp_path / "site-packages/own-1.dist-info/direct_url.json").write_text(url)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/far.py").write_text("x = 7\n")
    commit(train="", beside="x = 1\n", **{"src/own": "x = 1\n"})
    commit(beside="x = 2\n", **{"src/own": "x = 2\n"})
    path = [tmp_path / "site-packages", Path.cwd(), Path.cwd() / "src", tmp_path / "elsewhere"]
    given = {"PYTHONPATH": os.pathsep.join(map(str, path))}
    asked = "import own, beside, far; print(own.x, beside.x, far.x)"
    for ref, numbers in {"HEAD~1": "1 1 7", "main": "2 2 7"}.items():
        at = place(ref, **given)
        assert run(at, "python", "-c", asked) == numbers
    at = place("main", **given)
    assert f"a package is installed from {Path.cwd()}: modules that main@" in " ".join(
        doubts(WORDS, Path.cwd(), at)
    )
    before = software.key(describe(WORDS, at))
    Path("src/own.py").write_text("x = 3\n")
    assert software.key(describe(WORDS, at)) == before, "what is not run does not count"
    (tmp_path / "elsewhere/far.py").write_text("x = 8\n")
    assert software.key(describe(WORDS, at)) != before, "modules elsewhere do"


def test_the_environment_of_the_checkout_runs_the_commit(commits):
    Path(".venv/bin").mkdir(parents=True)
    Path(".venv/pyvenv.cfg").touch()
    Path(".venv/bin/python").symlink_to(sys.executable)
    Path("data").mkdir()
    at = place("main")
    words = with_program([".venv/bin/python", "train.py", "--data=data"], Path.cwd(), at)
    assert words == [f"{Path.cwd()}/.venv/bin/python", "train.py", "--data=data"]
    said = list(doubts(words, Path.cwd(), at))
    assert f"data is not in main@{commits[1][:8]}; name what git does not know by its" in said[1]


def test_commits_are_one_software_and_the_commit_is_recorded(commits):
    of = {ref: describe(WORDS, place(ref)) for ref in ("older", "main")}
    assert [each["checked_out"] for each in of.values()] == list(commits)
    assert software.key(of["older"]) == software.key(of["main"])
    Path("config.yaml").write_text("lr: 1\n")
    named = [*WORDS, str(Path("config.yaml").absolute())]
    first = software.key(describe(named, place("main")))
    Path("config.yaml").write_text("lr: 2\n")
    assert software.key(describe(named, place("main"))) != first, "a file that is named by its path"
