"""Ticks of several hosts, side by side: each at its own speed, and one that hangs holds up no other.

A host that does not answer is not decided on: its cards stay with whom they are, and nothing is taken or given there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from lxgpu.errors import LxgpuError
from lxgpu.services import pausing
from lxgpu.services.loop import EVERY_S, Next, pause_s
from lxgpu.services.sections import fault
from lxgpu.services.site import Site
from lxgpu.services.ticked import Tick, Ticked

PATIENCE_S = 2.0
"""So long the tick of this host waits for those of others, once it is through itself."""
PART = "hosts"
"""Under this name it is counted that another host's tick failed."""
_FATAL = frozenset({"superseded", "inventory_newer"})
"""What ends this process, whichever host says it. That another inventory has a host is that host's trouble."""


@dataclass(slots=True)
class _Running:
    """One tick of another host; `answer` is there when it is over."""

    site: Site
    over: threading.Event = field(default_factory=threading.Event)
    answer: Ticked | Exception | None = None


class SideBySide:
    """`ticked.Tick` of all hosts: this host's in the thread of whoever calls, the others' each in a thread of its own.

    What is not through in time goes on, and is heard of in a later tick; then `poke` is called, so that it comes soon.
    """

    def __init__(
        self,
        tick: Tick,
        others: Callable[[Site], Sequence[Site]],
        *,
        patience_s: float = PATIENCE_S,
        poke: Callable[[], object] = lambda: None,
    ) -> None:
        self._tick = tick
        self._others = others
        self._patience_s = patience_s
        self._poke = poke
        self._through = threading.Event()
        """Set while this host is at no tick of its own."""
        self._running: dict[str, _Running] = {}
        self._late: set[str] = set()

    def __call__(self, site: Site, *, paused: bool = False) -> Ticked:
        """One tick of every host that is not still at its last.

        Errors: those of this host's tick; and `superseded`, `inventory_newer` of any.
        """
        self._through.clear()
        for other in self._others(site):
            if other.host not in self._running:
                self._begin(other, lambda: paused or pausing.paused(site.settings.run_dir) is not None)
        try:
            own = self._tick(site, paused=paused)
        finally:
            self._through.set()
            found = self._gather()
        for answer in found.values():
            if isinstance(answer, LxgpuError) and answer.code in _FATAL:
                raise answer
        return self._together(own, found)

    def _begin(self, site: Site, paused: Callable[[], bool]) -> None:
        one = self._running[site.host] = _Running(site)

        def work() -> None:
            try:
                one.answer = self._ticks(site, paused)
            except Exception as error:  # noqa: BLE001 -- one host's boundary: it is told, and stops no other
                one.answer = error
            except BaseException:  # noqa: BLE001 -- the process is to end, and this thread was waiting for something
                return
            finally:
                one.over.set()
                if site.host in self._late:
                    self._poke()

        # It ends with the process, whatever it waits for: the journal has what it does.
        threading.Thread(target=work, name=f"lxgpu-tick-{site.host}", daemon=True).start()

    def _ticks(self, site: Site, paused: Callable[[], bool]) -> Ticked:
        """One tick, and more as long as this host is at its own: it may be the slow one. Gives the last."""
        did = 0
        while True:
            last = self._tick(site, paused=paused())
            did += last.did
            if self._through.wait(pause_s(Next(last.next_at), now=site.clock.now(), took_s=0.0, every_s=EVERY_S)):
                return replace(last, did=did)

    def _gather(self) -> dict[str, Ticked | Exception | None]:
        """What became of each, None of one that is not through yet."""
        ends = time.monotonic() + self._patience_s
        found: dict[str, Ticked | Exception | None] = {}
        for host, one in list(self._running.items()):
            one.over.wait(max(0.0, ends - time.monotonic()))
            if not one.over.is_set():
                self._late.add(host)
            found[host] = one.answer
            if one.answer is not None:
                del self._running[host]
                self._late.discard(host)
        return found

    def _together(self, own: Ticked, found: dict[str, Ticked | Exception | None]) -> Ticked:
        troubles, failed, did, dues = list(own.troubles), set(own.failed), own.did, [own.next_at]
        for host, answer in found.items():
            if isinstance(answer, Ticked):
                did += answer.did
                dues.append(answer.next_at)
                troubles += [f"{host}: {text}" for text in answer.troubles]
                failed |= set(answer.failed)
                continue
            failed.add(PART)
            troubles.append(f"{host}: {_words(host, answer)}")
        next_at = min((at for at in dues if at is not None), default=None)
        return replace(own, next_at=next_at, did=did, troubles=tuple(troubles), failed=tuple(sorted(failed)))


def _words(host: str, answer: Exception | None) -> str:
    if answer is None:
        return "its tick takes long; the other hosts go on without it"
    return answer.brief if isinstance(answer, LxgpuError) else fault(host, answer)
