"""What descends from this process is found, however it leaves its parents."""

import subprocess
import sys
import textwrap

FORKS_DURING_A_LOOK = """
    import os, time
    from command import children

    children.adopt_orphans()
    end, ending = os.pipe()
    if (parent := os.fork()) == 0:
        os.read(end, 1)
        if os.fork():
            os._exit(0)
        time.sleep(1000)
    listed = os.listdir

    def list_and_let_it_fork(path):
        names = listed(path)
        if parent in living:
            living.clear()
            os.write(ending, b"!")
            os.waitid(os.P_PID, parent, os.WEXITED | os.WNOWAIT)
        return names

    living = {parent}
    os.listdir = list_and_let_it_fork
    found = children.living()
    children.end_all()
    print(len(found), parent in [child.pid for child in found])
"""


def test_a_child_of_one_that_ends_during_the_look_is_found():
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FORKS_DURING_A_LOOK)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert ended.stdout == "1 False\n"
