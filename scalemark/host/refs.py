"""Checks commits out for trials with an axis `ref`, each into a git worktree in the cache folder.

The checkout of the user, its index, HEAD and stash stay as they are; nothing is installed. Standard
library only.
"""

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scalemark.host import interpreters, program_software, software
from scalemark.host.files import cache_folder
from scalemark.host.launch import Launch
from scalemark.host.sources import is_source
from scalemark.records.axes import REF, FreeAxes
from scalemark.text.wording import did_you_mean

_WITH_COMMIT = re.compile(r"(.+)@([0-9a-f]{8,40})", re.DOTALL)
MOST_WORKTREES = 20  # of a checkout that are kept
_MADE = b"made\n"  # in the lock file of a worktree
_WITHIN_S = 600.0  # of a checkout, which may be large


class RefError(ValueError):
    """Raised for a commit that cannot be run; names the ref and what to do."""

    def __init__(self, ref: str, problem: str) -> None:
        super().__init__(f"{REF}={ref}: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlace:
    """Where a program runs, and with which variables."""

    folder: Path
    variables: Mapping[str, str]
    ref: str = ""  # as main@1a2b3c4d; empty: the user's own folder
    commit: str = ""
    root: Path = Path()  # of the worktree
    checkout: Path = Path()  # of the user
    # who has one of these descriptors open, as the program has, keeps the worktree from changes
    locks: tuple[int, ...] = field(default=(), compare=False)

    def close(self) -> None:
        """Let others change the worktree."""
        for lock in self.locks:
            os.close(lock)


def of_trial(free: FreeAxes) -> str:
    """Return the commit that a trial is of; empty for the user's own folder."""
    return str(dict(free).get(REF, ""))


def resolved(ref: str, folder: Path) -> str:
    """Return a ref with the commit that it names now, as `main@1a2b3c4d`.

    One that has a commit already keeps it. Raises RefError.
    """
    top = _top(ref, folder)
    if _WITH_COMMIT.fullmatch(ref):
        _commit(ref, top)
        return ref
    short = software.git(top, "rev-parse", "--short=8", _commit(ref, top))
    if short is None:
        raise RefError(ref, f"git does not answer in {top}")
    return f"{ref}@{short.decode().strip()}"


def place_of(
    ref: str,
    words: Sequence[str],
    folder: Path,
    variables: Mapping[str, str],
    *,
    mends: bool = True,
) -> RunPlace:
    """Return where a command line runs that was given in `folder`; `ref` may be empty.

    A commit is checked out when it is new, and mended when files of it have changed, unless it is
    in use or `mends` is false. Folders of the user's checkout in PYTHONPATH, and packages of it
    that are installed as editable, give way to those of the commit. Close the place when nothing
    runs there any more. Raises RefError.
    """
    if not ref:
        return RunPlace(folder=folder, variables=variables)
    top = _top(ref, folder)
    commit = _commit(ref, top)
    for word in words[: interpreters.MOST_WORDS]:
        if Path(word).name in interpreters.INSTALLERS:
            why = f"{word} would install an environment for each commit"
            raise RefError(ref, f"{why}; name the interpreter instead, as .venv/bin/python")
    with ExitStack() as stack:
        root, lock = _worktree(ref, top, commit, stack, mends=mends)
        there = root / folder.resolve().relative_to(top)
        if not there.is_dir():
            raise RefError(ref, f"that commit has no folder {folder.name}, where you are")
        _refuse_whole_paths(ref, words, folder, top, root)
        command = Launch(words, folder).interpreter(variables)
        imported = interpreters.interpreter(command, folder, variables).imported
        stack.pop_all()
    path: list[Path] = []
    for place in _within(imported, folder, top):
        own = root / place.relative_to(top)
        path += [own, own / "src"]
    given = list(filter(None, variables.get("PYTHONPATH", "").split(os.pathsep)))
    kept = [entry for entry in given if not _within([entry], folder, top)]
    entries = [*(str(entry) for entry in path if entry.is_dir()), *kept]
    variables = {**variables, "PYTHONPATH": os.pathsep.join(entries)}
    if not entries:
        del variables["PYTHONPATH"]
    return RunPlace(
        folder=there,
        variables=variables,
        ref=ref,
        commit=commit,
        root=root,
        checkout=top,
        locks=(lock,),
    )


def _refuse_whole_paths(
    ref: str, words: Sequence[str], folder: Path, top: Path, root: Path
) -> None:
    """Raise RefError where a command names a file of the commit by its whole path in the user's
    checkout, whose code would run.
    """
    for word in words[: interpreters.MOST_WORDS]:
        file = Path(word.rpartition("=")[2])
        known = _within([str(file)], folder, top) if file.is_absolute() else []
        if known and (root / known[0].relative_to(top)).is_file():
            why = f"{file} is of your checkout, not of that commit"
            raise RefError(ref, f"{why}; name it from {folder}")


def with_program(words: Sequence[str], folder: Path, place: RunPlace) -> list[str]:
    """Return a command line with the whole path of a program in an environment of the user's
    checkout, as .venv/bin/python, which git does not know.
    """
    first = folder / words[0]
    is_lost = "/" in words[0] and not (place.folder / words[0]).exists()
    if is_lost and (first.parent.parent / "pyvenv.cfg").is_file():
        return [str(first), *words[1:]]
    return list(words)


def describe(words: Sequence[str], place: RunPlace) -> dict[str, Any]:
    """Describe the software of a program, as `program_software.describe` does.

    Of a commit, which the trial has, its code is no further part.
    """
    if not place.ref:
        return program_software.describe(words, place.folder, place.variables)
    apart = (place.root, place.checkout)
    described = program_software.describe(words, place.folder, place.variables, apart)
    return described | {"checked_out": place.commit}


def doubts(words: Sequence[str], folder: Path, place: RunPlace) -> Iterator[str]:
    """Say where a commit is not run as a reader may think."""
    if not place.ref:
        return
    state = software.checkout(place.checkout)
    if state and (state.changed or any(map(is_source, state.untracked))):
        yield f"changes that are not committed in {place.checkout} are not run"
    for word in words[1 : interpreters.MOST_WORDS]:
        name = word.rpartition("=")[2]
        is_here = os.access(folder / name, os.F_OK)  # and not one that is too long for a file
        if name and is_here and not (place.folder / name).exists():
            yield f"{name} is not in {place.ref}; name what git does not know by its whole path"
    command = Launch(words, place.folder).interpreter(place.variables)
    answer = interpreters.interpreter(command, place.folder, place.variables)
    if _within(answer.imported, place.folder, place.checkout):
        yield (
            f"a package is installed from {place.checkout}: modules that {place.ref} lacks are "
            "taken from there"
        )


def _within(entries: Iterable[str], folder: Path, top: Path) -> list[Path]:
    """Return the folders among entries of an import path that are in a checkout."""
    within = []
    for entry in entries:
        place = (folder / entry).resolve()
        if place.is_relative_to(top):
            within.append(place)
    return within


def _top(ref: str, folder: Path) -> Path:
    top = software.checkout_of(folder.resolve())
    if top is None:
        raise RefError(ref, f"{folder} is in no git checkout; start the sweep in one")
    return top


def _commit(ref: str, top: Path) -> str:
    """Return the whole name of a commit. Raises RefError, with the nearest ref."""
    with_commit = _WITH_COMMIT.fullmatch(ref)
    wanted = with_commit[2] if with_commit else ref
    answer = None
    if not wanted.startswith("-"):
        answer = software.git(top, "rev-parse", "--verify", "--quiet", f"{wanted}^{{commit}}")
    if answer:
        return answer.decode().strip()
    listed = software.git(top, "for-each-ref", "--format=%(refname:short)")
    if listed is None:
        raise RefError(ref, f"git does not answer in {top}")
    known = ["HEAD", *listed.decode().split()]
    hint = did_you_mean(wanted, known, f"it has {', '.join(known[:6])}; see git log --all")
    raise RefError(ref, f"no commit of {top}; {hint}")


def _worktree(
    ref: str, top: Path, commit: str, stack: ExitStack, *, mends: bool
) -> tuple[Path, int]:
    """Return the worktree of a commit, and the descriptor of its shared lock."""
    named = hashlib.sha256(os.fsencode(top)).hexdigest()[:8]
    try:
        root = cache_folder().resolve() / "code" / f"{top.name}-{named}" / commit[:12]
        root.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(root.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o666)
        stack.callback(os.close, lock)
        os.utime(lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            may_change = mends or not (_is_made(lock) and root.exists())
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_SH)  # waits while another process makes or mends it
            may_change = not _is_made(lock)
            if may_change:  # that process was killed
                fcntl.flock(lock, fcntl.LOCK_EX)
        if may_change:
            os.ftruncate(lock, 0)
            is_there = _check_out(ref, top, root, commit)
            if is_there:
                os.pwrite(lock, _MADE, 0)
                _remove_oldest(top, root)
        else:  # it is used as it is
            state = _state(ref, root)
            is_there = state is not None and state.commit.removesuffix(software.DIRTY) == commit
        fcntl.flock(lock, fcntl.LOCK_SH)
    except (OSError, RuntimeError) as error:
        raise RefError(ref, f"{error}; choose another folder by SCALEMARK_CACHE") from None
    if not is_there:
        by_hand = f"git worktree add --force --detach {root} {commit[:12]}"
        raise RefError(ref, f"{root} is not at that commit; `{by_hand}` says why")
    if (root / ".gitmodules").exists():
        raise RefError(ref, "it has submodules; check it out yourself, and run the sweep there")
    return root, lock


def _is_made(lock: int) -> bool:
    """Return whether the worktree of a lock was made to its end."""
    return os.fstat(lock).st_size == len(_MADE)


def _remove_oldest(top: Path, newest: Path) -> None:
    """Remove worktrees of a checkout that nobody uses, but those that were used last."""
    by_use = sorted(newest.parent.glob("*.lock"), key=lambda file: file.stat().st_mtime)
    others = [file.with_suffix("") for file in by_use if file.with_suffix("") != newest]
    there = [root for root in others if root.exists()]
    num_too_many = len(there) + 1 - MOST_WORKTREES
    for root in there:
        if num_too_many <= 0:
            break
        with root.with_suffix(".lock").open("r+") as lock, suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.truncate(lock.fileno(), 0)
            _remove(top, root)
            num_too_many -= 1


def _remove(top: Path, root: Path) -> None:
    software.git(top, "worktree", "remove", "--force", "--force", str(root))
    shutil.rmtree(root, ignore_errors=True)


def _check_out(ref: str, top: Path, root: Path, commit: str) -> bool:
    """Have git make a worktree, unless it is there and clean; return whether it is.

    What a program changed in it is undone. What it wrote and is no source stays.
    """
    if _is_clean(ref, root, commit):
        return True
    software.git(root, "reset", "--hard", "--quiet", commit, within_s=_WITHIN_S)
    if state := _state(ref, root):
        for name in filter(is_source, state.untracked):
            (root / name).unlink(missing_ok=True)
    if _is_clean(ref, root, commit):
        return True
    # a process was killed while it made this, or somebody has removed the folder
    _remove(top, root)
    add = ("worktree", "add", "--force", "--force", "--detach", str(root), commit)
    software.git(top, "-c", "core.hooksPath=/dev/null", *add, within_s=_WITHIN_S)
    return _is_clean(ref, root, commit)


def _state(ref: str, root: Path) -> software.Checkout | None:
    """Return the state of a worktree; None where there is none, or git has no record of it.

    Raises RefError where git does not answer: nothing is known of the files then.
    """
    state = software.checkout(root)
    link = root / ".git"
    if state is None and link.exists():
        record = link.read_text().removeprefix("gitdir:").strip()
        if (root / record / "HEAD").exists():
            raise RefError(ref, f"git does not answer in {root}; try again when it does")
    return state


def _is_clean(ref: str, root: Path, commit: str) -> bool:
    state = _state(ref, root)
    if state is None or state.commit != commit:
        return False
    return not any(map(is_source, state.untracked))
