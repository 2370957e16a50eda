"""What is to be done when no sign comes is done by another thread, once, and not before."""

import threading

from sweeper.agents.dead_man import DeadMan


def test_it_acts_once_when_nobody_renews():
    acted = threading.Event()
    dead_man = DeadMan(acted.set)
    with dead_man.watching():
        assert not dead_man.has_acted
        dead_man.renew(1000)
        dead_man.renew(0)
        assert acted.wait(300)
    assert dead_man.has_acted


def test_it_does_nothing_once_it_is_not_needed_any_more():
    acted = threading.Event()
    dead_man = DeadMan(acted.set)
    with dead_man.watching():
        dead_man.renew(1000)
    assert not acted.is_set()
