"""Describes the software of a user's program: its interpreter, its packages, its code.

The same is found while a sweep is planned and in each attempt, so that numbers of another
environment are never taken for finished repeats. Of code its contents count, not commits: a change
of a README, a log that a program writes, or the commit of an edit that was measured already makes
no other program. Standard library only.
"""

import hashlib
import os
import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice, product
from pathlib import Path
from typing import Any

from scalemark.host import software
from scalemark.host.interpreters import (
    MOST_WORDS,
    RUNNERS,
    image_of,
    interpreter,
    place_elsewhere,
)
from scalemark.host.launch import IN_SETTINGS, WRITERS, Launch
from scalemark.host.own_code import NOT_INSTALLED, ROOT, own_version
from scalemark.host.sources import (
    MOST_SOURCES,
    UnknownCodeError,
    found_below,
    held_by,
    imported_by,
    is_of_command,
    is_source,
    is_written_by_name,
    may_be_its_code,
    sources_below,
    text_of,
)
from scalemark.program import template
from scalemark.program.template import PYTHON, SCRIPTS

_WRITTEN = (".log", ".out", ".err")  # a program writes into these
_SETTINGS = re.compile("conf|cfg")  # in the name of a folder, or of an option that takes one
_VARIABLE = re.compile(rb"[\"'](?P<quoted>[A-Z][A-Z0-9_]+)[\"']|\$\{?(?P<shell>[A-Z][A-Z0-9_]+)")
_CHANGES_PATH = re.compile(
    rb"^.*(?:\bsys\.path(?:\.\w+\(|\[.*?\] *=| *\+?= )|\baddsitedir\(|\bPYTHONPATH=).*$",
    re.MULTILINE,
)
_CODE_NAMED = re.compile(rb"[\"']([^\"'\n]+\.(?:py|sh|so))[\"']")
_QUOTED = re.compile(rb"[\"']([^\"'\n]+)[\"']")
# stems of file names
_ALWAYS_LOADED = re.compile(r"__\w+__|setup|hubconf|sitecustomize|usercustomize")
_OF_TESTS = ("test", "tests")
_LOADS_ANY = re.compile(  # modules or scripts whose names are made while it runs, also by a shell
    rb"\b(?:import_module|__import__|run_path|run_module|spec_from_file_location|SourceFileLoader"
    rb"|walk_packages|iter_modules|load_source|locate|instantiate|get_class|subprocess|Popen"
    rb"|(?:exec|execfile|system|popen)\()"
    rb"|\$(?:\{\w+\}\w*|\w+)\.py\b|\bpython[\d.]*(?:\s+-[^\sm]\S*)*\s+(?:-m\s+)?[\w.\"']*\$"
)
_OF_AXIS = re.compile(r"\{[^{}]+\}")
_UNKNOWN_CODE = "unknown-"


def code_of(
    launch: Launch, imported: Iterable[Path], apart: Sequence[Path] = ()
) -> tuple[dict[str, str], Collection[Path]]:
    """Describe the code of a program, and return the sources that may name variables: of its
    folder, of the places of its code, of other modules.

    `imported` are folders outside of it that its interpreter looks for modules in. `apart` are
    checkouts that do not count, a worktree first: a trial itself names its commit. `commit` is of
    the checkout that holds the program, for people; `code` is a digest of all sources, a name that
    equals no other where they cannot be known, or empty without any; where git knows nothing of
    them, their folder counts, too; `files` is a digest of files that words name; `loads` is there
    where modules may come from folders that are not known.
    """
    digest = hashlib.sha256()
    entered, is_known = launch.entered()
    places = [place for place in _places(launch, [*entered, *imported]) if place not in apart]
    states = [software.checkout(place) for place in places]
    held: list[dict[str, str]] = []
    with suppress(UnknownCodeError):
        held = list(map(held_by, places, states))
    files = [place / name for place, names in zip(places, held, strict=False) for name in names]
    helpers = _helpers(launch, files, ())
    place_of_code = launch.folder_of_code()
    own = [source for source in sources_below(place_of_code) if source not in helpers]
    modules, are_known = _modules_of_added_folders(launch, own, [*places, *apart])
    if helpers and modules:
        helpers = _helpers(launch, files, modules.values())
    for name, file in sorted(modules.items()):
        content = software.git_content(file)
        digest.update(f"{name}\0{content}\n".encode(errors="surrogateescape"))
    for place, state, contents in zip(places, states, held, strict=False):
        if state is None:  # beside it may lie what it reads, which no commit tells apart
            digest.update(f"{place}\n".encode(errors="surrogateescape"))
        for name, content in sorted(contents.items()):
            if place / name not in helpers:
                digest.update(f"{name}\0{content}\n".encode(errors="surrogateescape"))
    code = digest.hexdigest()[:16] if files or modules else ""
    if len(held) < len(places):
        code = _never_equal(os.getpid())
    commit = ""
    if states and states[0]:
        commit = states[0].commit
        if any(map(is_source, states[0].untracked)) and not commit.endswith(software.DIRTY):
            commit += software.DIRTY
    program = {"commit": commit, "code": code, "files": _files_digest(launch, apart)}
    if not (is_known and are_known):
        program["loads"] = "modules of unknown folders"
    sources = dict.fromkeys([*own, *modules.values()])
    for place in places:
        if place != place_of_code:
            sources.update(dict.fromkeys(sources_below(place)))
    return program, sources.keys() - helpers


def _helpers(launch: Launch, files: Sequence[Path], modules: Iterable[Path]) -> Collection[Path]:
    """Return the Python sources beside a script, and those of tests, that nothing names: the words
    of their names stand neither in the command line, nor in settings that it names, nor in what may
    be loaded. None where an axis names the script, or a source loads others by names that it makes.
    """
    command = " ".join(launch.words)
    if _OF_AXIS.search(command) or _LOADS_ANY.search(os.fsencode(command)):
        return ()
    beside = {script.parent for script in launch.scripts}
    waiting: dict[Path, set[bytes]] = {}
    to_read = list(modules)
    for word in (*launch.words[:MOST_WORDS], *launch.settings_of_shells()):
        settings = launch.folder / word.rpartition("=")[2]
        if settings.name.endswith(IN_SETTINGS) and template.is_file(settings):
            to_read.append(settings)
    for file in files:
        if file.suffix != ".py" or file in launch.scripts or _ALWAYS_LOADED.fullmatch(file.stem):
            to_read.append(file)
        else:
            waiting[file] = _words_in(os.fsencode(file.stem))
    named = _words_in(os.fsencode(command))
    while True:
        for file in to_read:
            text = text_of(file)
            if _LOADS_ANY.search(text):
                return ()
            with suppress(FileNotFoundError):  # removed meanwhile
                if not text and file.is_file() and file.stat().st_size:
                    return ()
            named |= _words_in(text)
        to_read = [file for file, parts in waiting.items() if parts <= named]
        if not to_read:
            break
        for file in to_read:
            del waiting[file]
    return {file for file in waiting if file.parent in beside or file.parent.name in _OF_TESTS}


def _words_in(text: bytes) -> set[bytes]:
    return set(re.findall(rb"\w+", text))


def _modules_of_added_folders(
    launch: Launch, sources: Sequence[Path], places: Sequence[Path]
) -> tuple[dict[str, Path], bool]:
    """Return the modules, by their names, that the program imports from folders which its
    `sources` add to `sys.path`, and files of code that these name in quotes; and whether the
    folders are known. Places count as a whole.

    A folder is a text in quotes, as "../lib", seen from where it runs, from its source, or from two
    folders above that: of those that are too many no module is imported.
    """
    folder = launch.folder
    near = {folder, *(script.parent for script in launch.scripts)}
    added: dict[Path, None] = {}
    is_known = True
    imported: set[str] = set()
    modules: dict[str, Path] = {}
    for file in sources:
        text = text_of(file)
        imported |= imported_by(text)
        for base, name in product(
            [folder, file.parent], map(os.fsdecode, _CODE_NAMED.findall(text))
        ):
            with suppress(OSError, ValueError):  # a name that is too long, or has a null character
                code = (base / name).resolve()
                if code.is_file() and not any(map(code.is_relative_to, places)):
                    modules[name] = code
        changes = _CHANGES_PATH.findall(text)
        if changes:
            folders = _folders_named(text, changes, [folder, *file.parents[:3]])
            added.update(dict.fromkeys(folders))
            is_known = is_known and bool(folders or b"__file__" in text or file.parent not in near)
    held: list[tuple[Path, set[str]]] = []  # the names that a folder has
    for place in filter(may_be_its_code, added):
        if not any(map(place.is_relative_to, places)):
            with suppress(OSError):
                held.append((place, {each.name.removesuffix(".py") for each in place.iterdir()}))
    waiting = imported
    while waiting:
        found: set[str] = set()
        for place, names in held:
            for name in sorted(names & waiting):
                for file in (place / f"{name}.py", *found_below(place / name)):
                    own_name = str(file.relative_to(place))
                    if own_name not in modules and template.is_file(file):
                        modules[own_name] = file
                        found |= imported_by(text_of(file))
        waiting = found - imported
        imported |= waiting
    return modules, is_known


def _folders_named(text: bytes, changes: Sequence[bytes], bases: Sequence[Path]) -> list[Path]:
    """Return the folders that a source names: in quotes, in joined parts, or between colons."""
    named = set(_QUOTED.findall(text)) | {b"/".join(_QUOTED.findall(line)) for line in changes}
    for line in changes:
        named.update(re.split(rb"[=:\s\"']+", line))
    if b"__file__" in text:
        named.add(b".")
    folders = []
    for base, name in product(bases, sorted(named)):
        with suppress(OSError, ValueError):  # a name that is too long, or has a null character
            if name and (base / os.fsdecode(name)).is_dir():
                folders.append((base / os.fsdecode(name)).resolve())
    return folders


def is_unknown(code: str) -> bool:
    """Return whether a digest of `code_of` stands for code that could not be listed."""
    return code.startswith(_UNKNOWN_CODE)


@cache
def _never_equal(pid: int) -> str:
    """Return a name of unknown code that no other process uses, forked ones included."""
    return f"{_UNKNOWN_CODE}{pid}-{uuid.uuid4().hex[:16]}"


def _places(launch: Launch, others: Iterable[Path]) -> Iterator[Path]:
    """Yield the folders that hold a program's code, each once, checkouts as a whole."""
    places = [launch.folder_of_code(), *(script.parent for script in launch.scripts)]
    places = [place.resolve() for place in [*places, *others]]
    yielded: list[Path] = []
    for place in places:
        root = software.checkout_of(place) or place
        # scalemark itself has a version of its own
        is_ours = root == ROOT and place != places[0]
        is_yielded = any(root.is_relative_to(other) for other in yielded)
        if not is_ours and not is_yielded and root.is_dir():
            yielded.append(root)
            yield root


def edited_since(words: Sequence[str], folder: Path, commit: str) -> Sequence[str]:
    """Name the sources of a program that differ from a commit; nothing where git does not tell."""
    root = software.checkout_of(Launch(words, folder).folder_of_code())
    if root is None or commit.endswith(software.DIRTY):
        return ()
    answer = software.git(root, "diff", "--name-only", "-z", commit)
    state = software.checkout(root)
    if answer is None or state is None:
        return ()
    names = [name for name in os.fsdecode(answer).split("\0") if is_source(name, b"-")]
    names += filter(is_source, state.untracked)
    return [name for name in names if not is_of_command(root / name)]


def written_since(words: Sequence[str], folder: Path, time_s: float) -> list[str]:
    """Return the names of sources that were written since a moment, as the files say."""
    written = []
    place = Launch(words, folder).folder_of_code()
    for file in islice(found_below(place, lambda name: is_source(name, b"-")), MOST_SOURCES):
        with suppress(OSError):  # removed meanwhile
            if file.stat().st_mtime >= time_s:
                written.append(file.name)
    return written


def _files_digest(launch: Launch, apart: Sequence[Path]) -> str:
    """Digest the files that a command line names, as `my.yaml`, `--config=my.yaml` and `./train`.

    Python programs and scripts are left out, which are found in other ways, and what an option of
    output names. Of a large file its size counts. Empty without any.
    """
    digest, num_found = hashlib.sha256(), 0
    option = ""
    for word in (*launch.words[:MOST_WORDS], *launch.settings_of_shells()):
        before, _, name = word.rpartition("=")
        before = before or option
        is_output = before.startswith("-") and is_written_by_name(before)
        is_output = is_output or before in WRITERS or name.endswith(_WRITTEN)
        if not (option in WRITERS and word.startswith("-")):  # `tee -a` writes, too
            option = word if word.startswith("-") or word in WRITERS else ""
        if is_output or name.endswith(SCRIPTS) or PYTHON.fullmatch(Path(name).name):
            continue
        with suppress(OSError, ValueError):  # a name that is too long, or has a null character
            file = (launch.folder / name.removeprefix("@")).resolve()
            is_of_commit = bool(apart) and file.is_relative_to(apart[0])
            files = [] if is_of_commit else [file]
            if file.is_dir() and _SETTINGS.search(f"{before} {file.name}"):
                files = list(found_below(file, lambda name: name.endswith(IN_SETTINGS)))
            for each in filter(Path.is_file, files):
                named = name if each == file else f"{name}/{each.relative_to(file)}"
                digest.update(os.fsencode(named) + b"\0" + _content_or_size(each))
                num_found += 1
    if num_found:
        return digest.hexdigest()[:16]
    return ""


def _content_or_size(path: Path) -> bytes:
    """Digest a file; of a large one, its size. Other than `software.git_content`, so that what was
    recorded stays comparable.
    """
    try:
        size = path.stat().st_size
        if size > software.MOST_HASHED_BYTES:
            return str(size).encode()
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return b"unreadable"  # or removed meanwhile


def describe(
    words: Sequence[str],
    folder: Path,
    variables: Mapping[str, str],
    apart: Sequence[Path] = (),
) -> dict[str, Any]:
    """Describe the software of a program, as `scalemark.host.software.describe` does its own.

    `words` is its command line, `folder` where it runs, `variables` its environment, and `apart`
    as `code_of` has it.
    """
    launch = Launch(words, folder)
    path = [word.partition("PYTHONPATH=")[2] for word in words]
    path = [*filter(None, [*path, variables.get("PYTHONPATH")])]
    answer = interpreter(
        launch.interpreter(variables), folder, {**variables, "PYTHONPATH": os.pathsep.join(path)}
    )
    packages = dict(answer.packages)
    program, sources = code_of(launch, map(Path, answer.imported), apart)
    for elsewhere in filter(place_elsewhere, launch.commands):
        image = image_of(elsewhere, folder, variables)
        program["image" if image else "elsewhere"] = image or place_elsewhere(elsewhere)
    if own_version() != NOT_INSTALLED:
        packages["scalemark"] = own_version()  # it times the steps
    # what a shell reads of the command line, and what sources name: quoted, or after a dollar sign
    named = set(_VARIABLE.findall(b" ".join(map(os.fsencode, words[:MOST_WORDS]))))
    for file in sources:
        named.update(_VARIABLE.findall(text_of(file)))
    names = {(quoted or of_shell).decode() for quoted, of_shell in named}
    read = software.result_changing(variables, names)
    described = software.described(answer.python, packages, read)
    return described | {"interpreter": answer.path, "program": program}


def doubt(words: Sequence[str], described: Mapping[str, Any]) -> str:
    """Say what is not known of a program: its code, or the packages of a Python program. Empty
    where all is known.

    `described` is what `describe` returned.
    """
    if is_unknown(described["program"]["code"]):
        return (
            "its folder has too many sources to compare, or a submodule in which git does not "
            "answer, so its code is not known; no earlier trial counts as finished"
        )
    if described["program"].get("loads"):
        return (
            "it takes code from folders that are only known while it runs, so an edit there goes "
            "unseen; set sweep.rerun=true after one"
        )
    if name := described["program"].get("elsewhere"):
        return (
            f"what {name} runs is in another place, and no engine tells the digest of its "
            "image, so its packages are not known; set sweep.rerun=true after a change"
        )
    if described["python"] or described["program"].get("image"):
        return ""
    for word in words[:MOST_WORDS]:
        name = Path(word).name
        if PYTHON.fullmatch(name) or name.endswith(SCRIPTS) or name in (*RUNNERS, "make"):
            return (
                "the Python that runs it was not found, so its packages are not known; name the "
                "interpreter in the command, or set sweep.rerun=true after an upgrade"
            )
    return ""
