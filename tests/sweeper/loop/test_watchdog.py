"""What is to be done when no sign comes is done by another thread, once, and not before."""

import threading

from sweeper.loop.watchdog import Watchdog


def test_it_acts_once_when_nobody_renews():
    acted = threading.Event()
    watchdog = Watchdog(acted.set)
    with watchdog.watching():
        assert not watchdog.has_acted
        watchdog.renew(1000)
        watchdog.renew(0)
        assert acted.wait(300)
    assert watchdog.has_acted


def test_it_does_nothing_once_it_is_not_needed_any_more():
    acted = threading.Event()
    watchdog = Watchdog(acted.set)
    with watchdog.watching():
        watchdog.renew(1000)
    assert not acted.is_set()
