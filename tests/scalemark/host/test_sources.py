"""What changes the numbers of a program makes it another one, whether git answers or not, and what does not change them does not."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import pytest

from conf.schema import CommandConfig
from scalemark.host import program_software, software, sources
from scalemark.host.launch import Launch
from scalemark.host.program_software import describe, doubt

HERE = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "SCALEMARK_CACHE": "cache"}
CODE, FILES_NAMED = "code of the program", "files that the command names"
FILES = {
    "work/scripts/train.py": "import os, sys\nsys.path.insert(0, '..')\nimport mylib.model, shared, kernels\n"
    "os.getenv('MY_KERNEL')\nos.getenv('MAX_TOKENS')\nname.startswith('MY_APP_')\n",
    "work/scripts/empty/kernels.cu": "// 1\n",
    "work/native/ops.so": "1\n",
    "work/mylib/model.py": "layers = 2\nimport ignored_settings\n",
    "work/mylib/ignored_settings.py": "heads = 2\n",
    "work/config.yaml": "lr: 1\n",
    "work/conf/large.yaml": "layers: 2\n",
    "work/mylib/not_compared.py": "layers = 2\n",
    "work/prompt.j2": "{{ x }}\n",
    "work/rules.mk": "train:\n",
    "local/zero.xml": "<2>\n",
    "local/arguments.json": "{}\n",
    "presets/exp.json": "{}\n",
    "work/README.md": "Train.\n",
    "work/metrics.json": "{}\n",
    "work/log.csv": "1,2\n",
    "work/run": "#!/bin/sh\nexec python scripts/train.py\n",
    "work/.gitignore": "env\ncache\nignored_*\n*.bin\n",
    "shared/kernels.py": "y = 1\n",
    "elsewhere/shared.py": "y = 1\n",
    "packages/site-packages/timm-1.0.dist-info/METADATA": "Name: timm\nVersion: 1.0\n",
}
LARGE_BYTES = 20 * 2**20


def write(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def append(name: str, text: str) -> None:
    with Path(name).open("a") as file:
        file.write(text)


def set_last_byte(name: str) -> None:
    with Path(name).open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"1")


def upgrade_timm() -> None:
    Path("../packages/site-packages/timm-1.0.dist-info").rename(
        "../packages/site-packages/timm-2.0.dist-info"
    )


def commit(*paths: str) -> None:
    if Path(".git").exists():
        git("add", *paths)
        git("commit", "-m", "b")


def not_compared(name: str) -> None:
    if Path(".git").exists():
        git("update-index", "--assume-unchanged", name)


def git(*arguments: str) -> None:
    own = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always"]
    command = [shutil.which("git", path=os.defpath) or "git", *own, *arguments]
    given = {**os.environ, "GIT_TEST_ASSUME_DIFFERENT_OWNER": "0"}
    subprocess.run(command, check=True, capture_output=True, env=given)


NOTICED = {
    "the script": (lambda _: append("scripts/train.py", "print(2)\n"), CODE),
    "a package beside its folder": (lambda _: append("mylib/model.py", "layers = 3\n"), CODE),
    "a kernel below it": (lambda _: write("scripts/empty/kernels.cu", "// 2\n"), CODE),
    "a library that was built again": (lambda _: write("native/ops.so", "2\n"), CODE),
    "a configuration that it may read": (lambda _: write("config.yaml", "lr: 2\n"), CODE),
    "a configuration with a key of a command": (
        lambda _: write("train.yaml", "run: 1\nlr: 2\n"),
        CODE,
    ),
    "a module in PYTHONPATH": (lambda _: write("../elsewhere/shared.py", "y = 2\n"), CODE),
    "a new module": (
        lambda _: (write("mylib/new.py", "x = 3\n"), append("mylib/model.py", "import new\n")),
        CODE,
    ),
    "a module that git ignores": (lambda _: write("mylib/ignored_settings.py", ""), CODE),
    "a module behind a link": (lambda _: write("../shared/kernels.py", "y = 2\n"), CODE),
    "a configuration of a folder of them": (lambda _: write("conf/large.yaml", "l: 3\n"), CODE),
    "a file that the command names": (lambda _: write("../local/zero.xml", "<3>"), FILES_NAMED),
    "a file of arguments": (lambda _: write("../local/arguments.json", '{"a": 1}'), FILES_NAMED),
    "a file in a folder of settings": (lambda _: write("../presets/exp.json", "[]"), FILES_NAMED),
    "one byte of a large file that the command names": (
        lambda _: set_last_byte("weights.bin"),
        FILES_NAMED,
    ),
    "an upgraded package": (lambda _: upgrade_timm(), "timm 1.0 -> 2.0"),
    "the backend of Keras": (lambda given: given.update(KERAS_BACKEND="jax"), "KERAS_BACKEND"),
    "a variable of Transformer Engine": (
        lambda given: given.update(NVTE_FLASH_ATTN="0"),
        "NVTE_FLASH_ATTN",
    ),
    "a variable of Accelerate": (
        lambda given: given.update(ACCELERATE_MIXED_PRECISION="bf16"),
        "ACCELERATE_MIXED_PRECISION",
    ),
    "a variable that the program reads": (lambda given: given.update(MY_KERNEL="2"), "MY_KERNEL"),
    "a number of tokens": (lambda given: given.update(MAX_TOKENS="2"), "MAX_TOKENS"),
    "a variable by its beginning": (lambda given: given.update(MY_APP_X="2"), "MY_APP_X"),
    "a variable of tokenizers": (
        lambda given: given.update(TOKENIZERS_PARALLELISM="true"),
        "TOKENIZERS_PARALLELISM",
    ),
    "where libraries are": (lambda given: given.update(LD_LIBRARY_PATH="/l"), "LD_LIBRARY_PATH"),
    "a module that git does not compare": (
        lambda _: (not_compared("mylib/not_compared.py"), write("mylib/not_compared.py", "x = 3")),
        CODE,
    ),
    "a template": (lambda _: write("prompt.j2", "{{ y }}\n"), CODE),
    "what a Makefile includes": (lambda _: write("rules.mk", "train: x\n"), CODE),
}
NOT_NOTICED = {
    "a page": lambda _: append("README.md", "Train it.\n"),
    "the commit of a page": lambda _: commit("README.md"),
    "a program that appends to a tracked table": lambda _: append("log.csv", "3,4\n"),
    "a program that writes tracked metrics": lambda _: write("metrics.json", '{"loss": 1}'),
    "a new log": lambda _: write("train.log", "step 1\n"),
    "a helper that is no program": lambda _: write("notes.txt", "try 2\n"),
    "what a run of its own leaves": lambda _: write("lightning_logs/0/hparams.yaml", "lr: 1\n"),
    "compiled bytecode": lambda _: write("mylib/__pycache__/model.cpython-311.pyc", "x"),
    "what an option calls output": lambda _: write("r.json", "{}"),
    "what it writes into its run folder": lambda _: write("runs/s/x1-r1-a1/config.py", "lr = 1\n"),
    "what is hidden": lambda _: write(".cache/x.py", "z = 1\n"),
    "how its command is written": lambda _: write("ddp.yaml", "run: x\nread: tqdm\nshell: false\n"),
    "a new environment": lambda _: write("env/lib/x.py", "z = 1\n"),
    "what its editor keeps": lambda _: write(".vscode/settings.json", "{}"),
    "a variable of the terminal": lambda given: given.update(TERM="dumb", SSH_TTY="/dev/pts/1"),
    "a copy that a library keeps": lambda _: write("wandb/run-1/files/code/train.py", "x = 1\n"),
    "a helper beside a script": lambda _: write("scripts/plot_it.py", "x = 1\n"),
    "the tests of a library": lambda _: write("tests/test_model.py", "import mylib.model\n"),
    "a file that was touched": lambda _: Path("mylib/model.py").touch(),
}
WORDS = [
    *(sys.executable, "scripts/train.py", "../local/zero.xml", "--init=weights.bin"),
    *("@../local/arguments.json", "--config-dir", "../presets", "--out", "r.json", "train.log"),
]


def key(words: Sequence[str] = WORDS) -> str:
    return software.key(describe(words, Path.cwd(), os.environ | HERE))


@pytest.fixture(params=["checkout", "another user's", "no git", "no checkout"])
def kind(request):
    return request.param


@pytest.fixture
def given(kind, monkeypatch):
    """Make a program in such a folder, and return its variables."""
    for name, text in FILES.items():
        write(name, text)
    monkeypatch.chdir("work")
    write("env/pyvenv.cfg", "")
    write("runs/s/sweep.json", "{}")
    Path("weights.bin").touch()
    os.truncate("weights.bin", LARGE_BYTES)
    Path("kernels").symlink_to("../shared")
    Path("run").chmod(0o755)
    if kind != "no checkout":
        git("init")
        commit(".")
    if kind == "no git":
        monkeypatch.setenv("PATH", "")
    if kind == "another user's":
        monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
        assert software.checkout(Path.cwd()) is None
    packages = Path("../packages/site-packages").absolute()
    monkeypatch.setenv("PYTHONPATH", f"{packages}:../elsewhere")
    return os.environ | HERE


def test_edits_that_change_a_program_are_named(given):
    before = describe(WORDS, Path.cwd(), given)
    for what, (edit, named) in NOTICED.items():
        edit(given)
        now = describe(WORDS, Path.cwd(), given)
        assert software.differences(before, now) == [named], what
        assert software.key(before) != software.key(now), what
        before = now


def test_edits_that_change_nothing_make_no_other_program(given):
    before = describe(WORDS, Path.cwd(), given)
    for what, edit in NOT_NOTICED.items():
        edit(given)
        now = describe(WORDS, Path.cwd(), given)
        assert software.differences(before, now) == [], what
        assert software.key(before) == software.key(now), what


@pytest.mark.parametrize(
    "options",
    ["--gpus all -v=/a:/b", "-v/a:/b", "-dit", "-u0 -itw /a", "--sig-proxy", "in a script"],
)
@pytest.mark.parametrize("kind", ["checkout"])
def test_another_image_of_a_container_is_named(given, options):
    words = ["docker", "run", "--rm", *options.split(), "image", "python", "x.py"]
    if options == "in a script":
        words = ["sh", "launch.sh"]
        write("launch.sh", "python prepare.py\ndocker run --gpus all \\\n image python x.py\n")
    engine = Path("../bin/docker")
    write(str(engine), '#!/bin/sh\n[ "$5" = image ] && cat ../image\n')
    engine.chmod(0o755)
    given["PATH"] = f"{engine.parent.absolute()}:/usr/bin:/bin"
    unknown = describe(words, Path.cwd(), given)
    assert "tells the digest of its image" in program_software.doubt(words, unknown)
    write("../image", "sha256:1a2b\n")
    before = describe(words, Path.cwd(), given)
    assert program_software.doubt(words, before) == ""
    write("../image", "sha256:3c4d\n")
    now = describe(words, Path.cwd(), given)
    assert software.differences(before, now) == ["program image 1a2b -> 3c4d"]
    assert software.key(before) != software.key(now)


def test_a_copy_in_another_folder_is_another_program_unless_git_knows_it(kind, given, monkeypatch):
    before = key()
    shutil.copytree(".", "../copy", symlinks=True)
    monkeypatch.chdir("../copy")
    assert (key() == before) == (kind == "checkout")


@pytest.mark.parametrize("kind", ["checkout", "no git"])
def test_edited_sources_are_named(kind, given):
    since = program_software.code_of(Launch(WORDS, Path.cwd()), ())[0]["commit"] or "HEAD"
    write("mylib/model.py", "layers = 3\n")
    write("README.md", "Train it.\n")
    write("new.py", "")
    write("ddp.yaml", "run: python train.py\n")
    edited = program_software.edited_since(WORDS, Path.cwd(), since)
    assert list(edited) == (["mylib/model.py", "new.py"] if kind == "checkout" else [])
    assert not program_software.edited_since(WORDS, Path.cwd(), f"{since}+dirty")


def test_the_settings_of_a_command_are_known():
    names = {each.name for each in fields(CommandConfig)}
    assert names == {key.decode() for key in sources.COMMAND_KEYS}


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


@pytest.mark.parametrize("kind", ["checkout"])
def test_contents_count_and_not_commits(given):
    write("mylib/model.py", "layers = 3\n")
    write("shared.py", "")
    edited = key()
    git("add", ".")
    assert key() == edited
    git("commit", "-m", "b")
    assert key() == edited, "what was measured before its commit is the same code after it"
    write("README.md", "Train it.\n")
    git("commit", "-am", "c")
    assert key() == edited
    Path("run").write_text("#!/bin/sh\n")
    assert key() != edited, "a tracked program without an ending"
    git("checkout", "run")
    Path("shared.py").unlink()
    without = key()
    git("commit", "-am", "d")
    assert key() == without != edited


@pytest.mark.parametrize("kind", ["checkout"])
def test_code_of_a_submodule_counts(given, monkeypatch):
    git("-C", "../elsewhere", "init")
    git("-C", "../elsewhere", "add", ".")
    git("-C", "../elsewhere", "commit", "-m", "a")
    git("submodule", "add", "../elsewhere", "below")
    before = key()
    write("below/shared.py", "y = 3\n")
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
        write(name, text)
    monkeypatch.chdir("elsewhere")
    words = f"{sys.executable} ../work/scripts/train.py"
    before = key(words.split())
    write("../work/mylib/model.py", "layers = 3\n")
    assert key(words.split()) != before


@pytest.mark.parametrize(
    "names",
    [
        "import {module}",
        "from {module} import *",
        "load('{module}.py')",
        "import importlib\nimportlib.import_module('by_' + kind)",
        "subprocess.run([sys.executable, f'by_{{kind}}.py'])",
        "exec(open(f'by_{{kind}}.py').read())",
    ],
)
@pytest.mark.parametrize("starts", ["python train.py", "sh run.sh", "sh any.sh"])
def test_a_helper_counts_where_it_may_be_loaded(names, starts):
    write("by_hand.py", "x = 1\n")
    write("train.py", "import sys\n")
    write("run.sh", "python -u train.py $@\n")
    write("any.sh", "python $SCRIPT\n")
    for loads in ("", names.format(module="by_hand")):
        append("train.py", f"{loads}\n")
        if starts != "sh any.sh":
            Path("any.sh").unlink(missing_ok=True)
        before = key(starts.split())
        append("by_hand.py", "x = 2\n")
        assert (key(starts.split()) != before) == bool(loads or starts == "sh any.sh")


@pytest.mark.parametrize("words", ["--config exp/c.yaml", "--config=exp/c.yaml", "run.sh"])
def test_a_module_that_only_a_file_of_settings_names_counts(words):
    """A bug: `class_path: by_hand.Net` in a file that git does not know was not looked at."""
    write("by_hand.py", "x = 1\n")
    write("train.py", "from lightning.pytorch.cli import LightningCLI\nLightningCLI()\n")
    write("run.sh", "python train.py fit --config exp/c.yaml\n")
    write("exp/c.yaml", "model:\n  class_path: by_hand.Net\n")
    starts = ["sh" if words == "run.sh" else "python train.py", words]
    before = key(" ".join(starts).split())
    append("by_hand.py", "x = 2\n")
    assert key(" ".join(starts).split()) != before


def test_all_sources_count_where_the_command_names_none():
    write("tool/cli.py", "x = 1\n")
    before = key(["sometool", "--fast"])
    append("tool/cli.py", "x = 2\n")
    named_nothing = key(["sometool", "--fast"])
    assert named_nothing != before
    write("train.py", "x = 1\n")
    write("pyproject.toml", '[project.scripts]\nsometool = "tool.cli:main"\n')
    before = key(["sometool", "train.py"])
    append("tool/cli.py", "x = 3\n")
    assert key(["sometool", "train.py"]) != before


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
    write("work/train.py", f"import os, site, sys\nfrom pathlib import Path\n{ADDED[how]}\n")
    with Path("work/train.py").open("a") as file:
        file.write("from shared import speed\nprint(speed)\n")
    write("work/run.sh", f'export PYTHONPATH="../lib:$PYTHONPATH"\n{sys.executable} train.py\n')
    write("lib/shared.py", "import sys, deep.er\nspeed = deep.er.speed\n")
    write("lib/deep/er.py", "speed = 1\n")
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
    write("../lib/deep/er.py", "speed = 2000\n")
    assert named()[0] != before[0]
    assert subprocess.run(words.split(), check=True, capture_output=True).stdout == b"2000\n"
    before = named()
    for other in ("../lib/README.md", "../lib/stranger.py", "../lib/stranger/deep.py"):
        write(other, "x = 1\n")
    assert named() == before or "PYTHONPATH" in words


def test_the_root_of_all_files_holds_no_modules_of_a_program(tmp_path, monkeypatch):
    """A bug: of `"/"` in quotes beside sys.path, and `import sys`, all of /sys was walked, and /run counted."""
    top = tmp_path.resolve().parts[1]
    write("work/train.py", f'import sys, {top}\nsys.path.insert(0, "/".join([HERE, "lib"]))\n')
    write("other.py", "x = 1\n")
    monkeypatch.chdir("work")
    before = key([sys.executable, "train.py"])
    write("../other.py", "x = 2\n")
    assert key([sys.executable, "train.py"]) == before


@pytest.mark.parametrize("words", [f"{sys.executable} train.py", "sh run.sh"])
def test_files_that_sources_name_count_wherever_they_lie(words, monkeypatch):
    """A bug: a module loaded by its file, and the settings in a script of a shell, were not seen."""
    load = "importlib.util.spec_from_file_location('plug', '../plugins/plug.py')\nx = '\0.so'\n"
    write("work/train.py", load + "ctypes.CDLL('../plugins/fast.so')\n")
    write("work/run.sh", "python train.py --config 'c.json' --out r.json > t.json | tee u.json\n")
    for name in ("plugins/plug.py", "plugins/fast.so", "plugins/other.py", "work/c.json"):
        write(name, "1")
    monkeypatch.chdir("work")
    for edited in ("../plugins/plug.py", "../plugins/fast.so"):
        before = key(words.split())
        write(edited, "2")
        assert key(words.split()) != before, edited
    before = key(words.split())
    for name in ("../plugins/other.py", "r.json", "t.json", "u.json"):
        write(name, "2")
    assert key(words.split()) == before
    write("c.json", "2")
    assert (key(words.split()) != before) == ("run.sh" in words)


@pytest.mark.parametrize("how", ["sys.path", "PYTHONPATH", "cd"])
def test_a_variable_counts_that_a_module_elsewhere_reads(how, monkeypatch):
    """A bug: only variables that sources of the program's own folder name made another program."""
    write("lib/mylib.py", "import os\nfast = os.environ.get('MYLIB_FAST')\n")
    write("lib/deep/kernels.py", "fast = os.environ.get('MYLIB_KERNELS')\n")
    write("work/train.py", "import sys\nsys.path.append('../lib')\nimport mylib, deep.kernels\n")
    write("work/plain.py", "import mylib\n")
    monkeypatch.chdir("work")
    words = {
        "sys.path": [sys.executable, "train.py"],
        "PYTHONPATH": ["env", "PYTHONPATH=../lib", sys.executable, "plain.py"],
        "cd": ["/bin/sh", "cd", "../lib", "&&", sys.executable, "mylib.py"],
    }[how]
    for name in ("MYLIB_FAST", "MYLIB_KERNELS"):
        before = key(words)
        monkeypatch.setenv(name, "1")
        assert key(words) != before, name


def test_a_folder_that_only_the_running_program_knows_is_doubted():
    write("train.py", "import os, sys\nsys.path.insert(0, os.environ['MY_LIBRARY'])\n")
    described = describe([sys.executable, "train.py"], Path.cwd(), os.environ | HERE)
    assert "takes code from folders that are only known" in doubt([], described)


@pytest.mark.parametrize(
    "words",
    ["python launch.py ../lib/train.py", "sh run.sh", "/bin/sh cd ../lib && python train.py"],
)
def test_each_script_of_a_command_counts(words, monkeypatch):
    write("work/launch.py", "")
    write("work/run.sh", "python ../lib/train.py --fast\n")
    write("lib/train.py", "speed = 1\n")
    monkeypatch.chdir("work")
    before = key(words.split())
    write("../lib/train.py", "speed = 2\n")
    assert key(words.split()) != before


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("launch.sh", 'cd {repo} && torchrun pretrain.py "$@"', "bash launch.sh"),
        ("launch.sh", "export REPO={repo}\npython3 ${{REPO}}/pretrain.py", "bash launch.sh"),
        ("launch.sh", 'cd "$MY_REPO"\nexec python3 -m pretrain', "bash launch.sh"),
        ("launch.sh", "cd ${{NOT_SET:-{repo}}} && python3 pretrain.py", "bash launch.sh"),
        ("launch.sh", 'cd "$(dirname "$0")/../repo"\npython3 pretrain.py', "bash launch.sh"),
        ("launch.py", "subprocess.run('cd {repo} && python3 pretrain.py')", "python launch.py"),
        ("launch.py", "run(['python', 'pretrain.py'], cwd='{repo}')", "python launch.py"),
        ("Makefile", "DIR = {repo}\ntrain:\n\tcd $(DIR) && python3 pretrain.py", "make train"),
        ("launch.sh", "source {repo}/all.sh", "bash launch.sh"),
        ("launch.sh", "#SBATCH --chdir={repo}\npython3 pretrain.py", "sbatch --wait launch.sh"),
        ("launch.sh", "docker run -v {repo}:/code -w /code image python3 x.py", "bash launch.sh"),
        ("launch.sh", 'docker run -v "$(pwd)/../repo":/c i python3 /c/pretrain.py', "sh launch.sh"),
        ("x.txt", "", "docker run --mount type=bind,src={repo},dst=/c i python3 /c/pretrain.py"),
        ("x.txt", "", "env -C {repo} python3 pretrain.py"),
        ("x.txt", "", "env --chdir={repo} python3 pretrain.py"),
    ],
)
def test_code_of_a_folder_counts_that_a_command_or_its_script_changes_to(
    monkeypatch, name, text, command
):
    """A bug: a launch script that changed to the folder of the code left trials finished after each edit there."""
    write("repo/pretrain.py", "import model\n")
    write("repo/model.py", "x = 1\n")
    write("repo/all.sh", 'cd "$(dirname "$0")" && python3 pretrain.py\n')
    repo = str(Path("repo").absolute())
    monkeypatch.setenv("MY_REPO", repo)
    write(f"work/{name}", text.format(repo=repo))
    monkeypatch.chdir("work")
    words = command.format(repo=repo).split()
    before = key(words)
    write("../repo/model.py", "x = 2\n")
    assert key(words) != before
    before = key(words)
    append(name, "\n# slower\n")
    assert (key(words) != before) == (name != "x.txt")


@pytest.mark.parametrize("writes", ["| tee o.txt", "| tee -a o.txt", "> o.txt", "2> o.txt"])
def test_what_a_command_of_a_shell_writes_does_not_count(writes):
    """A bug: `| tee train.txt` made each attempt another program."""
    words = ["/bin/sh", *f"python train.py {writes}".split()]
    before = key(words)
    write("o.txt", "step 1\n")
    assert key(words) == before
    assert key([*words, "o.txt"]) != before


def test_a_script_behind_a_link_counts(monkeypatch):
    """A bug: an edit of it left trials finished, as no command names it by its own name."""
    write("elsewhere/own_name.py", "x = 1\n")
    Path("work").mkdir()
    Path("work/train.py").symlink_to("../elsewhere/own_name.py")
    monkeypatch.chdir("work")
    before = key(["python", "train.py"])
    write("../elsewhere/own_name.py", "x = 2\n")
    assert key(["python", "train.py"]) != before


@pytest.mark.parametrize("where", ['"$NOBODY_SAYS_WHERE"', "$(mktemp -d)"])
def test_a_folder_that_a_script_takes_from_its_caller_is_doubted(where):
    write("launch.sh", f"cd {where} && python3 pretrain.py\n")
    described = describe(["bash", "launch.sh"], Path.cwd(), os.environ | HERE)
    assert "takes code from folders that are only known" in doubt([], described)


@pytest.mark.parametrize("info", ['"dir_info": {}', '"vcs_info": {"vcs": "git"}'])
def test_a_package_that_is_installed_again_from_its_folder_counts(info):
    site = Path("site-packages").absolute()
    write("site-packages/lib-1.dist-info/direct_url.json", f'{{"url": "file:///lib", {info}}}')
    write("site-packages/lib-1.dist-info/RECORD", "lib.py,sha256=1,1\n")
    variables = os.environ | HERE | {"PYTHONPATH": str(site)}
    before = describe([sys.executable], Path.cwd(), variables)
    write("site-packages/lib-1.dist-info/RECORD", "lib.py,sha256=2,1\n")
    (named,) = software.differences(before, describe([sys.executable], Path.cwd(), variables))
    assert named.startswith("lib 1+")


def test_code_of_an_editable_package_counts(monkeypatch):
    write("work/train.py", "import lib")
    write("library/src/lib.py", "x = 1\n")
    packages = Path("packages/site-packages/lib-1.dist-info")
    url = f"file://{Path('library').absolute()}"
    write(f"{packages}/direct_url.json", f'{{"url": "{url}", "dir_info": {{"editable": true}}}}')
    monkeypatch.chdir("work")
    given = os.environ | HERE | {"PYTHONPATH": str(Path("../packages/site-packages").absolute())}
    words = [sys.executable, "train.py"]
    before = software.key(describe(words, Path.cwd(), given))
    write("../library/src/lib.py", "x = 2\n")
    assert software.key(describe(words, Path.cwd(), given)) != before


def test_code_that_cannot_be_known_equals_no_other(monkeypatch):
    write("train.py", "print(1)\n")
    write("model.py", "layers = 2\n")
    write(".git", "gitdir: /nowhere")
    monkeypatch.setattr(sources, "MOST_SOURCES", 1)
    words = [sys.executable, "train.py"]
    here = key(words)
    assert key(words) == here, "one sweep plans all its trials of a program alike"
    assert "its code is not known" in doubt(words, describe(words, Path.cwd(), os.environ | HERE))
    monkeypatch.setattr(program_software.os, "getpid", lambda: 1)
    assert key(words) != here


def test_a_package_that_git_ignores_counts_where_it_is_imported():
    write(".gitignore", "local\nwandb\n")
    write("train.py", "import wandb\nfrom local.deep import model\n")
    write("local/__init__.py", "")
    write("local/deep/model.py", "x = 1\n")
    git("init")
    commit(".")
    before = key([sys.executable, "train.py"])
    write("wandb/run-1/files/code/train.py", "x = 1\n")
    assert key([sys.executable, "train.py"]) == before
    write("local/deep/model.py", "x = 2\n")
    assert key([sys.executable, "train.py"]) != before


def test_code_counts_behind_data_and_in_deep_folders(monkeypatch):
    """A bug: where git knows nothing, `data/` hid what is in `mylib/`, and five folders the rest."""
    deep = "src/" + "deeper/" * 9 + "kernels.py"
    for name in ("mylib/model.py", deep, *(f"data/{num}.jpeg" for num in range(30))):
        write(name, "1")
    write("train.py", "import mylib.model, kernels")
    monkeypatch.setattr(sources, "_MOST_ENTRIES", 10)
    for name in ("mylib/model.py", deep):
        before = key([sys.executable, "train.py"])
        write(name, "2")
        assert key([sys.executable, "train.py"]) != before, name


def test_data_below_a_script_is_not_looked_through(monkeypatch):
    write("train.py", "import pkg.model\n")
    write("pkg/model.py", "layers = 3\n")
    for number in range(30):
        write(f"data/{number % 3}/{number}.jpeg", "")
    looked = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (looked.append(path), scandir(path))[1])
    monkeypatch.setattr(sources, "_MOST_ENTRIES", 10)
    before = program_software.code_of(Launch(["python", "train.py"], Path.cwd()), ())[0]
    assert {path.name for path in looked} == {Path.cwd().name, "data", "pkg", "0"}
    write("pkg/model.py", "layers = 4\n")
    assert program_software.code_of(Launch(["python", "train.py"], Path.cwd()), ())[0] != before
