"""The sentry's own process: whom it takes for a daemon, and when it ends."""

from __future__ import annotations

import os
import sys
import threading
import time

import pytest

from lxgpu import sentry


class Looks:
    """In the place of what looks at cards: remembers whether a daemon was there, and what was ended."""

    def __init__(self):
        self.alive: list[bool] = []
        self.ended: list[str] = []
        self.idle = False

    def look(self, *, alive):
        """One look."""
        self.alive.append(alive)

    def end_all(self, why):
        """Everybody is ended."""
        self.ended.append(why)


class Watched:
    """The process's loop in a thread, with the daemon's end of its input."""

    def __init__(self, mark, stdin, daemon):
        self.looks, self.daemon, self.mark = Looks(), daemon, mark
        self.stdin = stdin
        self.thread = threading.Thread(target=sentry.keep_watch, args=(self.looks, mark, []), daemon=True)
        self.thread.start()

    def until(self, what):
        """Wait for something to be so."""
        ends = time.monotonic() + 20
        while not what():
            assert time.monotonic() < ends, self.looks.alive
            time.sleep(0.01)

    def ends(self):
        """It comes to its end."""
        self.until(lambda: not self.thread.is_alive())


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """A sentry that looks twenty times a second, and takes a daemon for gone after half a second."""
    monkeypatch.setattr(sentry, "LOOK_S", 0.05)
    monkeypatch.setattr(sentry, "SILENT_S", 0.5)
    monkeypatch.setattr(sentry, "ORPHAN_S", 0.3)
    mark = tmp_path / "sentry"
    mark.write_text(str(os.getpid()))
    inner, outer = os.pipe()
    stdin, daemon = os.fdopen(inner), os.fdopen(outer, "wb", buffering=0)
    monkeypatch.setattr(sys, "stdin", stdin)
    made = Watched(mark, stdin, daemon)
    yield made
    mark.write_text("another")
    made.ends()
    stdin.close()
    daemon.close()


def test_a_daemon_that_stands_still_is_none(watched):
    """Without a sign of it for so long, nobody is let work; with the next sign it is there again."""
    watched.until(lambda: False in watched.looks.alive)
    assert watched.looks.alive[0]
    watched.daemon.write(b".\n")
    watched.until(lambda: watched.looks.alive[-1])


def test_a_daemon_that_was_killed_is_none_from_the_next_look_on(watched):
    """The end of the input tells, and after a while the sentry ends too."""
    watched.daemon.close()
    watched.until(lambda: not watched.looks.alive[-1])
    watched.ends()


def test_without_a_daemon_and_without_borrowers_it_ends_at_once(watched):
    """There is nothing to wait for."""
    watched.looks.idle = True
    watched.daemon.close()
    watched.ends()


def test_told_to_end_it_ends_everybody_first(watched):
    """A daemon that ends in order leaves nobody on a borrowed card."""
    watched.daemon.write(b".\n")
    watched.daemon.write(sentry.END)
    watched.ends()
    assert watched.looks.ended == ["the daemon was ended"]


def test_it_goes_when_another_has_begun(watched):
    """There is one sentry; the older one leaves everything as it is."""
    watched.until(lambda: watched.looks.alive)
    watched.mark.write_text("another")
    watched.ends()
    assert watched.looks.ended == []
