"""The file system of a database is distinguished from the table of mounts."""

from pathlib import Path

import pytest

from scalemark.host.files import without_reliable_locks

ROOT = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw"


def kind(tmp_path: Path, *lines: str) -> str | None:
    """As of a database in tmp_path/data, with these mounts besides the root."""
    (tmp_path / "data").mkdir(exist_ok=True)
    mounts = tmp_path / "mountinfo"
    mounts.write_text("".join(f"{line}\n" for line in (ROOT, *lines)))
    return without_reliable_locks(tmp_path / "data" / "results.db", mounts)


@pytest.mark.parametrize(
    ("reported", "found"),
    [
        ("nfs4 server:/export rw,vers=4.2", "nfs4"),
        ("fuse.sshfs me@server: rw,user_id=0", "fuse.sshfs"),
        ("9p drvfs rw", "9p"),
        ("overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w", None),
        ("fuse.fuse-overlayfs fuse-overlayfs rw", None),
        ("fuseblk /dev/sdb1 rw", None),
        ("ext4 /dev/vdb rw", None),
    ],
)
def test_network_file_systems_are_distinguished_from_local_ones(tmp_path, reported, found):
    assert (
        kind(tmp_path, f"31 22 0:28 / {tmp_path}/data rw,relatime shared:9 master:2 - {reported}")
        == found
    )


def test_without_other_mounts_the_root_holds_the_file(tmp_path):
    assert kind(tmp_path) is None


def test_the_deepest_and_latest_mount_holds_the_file(tmp_path):
    data = f"{tmp_path}/data"
    nfs, local = "- nfs server:/x rw", "- ext4 /dev/vdb rw"
    assert (
        kind(tmp_path, f"31 22 0:28 / {data} rw {nfs}", f"32 22 0:29 / {tmp_path} rw {local}")
        == "nfs"
    )
    assert (
        kind(tmp_path, f"31 22 0:28 / {data} rw {nfs}", f"32 22 0:29 / {data} rw {local}") is None
    )
    assert kind(tmp_path, f"31 22 0:28 / {data}base rw {nfs}") is None


def test_a_mount_point_may_have_spaces_and_letters_of_any_language(tmp_path):
    folder = tmp_path / "my dätä"
    folder.mkdir()
    mounts = tmp_path / "mountinfo"
    escaped = str(folder).replace(" ", "\\040")
    mounts.write_text(
        f"{ROOT}\n31 22 0:28 /sub\\040folder {escaped} rw,relatime - nfs server:/a\\040b rw\n"
    )
    assert without_reliable_locks(folder / "r.db", mounts) == "nfs"
    assert without_reliable_locks(tmp_path / "my" / "r.db", mounts) is None


def test_a_link_is_followed_and_folders_may_not_be_there_yet(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"{ROOT}\n31 22 0:28 / {tmp_path}/data rw - cifs //server/share rw\n")
    assert without_reliable_locks(tmp_path / "link" / "new" / "r.db", mounts) == "cifs"


def test_nothing_is_said_where_mounts_cannot_be_read(tmp_path):
    assert without_reliable_locks(tmp_path / "r.db", tmp_path / "none") is None


def test_the_mounts_of_this_machine_can_be_read(tmp_path):
    assert without_reliable_locks(tmp_path / "r.db") == without_reliable_locks(tmp_path)
