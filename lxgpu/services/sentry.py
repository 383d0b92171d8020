"""The sentry: looks at borrowed cards every second, and stops who has borrowed one when its holder works.

It alone lets a borrower work, after two looks that agree; whoever else sets a container's rule denies borrowed cards.
What it cannot see counts as the holder's work, and without a daemon nobody works on a borrowed card.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from lxgpu.errors import LxgpuError
from lxgpu.model.borrowing import WATCHED, Borrowing, BorrowState
from lxgpu.model.gpu import Gpu, Reading, Readings
from lxgpu.policy.borrowing import Glance, Move, Standing, glance, next_move
from lxgpu.ports import Process
from lxgpu.services.configure import picture
from lxgpu.services.site import Site

LOCK = "@borrow"
"""Held while a borrower is let at a card, and while one is kept off for good; no instance can have this name."""
AGAIN_S = 10.0
"""What a borrower may open is set again so often: other changes of its container close borrowed cards."""
ORPHAN_S = 30.0
"""Without a daemon for so long, borrowers are ended: who stands still may have what the holder needs."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the sentry did to a borrowing: `did` is lent, stopped or over.

    `latency_s` is how long at most the holder and the borrower were at work at the same time.
    """

    id: str
    did: str
    why: str = ""
    latency_s: float | None = None


class Sentry:
    """Looks, and acts. `tell` hears what was done; it must not wait."""

    def __init__(self, site: Site, tell: Callable[[Told], None]) -> None:
        self._site = site
        self._tell = tell
        self._rows: dict[str, Borrowing] = {}
        self._standing: dict[str, Standing] = {}
        self._seen_at: dict[str, float] = {}
        self._ruled_at: dict[str, float] = {}
        self._caught: dict[str, set[tuple[int, int]]] = {}
        self._gpus: dict[str, Gpu] = {}
        self._alone_since: float | None = None
        self._over: set[str] = set()

    @property
    def idle(self) -> bool:
        """Whether there is nothing to watch."""
        return not self._rows

    def look(self, *, alive: bool = True) -> None:
        """One look at all borrowed cards. `alive`: a daemon is at work; without one everybody is stopped."""
        now = self._site.clock.monotonic()
        self._alone_since = None if alive else (self._alone_since if self._alone_since is not None else now)
        known = self._refresh()
        if not self._rows:
            return
        readings = self._site.probe.readings()
        for row in list(self._rows.values()):
            reading = readings.of(row.slot.card)
            if row.id not in self._standing:
                self._meet(row, readings)
            self._turn(row, reading, readings, blind=not (alive and known))
        if self._alone_since is not None and now - self._alone_since >= ORPHAN_S:
            self.end_all("there is no daemon")

    def end_all(self, why: str) -> None:
        """Stop and end what every borrower has on its card; nothing of this process is left after it."""
        self._refresh()
        readings = self._site.probe.readings()
        for row in list(self._rows.values()):
            self._stop(row, readings)
            self._kill(row, readings, why)
            self._site.brake.free(row.id, row.init)

    def _refresh(self) -> bool:
        """The borrowings as they are now; False when they cannot be read, and the last ones known count."""
        try:
            rows = {row.id: row for row in self._site.inventory.read().borrowings if row.state in WATCHED}
        except LxgpuError:
            return False
        for gone in self._rows.keys() - rows.keys():
            self._site.brake.free(gone, self._rows[gone].init)
            for kept in (self._standing, self._seen_at, self._ruled_at, self._caught):
                kept.pop(gone, None)
            self._over.discard(gone)
        self._rows = rows
        return True

    def _meet(self, row: Borrowing, readings: Readings) -> None:
        """One that is new here. Who may have been let at the card by a sentry before this one is stopped first."""
        self._standing[row.id] = Standing(fresh=row.state is BorrowState.GRANTED)
        self._stop(row, readings)
        if row.state is BorrowState.LENT:
            self._tell(Told(row.id, "stopped", "the sentry began anew"))

    def _turn(self, row: Borrowing, reading: Reading | None, readings: Readings, *, blind: bool) -> None:
        before, rules, now = (
            self._standing[row.id],
            self._site.policy().rules.sharing.borrow,
            self._site.clock.monotonic(),
        )
        seen = Glance(now, work=True) if blind else glance(reading, borrower=row.instance, at=now, rules=rules)
        if blind:
            move = Move.STOP if before.running else Move.NOTHING
            self._standing[row.id] = replace(before, running=False, fresh=False, quiet_at=None)
        else:
            move, self._standing[row.id] = next_move(before, seen, rules)
        why = self._standing[row.id].why
        if move in {Move.STOP, Move.END} and before.running:
            self._stop(row, readings)
            latency = round(self._site.clock.monotonic() - self._seen_at.get(row.id, now), 3)
            self._tell(Told(row.id, "stopped", why or "there is no daemon", None if blind else latency))
        if move is Move.END:
            self._kill(row, readings, why)
        elif move is Move.GO or (before.running and move is Move.NOTHING and self._due(row)):
            self._go(row, before, began=move is Move.GO)
        if not self._standing[row.id].running and move is not Move.STOP:
            self._keep_still(row, readings)
        if not seen.work:
            self._seen_at[row.id] = now

    def _due(self, row: Borrowing) -> bool:
        return self._site.clock.monotonic() - self._ruled_at.get(row.id, 0.0) >= AGAIN_S

    def _go(self, row: Borrowing, before: Standing, *, began: bool) -> None:
        """Let the borrower at the card, unless somebody is at work on the container or the borrowing just now."""
        with self._site.locks.hold(LOCK, wait_s=0) as mine, self._site.locks.hold(row.instance, wait_s=0) as still:
            gpu = self._gpu(row)
            done = mine and still and gpu is not None and self._open(row, gpu)
        if done and began:
            self._site.brake.free(row.id, row.init)
            self._caught.pop(row.id, None)
            self._tell(Told(row.id, "lent"))
        elif began:  # at the next look
            self._standing[row.id] = replace(self._standing[row.id], running=False, fresh=before.fresh)

    def _open(self, row: Borrowing, gpu: Gpu) -> bool:
        """The rule of the container with this card open; False when the borrowing is not what it was."""
        try:
            now = self._site.inventory.read()
            if not any(one.id == row.id and one.state in WATCHED for one in now.borrowings):
                return False
            wanted = picture(self._site, row.instance, gpus=tuple(self._gpus.values()))
            nodes = frozenset(gpu.nodes)
            denied = [node for node in wanted.denied() if node not in nodes]
            self._site.probe.set_rule(row.init, denied=denied, allowed=[*wanted.allowed(), *sorted(nodes)])
        except LxgpuError:
            return False
        self._ruled_at[row.id] = self._site.clock.monotonic()
        return True

    def _stop(self, row: Borrowing, readings: Readings) -> None:
        """Nothing new opens the card, and who has it stands still; first who computes, then whoever has it open."""
        gpu = self._gpu(row)
        with suppress(LxgpuError):  # it went down just now, and everything in it
            if gpu is not None:
                self._site.probe.deny(row.init, gpu.nodes)
        with suppress(LxgpuError):
            self._site.brake.hold(row.id, row.init, _pids(row, readings))
        self._keep_still(row, readings)

    def _keep_still(self, row: Borrowing, readings: Readings) -> None:
        """Whoever is on the card and does not stand still is made to; who did before has stepped out, and ends."""
        found = self._on_card(row, readings)
        held = {(one.pid, one.start_time) for one in self._site.brake.held(row.id)}
        caught = self._caught.setdefault(row.id, set())
        for one in found:
            if (one.pid, one.start_time) in caught - held:
                self._site.probe.signal(one, signal.SIGKILL)
        with suppress(LxgpuError):  # it went down just now
            self._site.brake.hold(row.id, row.init, [one.pid for one in found])
        caught |= {(one.pid, one.start_time) for one in self._site.brake.held(row.id)}

    def _on_card(self, row: Borrowing, readings: Readings) -> tuple[Process, ...]:
        """Everything of the borrower's container that has the card; nothing when it went down just now."""
        gpu = self._gpu(row)
        try:
            found = self._site.probe.holders([row.init], [gpu], still=False, readings=readings) if gpu else {}
        except LxgpuError:
            return ()
        return tuple(one for held in found.values() for one in held.processes)

    def _kill(self, row: Borrowing, readings: Readings, why: str) -> None:
        for one in self._on_card(row, readings):
            self._site.probe.signal(one, signal.SIGKILL)
        if row.id not in self._over:
            self._over.add(row.id)
            self._tell(Told(row.id, "over", why))

    def _gpu(self, row: Borrowing) -> Gpu | None:
        """The card; asked for again while the host does not show it."""
        if row.slot.card not in self._gpus:
            try:
                self._gpus = {gpu.card: gpu for gpu in self._site.engine.gpus()}
            except LxgpuError:
                return None
        return self._gpus.get(row.slot.card)


def _pids(row: Borrowing, readings: Readings) -> Iterable[int]:
    """The borrower's processes that NVML lists on the card."""
    reading = readings.of(row.slot.card)
    listed = reading.processes if reading and reading.processes else ()
    return [one.pid for one in listed if one.instance == row.instance]
