"""The real sentry: a process of its own beside the daemon, and the daemon's end of it.

The daemon writes a line into its input every two seconds; when none came for eight, or the input has ended, nobody
works on a borrowed card any more. What it does it says in lines of JSON.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lxgpu import wiring
from lxgpu.config.settings import FLAGS
from lxgpu.errors import LxgpuError
from lxgpu.services.sentry import ORPHAN_S, Sentry, Told

if TYPE_CHECKING:
    from lxgpu.model.quota import Policy
    from lxgpu.ports import Progress
    from lxgpu.services.site import Site

LOOK_S = 1.0
BEAT_S = 2.0
SILENT_S = 8.0
"""Without a sign of the daemon for so long there is none."""
END = b"end\n"
_ENDS_S = 4.0
_POLICY_S = 5.0
FILE = "sentry"
"""In the run directory: the process that is the sentry now. An older one that sees another there leaves it alone."""


def main() -> None:
    """Be the sentry until the daemon says so, or is away for too long."""
    FLAGS.update(json.loads(sys.argv[1]))
    mark = wiring.settings().run_dir / FILE
    mark.write_text(str(os.getpid()))
    asked: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sentry = Sentry(_site(), _say)
    try:
        keep_watch(sentry, mark, asked)
    except BaseException:
        sentry.look(alive=False)  # a fault here is nothing that a holder should notice
        raise


def keep_watch(sentry: Sentry, mark: Path, asked: list[bool]) -> None:
    """Look every second; `asked` has something in it when this process is to end."""
    heard_at, gone_at, handle = time.monotonic(), None, sys.stdin.fileno()
    while True:
        begun = time.monotonic()
        alive = gone_at is None and begun - heard_at < SILENT_S
        sentry.look(alive=alive)
        alone_s = 0.0 if gone_at is None else begun - gone_at
        if mark.read_text() != str(os.getpid()) or alone_s > ORPHAN_S + LOOK_S or (gone_at is not None and sentry.idle):
            return
        while (left := begun + LOOK_S - time.monotonic()) > 0 and not asked:
            if gone_at is not None:
                time.sleep(left)
            elif select.select([handle], (), (), left)[0]:
                line = os.read(handle, 4096)
                heard_at = time.monotonic()
                if not line:
                    gone_at = heard_at
                    break
                asked += [True] if END in line else []
        if asked:
            sentry.end_all("the daemon was ended")
            return


def _say(told: Told) -> None:
    """One line; nobody may be there to hear it."""
    with suppress(OSError):
        sys.stdout.write(json.dumps(asdict(told)) + "\n")
        sys.stdout.flush()


def _site() -> Site:
    from lxgpu.services.policywatch import PolicyWatch  # noqa: PLC0415

    chosen = wiring.settings()
    watch, looked_at = PolicyWatch(chosen.policy, kept=chosen.state_dir / "policy.json"), time.monotonic()

    def policy() -> Policy:
        nonlocal looked_at
        if time.monotonic() - looked_at > _POLICY_S:
            looked_at = time.monotonic()
            watch.look()
        return watch.current()

    return replace(wiring.site(lambda _text: None, read_only=True), policy=policy)


class Keeper:
    """The daemon's end: there is a sentry while anything is lent on, and what it says is written down."""

    def __init__(self, poke: Callable[[], None], say: Progress) -> None:
        self._poke = poke
        self._say = say
        self._child: subprocess.Popen[bytes] | None = None
        self._told: list[Told] = []
        self._lock = threading.Lock()
        self._begun_at = 0.0

    def begin(self) -> None:
        """At the start of a daemon, before its first look: nobody works on a borrowed card unwatched meanwhile."""
        with suppress(LxgpuError):  # what is wrong with the inventory the first look says
            if wiring.inventory(read_only=True).read().borrowings:
                self._start()

    def turn(self, site: Site) -> Iterable[str]:
        """One turn; gives what is wrong.

        Raises:
            LxgpuError: `unavailable`: the sentry ends at once, and who has borrowed was stopped by the daemon itself.
        """
        from lxgpu.services import borrowed  # noqa: PLC0415

        with self._lock:
            told, self._told = self._told, []
        if told:
            try:
                borrowed.heard(site, told)
            except LxgpuError:
                with self._lock:  # the sentry says it once
                    self._told = [*told, *self._told]
                raise
            self._poke()
        wanted = bool(site.inventory.read().borrowings)
        child = self._child
        if child is not None and child.poll() is not None:
            self._child = child = None
            if wanted:
                self._stop_all(site)
        if wanted and child is None:
            self._start()
        elif not wanted and child is not None:
            self.end()
        return ()

    def end(self) -> None:
        """The sentry ends, and with it everything on borrowed cards."""
        child, self._child = self._child, None
        if child is None or child.stdin is None:
            return
        with suppress(OSError):
            child.stdin.write(END)
            child.stdin.flush()
        try:
            child.wait(_ENDS_S)
        except subprocess.TimeoutExpired:
            child.terminate()

    def _start(self) -> None:
        self._begun_at = time.monotonic()
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "lxgpu.sentry", json.dumps(FLAGS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._child = child
        for name, target in (("sentry-beat", _beat), ("sentry-ear", self._listen)):
            threading.Thread(target=target, args=(child,), name=name, daemon=True).start()

    def _stop_all(self, site: Site) -> None:
        """The sentry has ended by itself: nobody goes on working on a borrowed card until there is another."""
        Sentry(site, lambda _told: None).look(alive=False)
        self._say("the sentry has ended; who has borrowed a card is stopped, and another begins")
        if time.monotonic() - self._begun_at < SILENT_S:
            raise LxgpuError("unavailable", "the sentry does not stay", why="it has ended right after its start")

    def _listen(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdout is not None  # noqa: S101 -- a pipe was asked for
        for line in child.stdout:
            with self._lock:
                self._told.append(Told(**json.loads(line)))
            self._poke()
        self._poke()


def _beat(child: subprocess.Popen[bytes]) -> None:
    """A sign of life every two seconds, while this process runs."""
    while child.poll() is None and child.stdin is not None:
        try:
            child.stdin.write(b".\n")
            child.stdin.flush()
        except (OSError, ValueError):
            return
        time.sleep(BEAT_S)


if __name__ == "__main__":
    main()
