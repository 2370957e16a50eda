"""What changes the numbers of a program makes it another one, whether git answers or not, and what does not change them does not."""

import os
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from conf.schema import CommandConfig
from scalemark.host import program_software, software
from scalemark.host.program_software import describe, doubt

HERE = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "SCALEMARK_CACHE": "cache"}
FILES = {
    "work/scripts/train.py": "import sys; sys.path.insert(0, '..')\nimport mylib.model\n",
    "work/scripts/helper.py": "x = 1\n",
    "work/scripts/empty/kernels.cu": "// 1\n",
    "work/mylib/model.py": "layers = 2\n",
    "work/config.yaml": "lr: 1\n",
    "work/conf/model/large.yaml": "layers: 2\n",
    "work/README.md": "Train.\n",
    "work/log.csv": "1,2\n",
    "work/named.json": "{}\n",
    "work/weights.bin": "0",
    "work/run": "#!/bin/sh\nexec python scripts/train.py\n",
    "elsewhere/shared.py": "y = 1\n",
}
COUNT = {
    "a module beside it": ("scripts/helper.py", "x = 2\n"),
    "a kernel below it": ("scripts/empty/kernels.cu", "// 2\n"),
    "a configuration that it may read": ("config.yaml", "lr: 2\n"),
    "a file that the command names": ("named.json", '{"zero": 3}\n'),
    "a file behind an option": ("weights.bin", "1"),
    "a configuration with a key of a command": ("train.yaml", "run: 1\nlr: 2\n"),
    "a module in PYTHONPATH": ("../elsewhere/shared.py", "y = 2\n"),
}
COUNT_NOT = {
    "what it has written before": ("log.csv", "1,2\n3,4\n"),
    "what an option calls output": ("result.json", "{}"),
    "what it writes into its run folder": ("runs/s/x1-r1-a1/config.py", "lr = 1\n"),
    "what is hidden": (".cache/x.py", "z = 1\n"),
    "how its command is written": ("ddp.yaml", "run: python train.py\nread: tqdm\nuses: [x]\n"),
}
WORDS = (
    f"{sys.executable} scripts/train.py named.json --init=weights.bin --out result.json train.log"
)


def make(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def git(*arguments: str) -> None:
    own = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *own, *arguments], check=True, capture_output=True)


def code_commit() -> str:
    return program_software.code_of(WORDS.split(), Path.cwd(), ())["commit"] or "HEAD"


def key(words: str = WORDS) -> str:
    given = os.environ | HERE | {"PYTHONPATH": "../elsewhere"}
    return software.key(describe(words.split(), Path.cwd(), given))


@pytest.fixture(params=["checkout", "no git", "no checkout"])
def project(request, monkeypatch):
    for name, text in FILES.items():
        make(name, text)
    monkeypatch.chdir("work")
    make("env/pyvenv.cfg", "")
    make("runs/s/sweep.json", "{}")
    if request.param != "no checkout":
        git("init")
        make(".gitignore", "env\ncache\n")
        Path("run").chmod(0o755)
        git("add", ".")
        git("commit", "-m", "a")
    if request.param == "no git":
        monkeypatch.setitem(HERE, "PATH", "")
        monkeypatch.setenv("PATH", "")
    return request.param


def test_an_edit_that_changes_numbers_makes_another_program(project):
    for what, (name, text) in COUNT.items():
        before = key()
        assert key() == before
        make(name, text)
        assert key() != before, what


def test_an_edit_that_changes_no_numbers_makes_no_other(project):
    before = key()
    for what, (name, text) in COUNT_NOT.items():
        make(name, text)
        assert key() == before, what


def test_a_copy_in_another_folder_is_another_program_unless_git_knows_it(project, monkeypatch):
    before = key()
    shutil.copytree(".", "../copy", symlinks=True)
    monkeypatch.chdir("../copy")
    assert (key() == before) == (project == "checkout")


@pytest.mark.parametrize("project", ["checkout", "no git"], indirect=True)
def test_edited_sources_are_named(project):
    commit = code_commit()
    make("mylib/model.py", "layers = 3\n")
    make("README.md", "Train it.\n")
    make("new.py", "")
    make("ddp.yaml", "run: python train.py\n")
    edited = program_software.edited_since(WORDS.split(), Path.cwd(), commit)
    assert list(edited) == (["mylib/model.py", "new.py"] if project == "checkout" else [])
    assert not program_software.edited_since(WORDS.split(), Path.cwd(), f"{commit}+dirty")


def test_the_settings_of_a_command_are_known():
    names = {each.name for each in fields(CommandConfig)}
    assert names == {key.decode() for key in program_software.COMMAND_KEYS}


def test_what_differs_is_named():
    before = {"python": "3.11", "kernel": "6", "packages": {"timm": "1.0", "torch": "2.9"}}
    now = {"python": "3.12", "kernel": "6", "packages": {"timm": "2.0", "torch": "2.9", "x": "1"}}
    before |= {"variables": {"NCCL_ALGO": "Ring"}, "program": {"code": "1", "files": "1"}}
    now |= {"variables": {"KERAS_BACKEND": "jax"}, "program": {"code": "2", "files": "2"}}
    assert software.differences(before, now) == [
        "KERAS_BACKEND",
        "NCCL_ALGO",
        "code of the program",
        "files that the command names",
        "python 3.11 -> 3.12",
        "timm 1.0 -> 2.0",
        "x none -> 1",
    ]
    assert software.differences(now, now) == []


@pytest.mark.parametrize("project", ["checkout"], indirect=True)
def test_contents_count_and_not_commits(project):
    make("mylib/model.py", "layers = 3\n")
    make("new.py", "")
    edited = key()
    git("add", ".")
    assert key() == edited
    git("commit", "-m", "b")
    assert key() == edited, "what was measured before its commit is the same code after it"
    make("README.md", "Train it.\n")
    git("commit", "-am", "c")
    assert key() == edited
    Path("run").write_text("#!/bin/sh\n")
    assert key() != edited, "a tracked program without an ending"
    git("checkout", "run")
    Path("new.py").unlink()
    without = key()
    git("commit", "-am", "d")
    assert key() == without != edited


@pytest.mark.parametrize("project", ["checkout"], indirect=True)
def test_code_of_a_submodule_counts(project, monkeypatch):
    git("-C", "../elsewhere", "init")
    git("-C", "../elsewhere", "add", ".")
    git("-C", "../elsewhere", "commit", "-m", "a")
    git("submodule", "add", "../elsewhere", "below")
    before = key()
    make("below/shared.py", "y = 3\n")
    assert key() != before
    asked = software.checkout
    monkeypatch.setattr(
        software, "checkout", lambda root: None if root.name == "below" else asked(root)
    )
    unanswered = describe([sys.executable, "scripts/train.py"], Path.cwd(), os.environ | HERE)
    assert program_software.is_unknown(unanswered["program"]["code"])
    assert "submodule in which git does not answer" in doubt(["python"], unanswered)


def test_a_module_beside_the_folder_of_a_script_counts_where_it_changes_the_path(monkeypatch):
    for name, text in FILES.items():
        make(name, text)
    monkeypatch.chdir("elsewhere")
    words = f"{sys.executable} ../work/scripts/train.py"
    before = key(words)
    make("../work/mylib/model.py", "layers = 3\n")
    assert key(words) != before


ADDED = {
    "a literal": 'sys.path.insert(0, "../lib")',
    "beside the script": 'sys.path.append(os.path.join(os.path.dirname(__file__), "..", "lib"))',
    "by a name": 'ROOT = Path(__file__).resolve().parents[1]\nsys.path[:0] = [str(ROOT / "lib")]',
    "a list": 'sys.path += [os.path.abspath(os.path.join(os.path.pardir, "lib"))]',
    "in front": "sys.path = [str(Path(__file__).parent.parent.joinpath('lib'))] + sys.path",
    "as a site": "site.addsitedir(os.fspath(Path.cwd() / '..' / 'lib'))",
    "in a variable of the command": "",
    "in a variable of a script": "",
}


@pytest.mark.parametrize("how", ADDED)
def test_modules_of_folders_that_a_program_adds_count_where_it_imports_them(how, monkeypatch):
    """A bug: an edit in `../lib` left trials finished, as only the folder of the program counted."""
    make("work/train.py", f"import os, site, sys\nfrom pathlib import Path\n{ADDED[how]}\n")
    with Path("work/train.py").open("a") as file:
        file.write("from shared import speed\nprint(speed)\n")
    make("work/run.sh", f'export PYTHONPATH="../lib:$PYTHONPATH"\n{sys.executable} train.py\n')
    make("lib/shared.py", "import sys, deep.er\nspeed = deep.er.speed\n")
    make("lib/deep/er.py", "speed = 1\n")
    monkeypatch.chdir("work")
    words = {
        "in a variable of the command": f"env PYTHONPATH=../lib {sys.executable} train.py",
        "in a variable of a script": "sh run.sh",
    }.get(how, f"{sys.executable} train.py")

    def named() -> tuple[str, str]:
        monkeypatch.setenv("PYTHONPATH", "")
        described = describe(words.split(), Path.cwd(), os.environ)
        return software.key(described), doubt(words.split(), described)

    before = named()
    assert before[1] == ""
    make("../lib/deep/er.py", "speed = 2000\n")
    assert named()[0] != before[0]
    assert subprocess.run(words.split(), check=True, capture_output=True).stdout == b"2000\n"
    before = named()
    for other in ("../lib/README.md", "../lib/stranger.py", "../lib/stranger/deep.py"):
        make(other, "x = 1\n")
    assert named() == before or "PYTHONPATH" in words


def test_a_folder_that_only_the_running_program_knows_is_doubted():
    make("train.py", "import os, sys\nsys.path.insert(0, os.environ['MY_LIBRARY'])\n")
    described = describe([sys.executable, "train.py"], Path.cwd(), os.environ | HERE)
    assert "changes sys.path to folders that are only known" in doubt([], described)


@pytest.mark.parametrize(
    "words",
    ["python launch.py ../lib/train.py", "sh run.sh", "/bin/sh cd ../lib && python train.py"],
)
def test_each_script_of_a_command_counts(words, monkeypatch):
    make("work/launch.py", "")
    make("work/run.sh", "python ../lib/train.py --fast\n")
    make("lib/train.py", "speed = 1\n")
    monkeypatch.chdir("work")
    before = key(words)
    make("../lib/train.py", "speed = 2\n")
    assert key(words) != before


def test_a_package_that_is_installed_again_from_its_folder_counts():
    site = Path("site-packages").absolute()
    make("site-packages/lib-1.dist-info/direct_url.json", '{"url": "file:///lib", "dir_info": {}}')
    make("site-packages/lib-1.dist-info/RECORD", "lib.py,sha256=1,1\n")
    variables = os.environ | HERE | {"PYTHONPATH": str(site)}
    before = describe([sys.executable], Path.cwd(), variables)
    make("site-packages/lib-1.dist-info/RECORD", "lib.py,sha256=2,1\n")
    (named,) = software.differences(before, describe([sys.executable], Path.cwd(), variables))
    assert named.startswith("lib 1+")


def test_code_of_an_editable_package_counts(monkeypatch):
    make("work/train.py", "")
    make("library/src/lib.py", "x = 1\n")
    packages = Path("packages/site-packages/lib-1.dist-info")
    url = f"file://{Path('library').absolute()}"
    make(f"{packages}/direct_url.json", f'{{"url": "{url}", "dir_info": {{"editable": true}}}}')
    monkeypatch.chdir("work")
    given = os.environ | HERE | {"PYTHONPATH": str(Path("../packages/site-packages").absolute())}
    words = [sys.executable, "train.py"]
    before = software.key(describe(words, Path.cwd(), given))
    make("../library/src/lib.py", "x = 2\n")
    assert software.key(describe(words, Path.cwd(), given)) != before


def test_code_that_cannot_be_known_equals_no_other(monkeypatch):
    make("train.py", "print(1)\n")
    make("model.py", "layers = 2\n")
    make(".git", "gitdir: /nowhere")
    monkeypatch.setattr(program_software, "_MOST_SOURCES", 1)
    words = [sys.executable, "train.py"]
    here = key(" ".join(words))
    assert key(" ".join(words)) == here, "one sweep plans all its trials of a program alike"
    assert "its code is not known" in doubt(words, describe(words, Path.cwd(), os.environ | HERE))
    monkeypatch.setattr(program_software.os, "getpid", lambda: 1)
    assert key(" ".join(words)) != here


def test_data_below_a_script_is_not_looked_through(monkeypatch):
    make("train.py", "print(1)\n")
    make("pkg/model.py", "layers = 3\n")
    for number in range(30):
        make(f"data/{number % 3}/{number}.jpeg", "")
    looked = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (looked.append(path), scandir(path))[1])
    monkeypatch.setattr(program_software, "_MOST_ENTRIES", 10)
    before = program_software.code_of(["python", "train.py"], Path.cwd(), ())
    assert {path.name for path in looked} == {Path.cwd().name, "data", "pkg", "0"}
    make("pkg/model.py", "layers = 4\n")
    assert program_software.code_of(["python", "train.py"], Path.cwd(), ()) != before
