"""Memory is available up to the limit of the control group, or of one above it."""

import pytest

from scalemark.host.processes import available_bytes

GIB = 2**30


def make(root, cgroup, limits):
    """Write files as the kernel shows them, with 16 GiB available."""
    meminfo = f"MemTotal: {32 * 2**20} kB\nMemAvailable: {16 * 2**20} kB\nHugePages_Total: 0\n"
    files = {"proc/meminfo": meminfo, "proc/self/cgroup": cgroup}
    files |= {f"sys/fs/cgroup/{name}": f"{limit}\n" for name, limit in limits.items()}
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


V1 = "5:cpu,cpuacct:/job\n4:memory:/job\n0::/\n"


@pytest.mark.parametrize(
    ("cgroup", "limits", "gib"),
    [
        ("0::/\n", {}, 16),
        ("0::/\n", {"memory.max": 4 * GIB}, 4),
        ("0::/\n", {"memory.max": 64 * GIB}, 16),
        ("0::/job/step\n", {"job/step/memory.max": "max", "job/memory.max": 2 * GIB}, 2),
        (V1, {"memory/job/memory.limit_in_bytes": 3 * GIB}, 3),
        (V1, {"memory/memory.limit_in_bytes": 1 * GIB}, 1),
        (V1, {"memory/job/memory.limit_in_bytes": 2**63 - 4096}, 16),
    ],
)
def test_the_least_of_all_limits_counts(tmp_path, cgroup, limits, gib):
    make(tmp_path, cgroup, limits)
    assert available_bytes(tmp_path) == gib * GIB


def test_this_machine_has_some():
    assert available_bytes() > 0
