"""Runs a private PostgreSQL server until the process that started this says so or ends, however it ends; leaves nothing behind.

A process of its own, because only somebody else can clear up after a test run that was killed.
`tests.postgresql.server` starts it, with the folder of the server's programs. It prints the server's folder; a line on
standard input, or its end, stops it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

OWNER = "postgres"  # where this is root: as root the server refuses to run
PATIENCE_S = "300"  # of pg_ctl, which gives up after 60; it costs nothing where all is well, and a busy machine may need much


def main(programs: Path) -> None:
    folder = Path(
        tempfile.mkdtemp(prefix="scalemark-postgresql-", dir="/tmp")
    )  # a socket's path has 107 bytes at most
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, OWNER, OWNER)
        _run(
            folder,
            programs / "initdb",
            "-U",
            "postgres",
            "-A",
            "trust",
            "--locale=C",
            "-E",
            "UTF8",
            "--no-sync",
        )
        with (folder / "postgresql.conf").open(
            "a"
        ) as settings:  # not by options: who starts it again need not know them
            settings.write(
                f"fsync = off\nunix_socket_directories = '{folder}'\nlisten_addresses = ''\n"
            )
        try:
            start(folder, programs)
            print(folder, flush=True)
            sys.stdin.readline()
        finally:
            if (folder / "postmaster.pid").exists():  # a test may have stopped it
                stop(folder, programs, "immediate")
    finally:
        shutil.rmtree(folder)


def start(folder: Path, programs: Path) -> None:
    """Of one that was set up here."""
    log = folder / "log"
    try:
        _run(folder, programs / "pg_ctl", "start", "-w", "-t", PATIENCE_S, "-l", log)
    except subprocess.CalledProcessError:
        print(log.read_text(), file=sys.stderr)
        raise


def stop(folder: Path, programs: Path, mode: str) -> None:
    """`mode`: fast or immediate, as pg_ctl has them."""
    _run(folder, programs / "pg_ctl", "stop", "-w", "-t", PATIENCE_S, "-m", mode)


def _run(folder: Path, program: Path, *arguments: str | Path) -> None:
    as_owner = ["runuser", "-u", OWNER, "--"] if os.geteuid() == 0 else []
    command = [*as_owner, program, *arguments, "-D", folder]
    subprocess.run(
        command, check=True, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
