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
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain, islice, pairwise, product
from pathlib import Path
from typing import Any

from scalemark.host import software
from scalemark.host.interpreters import (
    MOST_WORDS,
    RUNNERS,
    image_of,
    interpreter,
    interpreter_of,
    place_elsewhere,
)
from scalemark.host.own_code import NOT_INSTALLED, ROOT, own_version
from scalemark.program import template
from scalemark.program.template import PYTHON, SCRIPTS

_SOURCES = (
    *(".py", ".pyx", ".sh", ".bash", ".cu", ".cuh"),
    *(".cpp", ".cxx", ".cc", ".c", ".h", ".hpp", ".jl", ".lua", ".so", ".mk"),
)
_CONFIGURATION = (
    *(".yaml", ".yml", ".toml", ".cfg", ".ini", ".gin", ".conf", ".jsonnet", ".libsonnet"),
    *(".j2", ".jinja", ".jinja2", ".pbtxt", ".prototxt", ".textproto"),
)
_WITH_GIT = (*_SOURCES, *_CONFIGURATION, ".json")  # what git knows is not written by each run
_EXECUTABLE = b"100755"  # the mode of a file
_LINK = b"120000"
_SUBMODULE = b"160000"
_MOST_SOURCES = 5_000  # of a folder that is in no checkout
_MOST_ENTRIES = 10_000  # that are no source, one after the other: data may lie below a script
_DEEPEST = 12  # folders below it
_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")  # a folder with one of them is installed software
_NOT_ITS_CODE = ("site-packages", "dist-packages", "node_modules", "__pycache__")
_MOST_NESTED = 3  # variables of shells, within each other
_MOST_SEARCHED_BYTES = 2**20  # of one source, for the variables that it names
_WRITTEN = (".log", ".out", ".err")  # a program writes into these
_WRITERS = ("tee", ">", ">>", "2>", "&>")  # before a file that a shell's command writes
_OUTPUT = re.compile(
    r"-*(.*[-_])?(o|out|output|outfile|save|log|logs|logging|result|results|metrics|dump)([-_].*)?"
)
_SETTINGS = re.compile("conf|cfg")  # in the name of a folder, or of an option that takes one
_IN_SETTINGS = (*_CONFIGURATION, ".json")
_VARIABLE = re.compile(rb"[\"'](?P<quoted>[A-Z][A-Z0-9_]+)[\"']|\$\{?(?P<shell>[A-Z][A-Z0-9_]+)")
_CHANGES_PATH = re.compile(
    rb"^.*(?:\bsys\.path(?:\.\w+\(|\[.*?\] *=| *\+?= )|\baddsitedir\(|\bPYTHONPATH=).*$",
    re.MULTILINE,
)
_IMPORTS = re.compile(rb"^[ \t]*(?:import|from)[ \t].*$", re.MULTILINE)
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
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_ASSIGNED = re.compile(r"^\s*(?:export\s+)?(\w+)\s*[:?]?=\s*[\"']?([^\s\"']*)", re.MULTILINE)
_REFERRED = re.compile(r"\$(?:\{(\w+)(?::?-([^}]*))?\}|\((\w+)\)|(\w+))")
_OWN_FOLDER = re.compile(r"\$\(dirname\s[^)]*\)")
_OF_THE_FOLDER = ("PWD", "pwd", "SLURM_SUBMIT_DIR", "PBS_O_WORKDIR")  # what says where it runs
_COMMENT = re.compile(r"(?<!\S)#(?!SBATCH).*")
_ENTERS = re.compile(  # a folder, in words of a shell and of Python
    r"(?:\b(?:cd|pushd)\s+|\s(?:-C|--chdir)[\s=]\s*|\bcwd\s*=\s*)[\"']?([^\s\"';&|)]+)"
)
_MOUNTED = re.compile(  # a folder of this host, and where a container has it
    r"(?:\s(?:-v|--volume|-B|--bind)[\s=]?[\"']?|,(?:source|src)=)([^\s\"':,]+)[\"']?"
    r"(?::|,(?:target|dst|destination)=)([^\s\"':,]+)"
)
_UNKNOWN_CODE = "unknown-"
_TOP_LEVEL_KEY = re.compile(rb"^(\w+):", re.MULTILINE)
COMMAND_KEYS = frozenset(
    b"run name read item items_per_step per_gpu flops_per_item".split()
    + b"takes_apart compare shell".split()
)
"""Settings of a file for `command=`."""


class UnknownCodeError(Exception):
    """The sources of a program cannot be listed."""


def code_of(
    words: Sequence[str], folder: Path, imported: Iterable[Path], apart: Sequence[Path] = ()
) -> tuple[dict[str, str], Collection[Path]]:
    """Describe the code of the program that a command line starts in a folder, and return the
    sources that may name variables: of its folder, of the places of its code, of other modules.

    `imported` are folders outside of it that its interpreter looks for modules in. `apart` are
    checkouts that do not count, a worktree first: a trial itself names its commit. `commit` is of
    the checkout that holds the program, for people; `code` is a digest of all sources, a name that
    equals no other where they cannot be known, or empty without any; where git knows nothing of
    them, their folder counts, too; `files` is a digest of files that words name; `loads` is there
    where modules may come from folders that are not known.
    """
    digest = hashlib.sha256()
    entered, is_known = _entered(words, folder)
    places = [place for place in _places(words, folder, entered, imported) if place not in apart]
    states = [software.checkout(place) for place in places]
    held: list[dict[str, str]] = []
    with suppress(UnknownCodeError):
        held = list(map(_files_below, places, states))
    files = [place / name for place, names in zip(places, held, strict=False) for name in names]
    helpers = _helpers(words, folder, files, ())
    place_of_code = _folder_of_code(words, folder.resolve())
    own = [source for source in _sources_below(place_of_code) if source not in helpers]
    modules, are_known = _modules_of_added_folders(words, folder, own, [*places, *apart])
    if helpers and modules:
        helpers = _helpers(words, folder, files, modules.values())
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
    program = {"commit": commit, "code": code, "files": _files_digest(words, folder, apart)}
    if not (is_known and are_known):
        program["loads"] = "modules of unknown folders"
    sources = dict.fromkeys([*own, *modules.values()])
    for place in places:
        if place != place_of_code:
            sources.update(dict.fromkeys(_sources_below(place)))
    return program, sources.keys() - helpers


def _helpers(
    words: Sequence[str], folder: Path, files: Sequence[Path], modules: Iterable[Path]
) -> Collection[Path]:
    """Return the Python sources beside a script, and those of tests, that nothing names: the words
    of their names stand neither in the command line nor in what may be loaded. None where an axis
    names the script, or a source loads others by names that it makes.
    """
    command = " ".join(words)
    if _OF_AXIS.search(command) or _LOADS_ANY.search(os.fsencode(command)):
        return ()
    started = set(scripts(words, folder))
    beside = {script.parent for script in started}
    waiting: dict[Path, set[bytes]] = {}
    to_read = list(modules)
    for file in files:
        if file.suffix != ".py" or file in started or _ALWAYS_LOADED.fullmatch(file.stem):
            to_read.append(file)
        else:
            waiting[file] = _words_in(os.fsencode(file.stem))
    named = _words_in(os.fsencode(command))
    while True:
        for file in to_read:
            text = _text_of(file)
            is_left_out = not text and file.is_file() and file.stat().st_size
            if is_left_out or _LOADS_ANY.search(text):
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
    words: Sequence[str], folder: Path, sources: Sequence[Path], places: Sequence[Path]
) -> tuple[dict[str, Path], bool]:
    """Return the modules, by their names, that the program imports from folders which its
    `sources` add to `sys.path`, and files of code that these name in quotes; and whether the
    folders are known. Places count as a whole.

    A folder is a text in quotes, as "../lib", seen from where it runs, from its source, or from two
    folders above that: of those that are too many no module is imported.
    """
    near = {folder.resolve(), *(script.parent for script in scripts(words, folder))}
    added: dict[Path, None] = {}
    is_known = True
    imported: set[str] = set()
    modules: dict[str, Path] = {}
    for file in sources:
        text = _text_of(file)
        imported |= _imported_by(text)
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
    for place in filter(_may_be_its_code, added):
        if not any(map(place.is_relative_to, places)):
            with suppress(OSError):
                held.append((place, {each.name.removesuffix(".py") for each in place.iterdir()}))
    waiting = imported
    while waiting:
        found: set[str] = set()
        for place, names in held:
            for name in sorted(names & waiting):
                for file in (place / f"{name}.py", *_found_below(place / name)):
                    own_name = str(file.relative_to(place))
                    if own_name not in modules and template.is_file(file):
                        modules[own_name] = file
                        found |= _imported_by(_text_of(file))
        waiting = found - imported
        imported |= waiting
    return modules, is_known


def _imported_by(text: bytes) -> set[str]:
    """Return all words of the imports of a source, modules among them."""
    return set(map(os.fsdecode, re.findall(rb"\w+", b" ".join(_IMPORTS.findall(text)))))


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


def _text_of(source: Path) -> bytes:
    """Return what a source holds; nothing of a large one, and of one that was removed meanwhile."""
    with suppress(OSError):
        if source.stat().st_size <= _MOST_SEARCHED_BYTES:
            return source.read_bytes()
    return b""


def is_unknown(code: str) -> bool:
    """Return whether a digest of `code_of` stands for code that could not be listed."""
    return code.startswith(_UNKNOWN_CODE)


@cache
def _never_equal(pid: int) -> str:
    """Return a name of unknown code that no other process uses, forked ones included."""
    return f"{_UNKNOWN_CODE}{pid}-{uuid.uuid4().hex[:16]}"


def _places(
    words: Sequence[str], folder: Path, entered: Iterable[Path], imported: Iterable[Path]
) -> Iterator[Path]:
    """Yield the folders that hold a program's code, each once, checkouts as a whole."""
    folder = folder.resolve()
    places = [_folder_of_code(words, folder)]
    places += [script.parent for script in scripts(words, folder)]
    places = [place.resolve() for place in [*places, *entered, *imported]]
    yielded: list[Path] = []
    for place in places:
        root = software.checkout_of(place) or place
        # scalemark itself has a version of its own
        is_ours = root == ROOT and place != places[0]
        is_yielded = any(root.is_relative_to(other) for other in yielded)
        if not is_ours and not is_yielded and root.is_dir():
            yielded.append(root)
            yield root


def _folder_of_code(words: Sequence[str], folder: Path) -> Path:
    """Return the folder it runs in, if that holds its script; else the folder of the script."""
    script = next(scripts(words, folder), None)
    if script is None:
        return folder
    place = script.parent
    if not place.is_relative_to(folder):
        return place
    if folder == Path.home().resolve() and place != folder:
        return folder / place.relative_to(folder).parts[0]
    return folder


def _entered(words: Sequence[str], folder: Path) -> tuple[list[Path], bool]:
    """Return the folders that a command line and its scripts change to, as by `cd`, or name in
    what a container mounts, and whether all are known.
    """
    texts = [_filled(" ".join(words), folder)]
    texts += (_filled_text(script, folder) for script in scripts(words, folder))
    entered, is_known = [], True
    for text in texts:
        for on_host, inside in _MOUNTED.findall(text):
            for word in text.split():
                name, is_below, rest = word.strip("\"'").partition(inside)
                if is_below and not name and rest[:1] in ("", "/"):
                    place = folder / f"{on_host}{rest}"
                    with suppress(OSError):  # of a name that is too long
                        entered.append(place if place.is_dir() else place.parent)
    for name in chain.from_iterable(map(_ENTERS.findall, texts)):
        with suppress(OSError, ValueError, RuntimeError):  # also of no user's home
            place = folder / Path(name).expanduser()
            if place.is_dir():
                entered.append(place)
            elif "$" in name:
                is_known = False
    return entered, is_known


def _filled_text(script: Path, folder: Path) -> str:
    """Return the text of a script; of a shell's, or of make's, without comments, its lines joined
    and its variables filled in.
    """
    text = os.fsdecode(_text_of(script))
    if script.suffix == ".py":
        return text
    text = _COMMENT.sub("", text).replace("\\\n", " ")
    return _filled(_OWN_FOLDER.sub(lambda _: str(script.parent), text), folder)


def _filled(text: str, folder: Path) -> str:
    """Fill in the variables of a shell's text that runs in a folder, where a batch job begins."""
    here = dict.fromkeys(_OF_THE_FOLDER, str(folder))
    values = {**os.environ, **here, **dict(_ASSIGNED.findall(text))}

    def value(match: re.Match[str]) -> str:
        usual = match[0] if match[2] is None else match[2]
        return str(values.get(match[1] or match[3] or match[4], usual))

    for _ in range(_MOST_NESTED):
        text = _REFERRED.sub(value, text)
    return text


def scripts(words: Sequence[str], folder: Path, yielded: set[Path] | None = None) -> Iterator[Path]:
    """Yield the scripts that a command line names, and those that these name to a shell."""
    if yielded is None:
        yielded = set()
    for word in words[:MOST_WORDS]:
        names = [word] if word.endswith(SCRIPTS) else []
        if Path(word).name == "make":
            names = list(_MAKEFILES)
        for script in filter(template.is_file, map(folder.joinpath, names)):
            script = script.resolve()
            if script not in yielded:
                yielded.add(script)
                yield script
                for line in _lines_of(script, folder) if script.suffix != ".py" else ():
                    yield from scripts(line, folder, yielded)


def texts_of_scripts(words: Sequence[str], folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the scripts of a command line that can be read, each with its text."""
    for script in scripts(words, folder):
        if os.access(script, os.R_OK):
            yield script, script.read_text(encoding="utf-8", errors="replace")


def _lines_of(script: Path, folder: Path) -> Iterator[Sequence[str]]:
    """Yield the commands of a shell script, or of make's, as the words of each."""
    for line in re.split(r"[\n;&|]+", _filled_text(script, folder)):
        yield [word.strip("\"'`()@") for word in line.split()]


def _commands(words: Sequence[str], folder: Path) -> list[Sequence[str]]:
    """Return a command line, and those that its shell scripts hold."""
    shells = (script for script in scripts(words, folder) if script.suffix != ".py")
    inner = chain.from_iterable(_lines_of(script, folder) for script in shells)
    return [words, *filter(None, inner)]


def interpreter_command(
    words: Sequence[str], folder: Path, variables: Mapping[str, str]
) -> Sequence[str]:
    """Return the command that starts the Python of a program; empty where none is found."""
    return interpreter_of(_commands(words, folder), folder, variables)


def _files_below(root: Path, state: software.Checkout | None) -> dict[str, str]:
    """Return what each source file holds, by its name: as git lists them, else as they are found.

    Git may be missing, refuse another user's checkout, or take too long. Raises UnknownCodeError.
    """
    files = _files_of_checkout(root, state)
    if files is None:
        files = {}
        for file in _found_below(root):
            if len(files) == _MOST_SOURCES:
                raise UnknownCodeError
            files[str(file.relative_to(root))] = software.git_content(file)
    for name in list(files):
        if name.endswith((".yaml", ".yml")) and _is_of_command(root / name):
            del files[name]
    return files


def _is_of_command(file: Path) -> bool:
    """Return whether it is a file as `command=` takes it, whose settings the trial has already."""
    with suppress(OSError):
        keys = set(_TOP_LEVEL_KEY.findall(file.read_bytes()))
        return b"run" in keys and keys <= COMMAND_KEYS
    return False


def _files_of_checkout(root: Path, state: software.Checkout | None) -> dict[str, str] | None:
    """Return the digests of sources that git knows or would add; None where git does not answer.

    Contents are named as git names them, so that an edit is the same before and after its commit.
    """
    staged = software.git(root, "ls-files", "--stage", "-v", "-z")
    if staged is None or state is None:
        return None
    files: dict[str, str] = {}
    for entry in filter(None, staged.split(b"\0")):
        described, _, encoded = entry.partition(b"\t")
        tag, mode, content, _ = described.split()
        name = os.fsdecode(encoded)
        if mode == _SUBMODULE:
            inner = _files_of_checkout(root / name, software.checkout(root / name))
            if inner is None and (root / name / ".git").exists():
                raise UnknownCodeError
            for own_name, digest in (inner or {}).items():
                files[f"{name}/{own_name}"] = digest
        elif mode == _LINK and (root / name).is_dir():
            if not (root / name).resolve().is_relative_to(root.resolve()):
                for file in _found_below(root / name):
                    files[str(file.relative_to(root))] = software.git_content(file)
        elif is_source(name, mode):
            files[name] = content.decode()
            is_not_compared = tag != b"H" and (root / name).exists()  # `--assume-unchanged`
            if mode == _LINK or is_not_compared:
                files[name] = software.git_content(root / name)
    for name in state.edited:
        if name in files and (root / name).exists():
            files[name] = software.git_content(root / name)
        else:
            files.pop(name, None)
    for name in [*filter(is_source, state.untracked), *_beside(root, files)]:
        files[name] = software.git_content(root / name)
    return files


def _beside(root: Path, files: Mapping[str, str]) -> Iterator[str]:
    """Yield modules that git ignores in folders of modules that it knows, as generated ones, and
    those of packages there that it ignores and sources import.
    """
    known = [root / name for name in files if name.endswith(".py")]
    folders = {file.parent for file in known}
    packages = []
    for folder in sorted(folders):
        with suppress(OSError):
            for file in sorted(folder.iterdir()):
                name = str(file.relative_to(root))
                if file.name.startswith(".") or name in files:
                    continue
                if file.name.endswith(_SOURCES) and file.is_file():
                    yield name
                elif file not in folders and any(file.glob("*.py")):
                    packages.append(file)
    if packages:
        imported: set[str] = set().union(*(_imported_by(_text_of(file)) for file in known))
        for package in packages:
            if package.name in imported:
                yield from (str(file.relative_to(root)) for file in _found_below(package))


def is_source(name: str, mode: bytes = b"") -> bool:
    """Return whether a file, whose mode git knows or not, is code or configuration."""
    folder, _, own_name = name.rpartition("/")
    if own_name.startswith(".") or folder.startswith(".") or "/." in folder:
        return False
    if own_name in _MAKEFILES:
        return True
    if mode:
        if own_name.endswith(".json") and _OUTPUT.fullmatch(own_name.removesuffix(".json")):
            return False  # a program writes it
        is_program = mode == _EXECUTABLE and "." not in own_name
        return is_program or own_name.endswith(_WITH_GIT)
    if own_name.endswith(_CONFIGURATION):
        # elsewhere programs write such files, one for each of their runs
        return not folder or any(part.startswith(("conf", "cfg")) for part in folder.split("/"))
    return own_name.endswith(_SOURCES)


def edited_since(words: Sequence[str], folder: Path, commit: str) -> Sequence[str]:
    """Name the sources of a program that differ from a commit; nothing where git does not tell."""
    root = software.checkout_of(_folder_of_code(words, folder.resolve()))
    if root is None or commit.endswith(software.DIRTY):
        return ()
    answer = software.git(root, "diff", "--name-only", "-z", commit)
    state = software.checkout(root)
    if answer is None or state is None:
        return ()
    names = [name for name in os.fsdecode(answer).split("\0") if is_source(name, b"-")]
    names += filter(is_source, state.untracked)
    return [name for name in names if not _is_of_command(root / name)]


def _found_below(place: Path, wanted: Callable[[str], bool] = is_source) -> Iterator[Path]:
    """Yield the files of source in a folder and below it, those of upper folders first; or files
    whose relative names are `wanted`.
    """
    level = [place]
    num_without: Counter[tuple[str, ...]] = Counter()  # entries since the last file, of a branch
    for _ in range(_DEEPEST + 1):
        below: list[Path] = []
        for folder in level:
            branch = folder.relative_to(place).parts[:1]
            if num_without[branch] > _MOST_ENTRIES:
                continue
            if folder != place and not _may_be_its_code(folder):
                continue
            files, folders = [], []
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    num_without[branch] += 1
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir():
                        folders.append(Path(entry.path))
                    elif wanted(os.path.relpath(entry.path, place)) and entry.is_file():
                        files.append(Path(entry.path))
                        num_without[branch] = 0
            yield from sorted(files)
            below += sorted(folders)
        level = below


def _sources_below(place: Path) -> Iterator[Path]:
    return islice(_found_below(place, lambda name: name.endswith(_SOURCES)), _MOST_SOURCES)


def written_since(words: Sequence[str], folder: Path, time_s: float) -> list[str]:
    """Return the names of sources that were written since a moment, as the files say."""
    written = []
    place = _folder_of_code(words, folder.resolve())
    for file in islice(_found_below(place, lambda name: is_source(name, b"-")), _MOST_SOURCES):
        with suppress(OSError):  # removed meanwhile
            if file.stat().st_mtime >= time_s:
                written.append(file.name)
    return written


def _may_be_its_code(folder: Path) -> bool:
    if folder == folder.parent:  # the "/" of a path that is joined, with a folder `sys`
        return False
    if folder.name in _NOT_ITS_CODE or software.is_of_a_sweep(folder):
        return False
    return not any((folder / name).exists() for name in _ENVIRONMENTS)


def _files_digest(words: Sequence[str], folder: Path, apart: Sequence[Path]) -> str:
    """Digest the files that a command line names, as `my.yaml`, `--config=my.yaml` and `./train`.

    Python programs and scripts are left out, which are found in other ways, and what an option of
    output names. Of a large file its size counts. Empty without any.
    """
    digest, num_found = hashlib.sha256(), 0
    option = ""
    for word in (*words[:MOST_WORDS], *_settings_of_shells(words, folder)):
        before, _, name = word.rpartition("=")
        before = before or option
        is_output = before.startswith("-") and _OUTPUT.fullmatch(before) is not None
        is_output = is_output or before in _WRITERS or name.endswith(_WRITTEN)
        if not (option in _WRITERS and word.startswith("-")):  # `tee -a` writes, too
            option = word if word.startswith("-") or word in _WRITERS else ""
        if is_output or name.endswith(SCRIPTS) or PYTHON.fullmatch(Path(name).name):
            continue
        with suppress(OSError, ValueError):  # a name that is too long, or has a null character
            file = (folder / name.removeprefix("@")).resolve()
            is_of_commit = bool(apart) and file.is_relative_to(apart[0])
            files = [] if is_of_commit else [file]
            if file.is_dir() and _SETTINGS.search(f"{before} {file.name}"):
                files = list(_found_below(file, lambda name: name.endswith(_IN_SETTINGS)))
            for each in filter(Path.is_file, files):
                named = name if each == file else f"{name}/{each.relative_to(file)}"
                digest.update(os.fsencode(named) + b"\0" + _content_or_size(each))
                num_found += 1
    if num_found:
        return digest.hexdigest()[:16]
    return ""


def _settings_of_shells(words: Sequence[str], folder: Path) -> Iterator[str]:
    """Yield options and files of settings in the commands of shell scripts."""
    for command in _commands(words, folder)[1:]:
        for before, name in pairwise(["", *command]):
            is_written = before in _WRITERS or _OUTPUT.fullmatch(Path(name).stem)
            if name.startswith("-") or (name.endswith(_IN_SETTINGS) and not is_written):
                yield name


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
    commands = _commands(words, folder)
    command = interpreter_of(commands, folder, variables)
    path = [word.partition("PYTHONPATH=")[2] for word in words]
    path = [*filter(None, [*path, variables.get("PYTHONPATH")])]
    answer = interpreter(command, folder, {**variables, "PYTHONPATH": os.pathsep.join(path)})
    packages = dict(answer.packages)
    program, sources = code_of(words, folder, map(Path, answer.imported), apart)
    for elsewhere in filter(place_elsewhere, commands):
        image = image_of(elsewhere, folder, variables)
        program["image" if image else "elsewhere"] = image or place_elsewhere(elsewhere)
    if own_version() != NOT_INSTALLED:
        packages["scalemark"] = own_version()  # it times the steps
    # what a shell reads of the command line, and what sources name: quoted, or after a dollar sign
    named = set(_VARIABLE.findall(b" ".join(map(os.fsencode, words[:MOST_WORDS]))))
    for file in sources:
        named.update(_VARIABLE.findall(_text_of(file)))
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
