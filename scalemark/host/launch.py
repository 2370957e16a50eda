"""Reads a command line and the scripts that it starts: their commands, the folders that these
change to, the settings that they name. Standard library only.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, pairwise
from pathlib import Path

from scalemark.host.interpreters import MOST_WORDS, interpreter_of
from scalemark.host.sources import CONFIGURATION, MAKEFILES, is_written_by_name, text_of
from scalemark.program import template
from scalemark.program.template import SCRIPTS

WRITERS = ("tee", ">", ">>", "2>", "&>")  # before a file that a shell's command writes
IN_SETTINGS = (*CONFIGURATION, ".json")
_MOST_NESTED = 3  # variables of shells, within each other
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


class Launch:
    """A command line in the folder that it runs in, with all scripts that it starts."""

    def __init__(self, words: Sequence[str], folder: Path) -> None:
        self.words, self.folder = words, folder.resolve()
        self.scripts: dict[Path, str] = {}
        """Path -> text, of the scripts that the words name, and of those that these start."""
        self.commands: list[Sequence[str]] = [words]
        """The command line, and those that its shell scripts and Makefiles hold."""
        self._filled: dict[Path, str] = {}  # texts of shells, with values for their variables
        self._take(words)

    def _take(self, words: Sequence[str]) -> None:
        """Add the scripts that words name, each before those that it starts itself."""
        for word in words[:MOST_WORDS]:
            names = [word] if word.endswith(SCRIPTS) else []
            if Path(word).name == "make":
                names = list(MAKEFILES)
            for script in filter(template.is_file, map(self.folder.joinpath, names)):
                script = script.resolve()
                if script not in self.scripts:
                    self.scripts[script] = os.fsdecode(text_of(script))
                    if script.suffix != ".py":
                        self._take_shell(script)

    def _take_shell(self, script: Path) -> None:
        text = _COMMENT.sub("", self.scripts[script]).replace("\\\n", " ")
        text = self._fill(_OWN_FOLDER.sub(lambda _: str(script.parent), text))
        self._filled[script] = text
        for line in re.split(r"[\n;&|]+", text):
            if command := [word.strip("\"'`()@") for word in line.split()]:
                self.commands.append(command)
                self._take(command)

    def _fill(self, text: str) -> str:
        """Fill in the variables of a shell's text that runs in the folder, where a batch job
        begins.
        """
        here = dict.fromkeys(_OF_THE_FOLDER, str(self.folder))
        values = {**os.environ, **here, **dict(_ASSIGNED.findall(text))}

        def value(match: re.Match[str]) -> str:
            usual = match[0] if match[2] is None else match[2]
            return str(values.get(match[1] or match[3] or match[4], usual))

        for _ in range(_MOST_NESTED):
            text = _REFERRED.sub(value, text)
        return text

    def interpreter(self, variables: Mapping[str, str]) -> Sequence[str]:
        """Return the command that starts the Python of the program; empty where none is found."""
        return interpreter_of(self.commands, self.folder, variables)

    def folder_of_code(self) -> Path:
        """Return the folder it runs in, if that holds its script; else the folder of the script."""
        script = next(iter(self.scripts), None)
        if script is None:
            return self.folder
        place = script.parent
        if not place.is_relative_to(self.folder):
            return place
        if self.folder == Path.home().resolve() and place != self.folder:
            return self.folder / place.relative_to(self.folder).parts[0]
        return self.folder

    def entered(self) -> tuple[list[Path], bool]:
        """Return the folders that the command line and its scripts change to, as by `cd`, or name
        in what a container mounts, and whether all are known.
        """
        texts = [self._fill(" ".join(self.words)), *(self.scripts | self._filled).values()]
        entered, is_known = [], True
        for text in texts:
            for on_host, inside in _MOUNTED.findall(text):
                for word in text.split():
                    name, is_below, rest = word.strip("\"'").partition(inside)
                    if is_below and not name and rest[:1] in ("", "/"):
                        place = self.folder / f"{on_host}{rest}"
                        with suppress(OSError):  # of a name that is too long
                            entered.append(place if place.is_dir() else place.parent)
        for name in chain.from_iterable(map(_ENTERS.findall, texts)):
            with suppress(OSError, ValueError, RuntimeError):  # also of no user's home
                place = self.folder / Path(name).expanduser()
                if place.is_dir():
                    entered.append(place)
                elif "$" in name:
                    is_known = False
        return entered, is_known

    def settings_of_shells(self) -> Iterator[str]:
        """Yield options and files of settings in the commands of shell scripts."""
        for command in self.commands[1:]:
            for before, name in pairwise(["", *command]):
                is_written = before in WRITERS or is_written_by_name(Path(name).stem)
                if name.startswith("-") or (name.endswith(IN_SETTINGS) and not is_written):
                    yield name
