"""What all tests share: nothing of the user's own folders is touched."""

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import postgresql, slurm, tiers
from tests.needed import needed

# In CI the same examples each time; elsewhere new ones are welcome. However slow the machine is: nothing is timed in a test.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", settings.get_profile("untimed"), derandomize=True)
settings.load_profile("fixed" if os.environ.get("CI") == "true" else "untimed")

# Tests make thousands of databases, and would wait for a disk to have each: they are made in memory, where there is enough
# of it. tempfile has chosen its folder by now; TMPDIR is for the processes of pytest-xdist and those that tests start.
_MEMORY = Path("/dev/shm")


def _has_room(folder: Path) -> bool:
    """Return whether tests can write 4 GiB there, and run the programs that they write."""
    if not os.access(folder, os.W_OK):
        return False
    is_for_data_alone = os.statvfs(folder).f_flag & os.ST_NOEXEC
    return not is_for_data_alone and shutil.disk_usage(folder).free > 4 * 2**30


if "TMPDIR" not in os.environ and _has_room(_MEMORY):
    os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)

# Before any test imports TensorFlow.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"  # channels first on CPUs

# Who runs the tests in the background has these ignored, and all that they start would ignore them, too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

_SIZE = (
    "LINES",
    "COLUMNS",
)  # pytest-xdist's processes have them, and every terminal that a test opens would be of that size
PROJECT = Path(__file__).resolve().parent.parent


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """pytest-mpl looks for its folders from where it is then: in the empty folder of a test, or where the user happens to be."""
    config.option.mpl_results_path = config.option.mpl_results_path or str(
        PROJECT / "build" / "pictures"
    )
    if config.option.mpl_generate_path:
        config.option.mpl_generate_path = str(Path(config.option.mpl_generate_path).resolve())


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tiers.sort(items)


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    """A test may call our program's main in this process, which sets how the process hears Ctrl-C and collects garbage."""
    numbers = (signal.SIGINT, signal.SIGCHLD)
    handlers = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)
    gc.unfreeze()
    gc.enable()


for _inherited in ("SCALEMARK_DB", "HYDRA_FULL_ERROR"):
    os.environ.pop(_inherited, None)  # fixtures of a whole file come before those of a test
# as in an environment that is activated: messages name `scalemark`
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


@pytest.fixture(autouse=True)
def _own_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Every test runs in an empty folder, with a data cache of its own session, host locks of its own, and no inherited settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCALEMARK_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setenv(
        "SCALEMARK_LOCK_DIR", str(tmp_path_factory.getbasetemp() / "locks" / tmp_path.name)
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "settings"))
    for name in ("SCALEMARK_DB", "CUDA_VISIBLE_DEVICES", "HYDRA_FULL_ERROR", *_SIZE):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what a test puts on it."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """URL of a PostgreSQL server of this session's own, started when the first test wants it."""
    programs = postgresql.needed_programs(
        postgresql.find_programs(), in_ci=os.environ.get("CI") == "true"
    )
    with postgresql.server(programs) as url:
        yield url


@pytest.fixture
def postgresql_url(postgresql_server: str) -> Iterator[str]:
    """URL of an empty database, for one test alone."""
    with postgresql.new_database(postgresql_server) as url:
        yield url


@pytest.fixture
def slurm_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[slurm.Cluster]:
    """A Slurm cluster of four nodes for one test alone, which the test's Slurm commands speak with."""
    needed(slurm.obstacle())
    with slurm.cluster() as started:
        monkeypatch.setenv("SLURM_CONF", str(started.config))
        yield started
