"""Finds the code of this program, its version and extras, and starts another Python with it."""

import os
import shlex
import sys
from collections.abc import Mapping
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from shutil import which
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
"""The folder of our packages: a checkout, or the site-packages of an environment."""


def _is_checkout() -> bool:
    return ROOT.name not in ("site-packages", "dist-packages")


def typed(command: str) -> str:
    """Return how a person types one of the commands of `scalemark`, as `sweep` or `list`.

    A checkout has sweep.py in its own folder alone.
    """
    is_program = Path(sys.argv[0].partition(" ")[0]).name == "scalemark"
    if command == "sweep" and not is_program and _is_checkout() and Path.cwd() == ROOT:
        return f"{_in_environment('python')} sweep.py"
    return f"{_in_environment('scalemark')} {command}"


def _in_environment(program: str) -> str:
    """Return how a program beside this Python is typed: an environment may not be activated."""
    own, found = Path(sys.executable).with_name(program), Path(which(program) or "")
    is_a_link = own.is_symlink()  # a Python of an environment is, to one that others are, too
    if not own.exists() or found.parent == own.parent or (not is_a_link and own.samefile(found)):
        return program
    if own.is_relative_to(Path.cwd()):
        own = own.relative_to(Path.cwd())
    return shlex.quote(str(own))


def database_option(value: str) -> str:
    """Return how a database is named: `store.url=FILE` to a sweep, `--db FILE` to all others."""
    is_sweep = sys.argv[0].endswith(("sweep.py", "scalemark sweep"))
    if is_sweep:
        return f"store.url={value}"
    return f"--db {value}"


def module_command(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs one of our modules with this Python."""
    return (sys.executable, "-P", "-m", module, *arguments)


def python_path(inherited: Mapping[str, str]) -> str:
    """Return a PYTHONPATH for a child: a checkout first, then what was inherited.

    The child may run in another folder, so entries are made absolute. Without a checkout the
    current folder is left out, which may hold modules of our names.
    """
    entries = inherited.get("PYTHONPATH", "").split(os.pathsep)
    folders = [Path(entry).absolute() for entry in entries if entry]
    if _is_checkout():
        folders.insert(0, ROOT)
    else:
        folders = [folder for folder in folders if folder not in (Path.cwd(), ROOT)]
    return os.pathsep.join(map(str, folders))


def import_ours_first(path: list[str]) -> None:
    """Change an import path so that no file of the current folder takes the place of ours."""
    here = Path.cwd()
    if _is_checkout():
        others = [entry for entry in path if Path(entry).absolute() not in (here, ROOT)]
        path[:] = [str(ROOT), *others]
    else:
        path[:] = [entry for entry in path if Path(entry).absolute() != here]


_ROOMS = ("plots", "analysis", "sweeper", "conf", "simulator", "store")


def import_rooms() -> None:
    """Import our packages from where they are, before a file of the current folder can take the
    place of one: a notebook may lie beside a `plots.py` or an `analysis.py` of its user's.

    Raises ImportError where such a file was imported already.
    """
    for name in _ROOMS:
        import_ours(name)


def import_ours(name: str) -> ModuleType:
    """Import one of our top-level packages or modules, as `import_rooms` does."""
    loaded = sys.modules.get(name)
    if loaded is None:
        spec = PathFinder.find_spec(name, [str(ROOT)])
        assert spec is not None, f"{ROOT} has no {name}"
        assert spec.loader is not None
        loaded = sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(loaded)
    elif Path(loaded.__file__ or "").parent not in (ROOT, ROOT / name):
        raise ImportError(
            f"{loaded.__file__} was imported as {name}, which is the name of a package of "
            "scalemark; rename that file, or leave its folder out of sys.path"
        )
    return loaded


NOT_INSTALLED = "not installed"


@cache
def own_version() -> str:
    """Return the version of scalemark; `not installed` where its package is not."""
    try:
        return version("scalemark")
    except PackageNotFoundError:
        return NOT_INSTALLED


_NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")


def lack_of_tensorflow() -> str | None:
    """Return what to do where TensorFlow is not installed; None where it is."""
    if find_spec("tensorflow") and find_spec("keras"):
        return None
    extra = "cuda" if _NVIDIA_DRIVER.exists() else "tensorflow"
    return f"TensorFlow is not installed; {installing(extra)} adds it"


def installing(extra: str) -> str:
    """Return the command that adds what an extra of this package names."""
    installer = [sys.executable, "-m", "pip", "install"]
    if not find_spec("pip"):  # in an environment that uv has made
        installer = ["uv", "pip", "install", "--python", sys.executable]
    return shlex.join([*installer, f"scalemark[{extra}]"])
