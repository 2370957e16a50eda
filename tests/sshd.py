"""Servers of ssh on loopback that stand for hosts: each has a port, a key and locks of its own.

Their home is empty: a host killed while the shell's start files run could leave a lock of theirs.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.slurm import until

SERVER = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile {folder}/{name}.pid
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
SetEnv SCALEMARK_LOCK_DIR={folder}/locks-{name} HOME={folder}
"""
CLIENT = """\
Host {name}
  HostName 127.0.0.1
  HostKeyAlias {name}
  Port {port}
  IdentityFile {folder}/key
  StrictHostKeyChecking no
  UserKnownHostsFile {folder}/known
"""


@dataclass(slots=True)
class Hosts:
    """Those that run."""

    folder: Path
    servers: dict[str, subprocess.Popen[bytes]]

    @property
    def options(self) -> str:
        """What launcher.options is to be."""
        return f"[-F{self.folder}/config]"

    def start(self, name: str) -> None:
        program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        assert program
        with (self.folder / f"{name}.log").open("ab") as log:
            self.servers[name] = subprocess.Popen(
                [program, "-D", "-e", "-f", str(self.folder / f"{name}.conf")],
                stdin=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        reach = ["ssh", f"-F{self.folder}/config", "-oBatchMode=yes", name, "true"]
        until(lambda: subprocess.run(reach, capture_output=True, check=False).returncode == 0)

    def kill(self, name: str) -> None:
        """As if its power had gone: the server, its connections and what runs in them."""
        server = self.servers.pop(name)
        server.kill()
        server.wait()
        mark = f"SCALEMARK_LOCK_DIR={self.folder}/locks-{name}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), 9)
            except OSError:
                continue  # it has ended

    def running(self) -> list[int]:
        """Process ids of whatever runs on the hosts."""
        mark = f"SCALEMARK_LOCK_DIR={self.folder}/locks-".encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                variables = (process / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(variable.startswith(mark) for variable in variables):
                found.append(int(process.name))
        return found


def obstacle() -> str:
    """Why no server can be started here; empty when one can."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    missing = [name for name in ("sshd", "ssh", "ssh-keygen") if not shutil.which(name, path=path)]
    if missing:
        return f"no OpenSSH programs ({', '.join(missing)}): run scripts/install-sshd"
    return "" if os.geteuid() == 0 else "only root can start servers of ssh on loopback"


@contextmanager
def hosts(folder: Path, names: Sequence[str]) -> Iterator[Hosts]:
    """Start a server for each name; end them, and what runs there, afterwards."""
    Path("/run/sshd").mkdir(exist_ok=True)
    for key in ("key", "host_key"):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
        subprocess.run(make, check=True)
    texts = []
    for name in names:
        with socket.create_server(("127.0.0.1", 0)) as free:
            values = {"name": name, "port": free.getsockname()[1], "folder": folder}
        (folder / f"{name}.conf").write_text(SERVER.format(**values))
        texts.append(CLIENT.format(**values))
    (folder / "config").write_text("".join(texts))
    started = Hosts(folder, {})
    try:
        for name in names:
            started.start(name)
        yield started
    finally:
        for name in list(started.servers):
            started.kill(name)
