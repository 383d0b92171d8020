"""Emptying a host for work on it: from a date on nobody is given its cards; who has some keeps them until given back.

What is meant is a file in the state directory, one entry a host; each tick closes what is due, in the way that
`lxgpu gpu close` does, so a host that is away is drained when it answers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from lxgpu.errors import LxgpuError, cannot_write
from lxgpu.model.assignment import Assignment, Card
from lxgpu.model.plan import Plan, PlannedStep, Verdict
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.plain import plain
from lxgpu.policy.divisions import cards_there
from lxgpu.policy.lookup import PROMISED
from lxgpu.ports import Tx
from lxgpu.services import observe
from lxgpu.services.begin import decided
from lxgpu.services.identity import ensure_identity, mirror_promises
from lxgpu.services.revive import revive
from lxgpu.services.site import Site

FILE = "drains.json"
MARK = "drained: "
"""How the reason begins for which a card is closed: these, and no others, `host open` opens again."""
LOCK = "@drains"
_LOCK_S = 10.0


@dataclass(frozen=True, slots=True)
class Drain:
    """What is meant for one host: from `at` on its cards are closed. `note` is for people."""

    host: str
    at: datetime
    by: str
    note: str


def drains(state_dir: Path) -> Mapping[str, Drain]:
    """What is meant, by host; error `unavailable` where the file cannot be read."""
    path = state_dir / FILE
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return {row["host"]: revive(Drain, row) for row in rows}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError) as error:
        fix = f"mend it, or remove it and drain anew: {path}"
        raise LxgpuError("unavailable", f"{path} cannot be read", why=str(error), fix=fix) from error


def plan_drain(site: Site, meant: Drain) -> Plan:
    """What will be closed when, and who is in the way; nothing is written."""
    snapshot = observe.snapshot(site)
    return Plan(decision=Verdict.GRANTED, steps=tuple(_steps(snapshot, meant)), when=meant.at)


def drain(site: Site, meant: Drain) -> None:
    """Have a host drained from its date on; one that is drained already has its new date and note."""
    with _changing(site) as known:
        known[site.host] = meant
    with site.write() as tx:
        tx.event("drain", site.host, detail={"at": meant.at.isoformat(), "note": meant.note})
    try:
        close_due(site)
    except LxgpuError as error:
        if error.code != "unavailable":
            raise
        site.say(f"{site.host} does not answer: its cards are unknown, and are closed when it does")


def undrain(site: Site) -> int:
    """Have a host in service again; gives how many cards were opened. Cards closed for other reasons stay closed."""
    with _changing(site) as known:
        known.pop(site.host, None)
    ensure_identity(site)
    opened: list[Card] = []

    def write(tx: Tx, now: Snapshot) -> None:
        opened[:] = [card for card in now.records.cards if card.closed.startswith(MARK)]
        tx.put(*(replace(card, closed="", closed_by="", closed_at=None) for card in opened))
        for card in opened:
            tx.event("opened", card.uuid, rule="undrained", detail={"gpu": card.uuid, "proven": False})

    decided(site, observe.snapshot(site), write)
    if opened:
        mirror_promises(site)
    return len(opened)


def plan_undrain(site: Site) -> Plan:
    """What opening the host would open; nothing is written."""
    closed = (card for card in site.inventory.read().cards if card.closed.startswith(MARK))
    steps = tuple(PlannedStep("open", "", gpu=card.uuid, why=f"closed by {card.closed_by}") for card in closed)
    return Plan(decision=Verdict.GRANTED, steps=steps)


def close_due(site: Site, seen: Observation | None = None) -> int:
    """Close what a drain that is due leaves open, by what was `seen`; gives how many cards that were."""
    meant = drains(site.settings.state_dir).get(site.host)
    if meant is None or meant.at > site.clock.now():
        return 0
    ensure_identity(site)
    snapshot = observe.of(site, seen or observe.look(site), site.inventory.read())
    if not _open(snapshot):
        return 0
    closed: list[Card] = []

    def write(tx: Tx, now: Snapshot) -> None:
        closed[:] = _open(now)
        reason = f"{MARK}{meant.note or 'the host is emptied'}"
        tx.put(*(replace(card, closed=reason, closed_by=meant.by, closed_at=now.now) for card in closed))
        for card in closed:
            tx.event("closed", card.uuid, rule="drained", detail={"gpu": card.uuid, "reason": reason})

    decided(site, snapshot, write)
    mirror_promises(site)
    return len(closed)


def _open(snapshot: Snapshot) -> list[Card]:
    known = {card.uuid: card for card in snapshot.records.cards}
    there = {card.uuid: card for card in cards_there(snapshot)}
    return [card for card in {**known, **there}.values() if not card.closed]


def _steps(snapshot: Snapshot, meant: Drain) -> Iterator[PlannedStep]:
    at = meant.at if meant.at > snapshot.now else None
    for card in _open(snapshot):
        rows = [row for row in snapshot.records.assignments if row.live and row.slot.card == card.uuid]
        kept = f"kept until it is given back, at the latest {_last(rows)}" if rows else meant.note
        yield PlannedStep("close", ", ".join(sorted({row.instance for row in rows})), gpu=card.uuid, at=at, why=kept)
    yield from _at_risk(snapshot.records, meant)


def _last(rows: Sequence[Assignment]) -> str:
    ends = [row.until for row in rows]
    known = [end for end in ends if end is not None]
    return f"{max(known):%Y-%m-%d %H:%M} UTC" if len(known) == len(ends) else "at no known time"


def _at_risk(records: Records, meant: Drain) -> Iterator[PlannedStep]:
    """Bookings that want cards of the host when it has none to give any more."""
    for row in records.reservations:
        if row.state in PROMISED and row.until is not None and row.until > meant.at:
            why = f"reservation {row.id} of {row.gpus} GPUs until {row.until:%Y-%m-%d %H:%M} UTC"
            yield PlannedStep("at risk", row.instance, at=row.start, why=why)


@contextmanager
def _changing(site: Site) -> Iterator[dict[str, Drain]]:
    """What is meant, to be changed; written as a whole when all went well."""
    folder = site.settings.state_dir
    with site.locks.hold(LOCK, wait_s=_LOCK_S) as held:
        if not held:
            raise LxgpuError("conflict", "another lxgpu changes which hosts are drained", fix="repeat in a moment")
        known = dict(drains(folder))
        yield known
        aside = folder / f".{FILE}.{os.getpid()}"
        try:
            aside.write_text(json.dumps(plain(list(known.values()))), encoding="utf-8")
            aside.replace(folder / FILE)
        except OSError as error:
            raise cannot_write(folder / FILE, error) from error
