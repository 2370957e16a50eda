"""The last-level caches of a process's cores are counted once each."""

from trainer.probing.caches import last_level_bytes

MIB = 2**20


def make(folder, cpu, *caches):
    """Caches of a core, each as level, size and the cores that share it."""
    for number, (level, size, shared_by) in enumerate(caches):
        path = folder / f"cpu{cpu}" / "cache" / f"index{number}"
        path.mkdir(parents=True)
        for name, text in (("level", level), ("size", size), ("shared_cpu_list", shared_by)):
            (path / name).write_text(f"{text}\n")


def test_a_cache_that_cores_share_counts_once(tmp_path):
    for cpu, shared_by in ((0, "0-1"), (1, "0-1"), (2, "2-3"), (3, "2-3")):
        make(tmp_path, cpu, (1, "48K", cpu), (2, "1024K", cpu), (3, "32768K", shared_by))
    assert last_level_bytes([0, 1], tmp_path) == 32 * MIB
    assert last_level_bytes([0, 2, 3], tmp_path) == 64 * MIB


def test_without_a_third_level_the_second_is_the_last(tmp_path):
    make(tmp_path, 0, (1, "48K", "0"), (2, "512K", "0"))
    make(tmp_path, 1, (1, "48K", "1"), (2, "512K", "1"))
    assert last_level_bytes([0, 1], tmp_path) == MIB


def test_a_kernel_that_tells_nothing_has_none(tmp_path):
    assert last_level_bytes([0], tmp_path) == 0
    make(tmp_path, 0, (3, "32768K", "0"))
    (tmp_path / "cpu0" / "cache" / "index0" / "size").unlink()
    assert last_level_bytes([0], tmp_path) == 0
