"""Ending what is lent on of a holder's card, and what the daemon does about it; the row is its journal.

It is no operation: whoever comes by goes on with one that is ending, from the row alone, and each step of it may be
repeated. The order is: the row, the rule, KILL, the device, a look that finds nothing, the row.
"""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial

from lxgpu.errors import LxgpuError
from lxgpu.model import devices
from lxgpu.model.borrowing import WATCHED, Borrowing, BorrowState
from lxgpu.model.gpu import Gpu, Slot
from lxgpu.model.instance import Sighting
from lxgpu.model.layout import whole
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.borrowing import over
from lxgpu.policy.resolve import resolve_gpus
from lxgpu.ports import Change, Tx
from lxgpu.services import instances
from lxgpu.services.operations import LOCK_WAIT_S
from lxgpu.services.recipes import Wait, Work
from lxgpu.services.sentry import LOCK, Told
from lxgpu.services.site import Site

DIES_S, POLL_S = 1.0, 0.05
"""So long one pass waits for what was killed to be gone."""


def give_back(site: Site, name: str, cards: Collection[str] = ()) -> tuple[str, ...]:
    """End what a container has borrowed, all or those of these names; gives the names, or the UUIDs of all."""
    records = site.inventory.read()
    mine = {row.slot.card: row for row in records.borrowings if row.instance == name}
    if not mine:
        return ()
    gpus = site.engine.gpus() if cards else ()
    named = (
        {one: resolve_gpus(gpus, records.cards, (one,))[0] for one in cards} if cards else {one: one for one in mine}
    )
    found = {one: mine[uuid] for one, uuid in named.items() if uuid in mine}
    for row in found.values():
        finish(site, row, why="given back")
    return tuple(found)


def finish(site: Site, row: Borrowing, *, why: str) -> None:
    """End a borrowing, to its end. Error `unavailable`: something still holds the card; the daemon goes on with it."""
    for _ in range(5):
        if end(site, row, why=why):
            return
    raise LxgpuError(
        "unavailable",
        f"what {row.instance} runs on {row.slot} does not end",
        fix="lxgpu gpu show GPU says what it is; the daemon goes on with it",
    )


def end(site: Site, row: Borrowing, *, why: str) -> bool:
    """One pass at ending a borrowing; True when it is closed. Never waits for more than a moment."""
    if not _ending(site, row, why):
        return True
    found = card_of_row(site.engine.gpus(), row)
    seen = site.engine.glimpse(row.instance)
    if seen is not None and seen.init_pid is not None and found is not None:
        with site.locks.hold(LOCK, wait_s=LOCK_WAIT_S):  # whoever opened it meanwhile has done so by now
            _gone_is_fine(partial(site.probe.deny, seen.init_pid, found.nodes))
        if not _emptied(site, seen.init_pid, found):
            return False
    if seen is not None and found is not None and not _unplugged(site, row, found):
        return False
    site.brake.free(row.id, row.init)
    with site.write() as tx:
        now = _row(tx, row)
        if now is not None:
            tx.put(replace(now, state=BorrowState.CLOSED, closed_at=site.clock.now()))
            detail = {"gpu": row.slot.gpu, "holder": row.holder, "why": now.outcome}
            tx.event("borrow_over", row.instance, rule="borrow", detail=detail)
    return True


def off(work: Work) -> Wait | None:
    """A step of who takes cards from a holder: what is lent on of them ends first.

    What does not end in time is left to the fence, which does not give out a card that somebody holds.
    """
    site, taken = work.site, {Slot(text).card for text in work.texts("slots")}
    rows = [row for row in site.inventory.read().borrowings if row.slot.card in taken]
    if not rows:
        return None
    work.mark()
    work.note(borrowers=sorted({row.instance for row in rows} | set(work.texts("borrowers"))))
    done = [end(site, row, why="the holder gives the card back") for row in rows]
    until = work.deadline(work.seconds("fence_timeout_s") / 2)
    return None if all(done) or site.clock.now() >= until else Wait(until)


def back(site: Site, name: str) -> None:
    """Before a container is stopped: what it has borrowed goes back, and nothing in it stands still any more."""
    for row in [row for row in site.inventory.read().borrowings if row.instance == name]:
        end(site, row, why="the borrower's container was stopped")


def settle(site: Site, snapshot: Snapshot) -> int:
    """The daemon's part of a tick: what is over ends, and what is ending goes on; gives how many that were."""
    did = 0
    for row in snapshot.records.borrowings:
        why = row.outcome if row.state is BorrowState.ENDING else _why_over(site, snapshot, row)
        if why:
            did += 1
            end(site, row, why=why)
    return did


def heard(site: Site, told: Iterable[Told]) -> None:
    """Write down what the sentry did."""
    for one in told:
        with site.write() as tx:
            row = next((row for row in tx.records.borrowings if row.id == one.id and row.state in WATCHED), None)
            if row is None:
                continue
            detail: dict[str, object] = {"gpu": row.slot.gpu, "holder": row.holder}
            if one.did == "lent":
                tx.put(replace(row, state=BorrowState.LENT, since=site.clock.now()))
            elif one.did == "stopped":
                tx.put(replace(row, state=BorrowState.STOPPED))
                detail |= {"why": one.why, "latency_s": one.latency_s, **_worked(site, row)}
            else:
                tx.put(replace(row, state=BorrowState.ENDING, outcome=one.why))
                detail |= {"why": one.why, **_worked(site, row)}
            tx.event(f"borrow_{'ending' if one.did == 'over' else one.did}", row.instance, rule="borrow", detail=detail)


def card_of_row(gpus: Iterable[Gpu], row: Borrowing) -> Gpu | None:
    """The card, as the host shows it."""
    return next((gpu for gpu in whole(gpus) if gpu.card == row.slot.card), None)


def _unplugged(site: Site, row: Borrowing, gpu: Gpu) -> bool:
    """Whether the card is off the container's devices; one that was removed or replaced behind lxgpu has none of ours.

    A container that holds the card itself by now keeps it: then it is its own.
    """
    records = site.inventory.read()
    if any(one.instance == row.instance and one.slot.card == gpu.card for one in records.assignments if one.live):
        return True

    def build(_seen: Sighting) -> Change:
        return Change(devices={devices.gpu_device_name(gpu): None})

    try:
        instances.put(site, row.instance, build)
    except LxgpuError as error:
        return error.code in {"missing", "not_ours"}
    return True


def _emptied(site: Site, init: int, gpu: Gpu) -> bool:
    """KILL to whatever of the container holds the card, until nothing does; False when something does still."""
    ends = site.clock.monotonic() + DIES_S
    while True:
        try:
            found = site.probe.holders([init], [gpu], still=False)[gpu.card]
            if not found.processes:
                return site.probe.holders([init], [gpu], at_once=True)[gpu.card].free
        except LxgpuError as error:
            if error.code != "unavailable":
                raise
            return True  # it went down just now, and everything in it
        for process in found.processes:
            site.probe.signal(process, signal.SIGKILL)
        if site.clock.monotonic() >= ends:
            return False
        site.clock.sleep(POLL_S)


def _ending(site: Site, row: Borrowing, why: str) -> bool:
    """Write that it ends; False when it is over already."""
    with site.write() as tx:
        now = _row(tx, row)
        if now is None:
            return False
        if now.state is not BorrowState.ENDING:
            tx.put(replace(now, state=BorrowState.ENDING, outcome=why))
            detail = {"gpu": row.slot.gpu, "holder": row.holder, "why": why, **_worked(site, now)}
            tx.event("borrow_ending", row.instance, rule="borrow", detail=detail)
    return True


def _worked(site: Site, row: Borrowing) -> dict[str, object]:
    """For how long the borrower could work since the card was opened last; nothing when it stands still."""
    if row.state is not BorrowState.LENT or row.since is None:
        return {}
    return {"worked_s": round((site.clock.now() - row.since).total_seconds(), 1)}


def _why_over(site: Site, snapshot: Snapshot, row: Borrowing) -> str:
    if row.state is BorrowState.ATTACHING:
        with site.locks.hold(row.instance, wait_s=0) as free:
            return "its beginning was cut short" if free else ""
    seen = site.engine.glimpse(row.instance)
    return over(snapshot, row, init=seen.init_pid if seen else None)


def _row(tx: Tx, row: Borrowing) -> Borrowing | None:
    return next((one for one in tx.records.borrowings if one.id == row.id), None)


def _gone_is_fine(do: partial[None]) -> None:
    try:
        do()
    except LxgpuError as error:
        if error.code != "unavailable":
            raise
