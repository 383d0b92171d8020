"""Telling people: whoever decides writes a row into the outbox, and `send_due` sends it on every way there is.

Twice or not at all, after a crash? The quick ways come first: terminals, the notice file and the banner, which do no
harm when they are done twice. Then the row is marked as tried. Then come mail and channels, which so are never sent
twice: a crash in between costs the mail, and the row says that it was begun. A warning counts as given from that mark
on, with what became of it on each way.
"""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.instance import InstanceState, Power
from lxgpu.model.reservation import Notice
from lxgpu.model.snapshot import Records
from lxgpu.services.noticefile import write_notice
from lxgpu.services.noticekinds import NOTICES, Fact, problems
from lxgpu.services.noticemerge import Message, messages
from lxgpu.services.noticewords import message
from lxgpu.services.sections import fault
from lxgpu.services.site import Site

LOCK = "/notices"
"""No container can be called so; whoever holds it is sending."""
SENT = "sent"
WARNINGS = frozenset({"warned", "booking_missed"})
AT_ONCE = timedelta(seconds=5)
"""What is sent so soon after it was decided costs nobody any grace."""
BEGUN = "begun"
QUICK_S, SLOW_S = 8.0, 10.0
"""Real seconds for all terminals and files together, and for all mail and channels: what hangs is missed."""
_MOST_AT_ONCE = 32
_ADDRESS = re.compile(r"[^@\s,]+@[^@\s,]+")

Told = dict[str, str]
"""What became of one notice, by way."""
Item = TypeVar("Item")
Found = TypeVar("Found")


def notice(
    kind: str, *, instance: str, person: str, about: str = "", facts: Mapping[str, object], now: datetime
) -> Notice:
    """A row for the outbox; the facts are those that `noticekinds` lists for the kind.

    Raises:
        ValueError: no such kind, or a fact is missing (None where it may not be) or unknown.
    """
    if wrong := problems(kind, facts):
        raise ValueError(f"a notice with wrong facts: {'; '.join(wrong)}")
    values = {name: _json(form, facts.get(name)) for name, form in NOTICES[kind].facts.items()}
    identifier = uuid.uuid4().hex[:12]
    return Notice(identifier, kind, instance, person, created_at=now, about=about, facts=values)


def _json(form: Fact, value: object) -> object:
    match form:
        case Fact.INSTANT if isinstance(value, datetime):
            return value.isoformat()
        case Fact.GPUS if isinstance(value, Iterable) and not isinstance(value, str):
            return [str(item) for item in value]
        case _:
            return value


def send_due(site: Site) -> int:
    """Send what is not sent yet; gives how many notices were tried. It is bounded in time and raises for nobody's sake.

    While another process sends, this one leaves it to that.
    """
    if not site.inventory.read().notices:
        return 0
    with site.locks.hold(LOCK, wait_s=0) as free:
        if not free:
            return 0
        records = site.inventory.read()
        rows = sorted(records.notices, key=lambda row: (row.created_at, row.id))
        said = messages(rows)
        words = {one.spoken.id: message(site, one.spoken, records) for one in said}
        quick = _quick(site, records, [one.spoken for one in said], words)
        told = {row.id: quick[one.spoken.id] for one in said for row in one.rows}
        rows = _mark(site, rows, told)
    _slow(site, _left(said, rows), words, told)
    return len(rows)


# ---- terminals and files


def _quick(
    site: Site, records: Records, rows: Iterable[Notice], words: Mapping[str, tuple[str, str]]
) -> dict[str, Told]:
    """Terminals and files of all containers concerned, side by side, oldest notice first in each."""
    told: dict[str, Told] = {row.id: {} for row in rows}
    by_instance: dict[str, list[Notice]] = defaultdict(list)
    for row in rows:
        if row.instance:
            by_instance[row.instance].append(row)
    parts = _together(partial(_inside, site, records, words), list(by_instance.items()), limit_s=QUICK_S)
    for mine, part in zip(by_instance.values(), parts, strict=True):
        told |= {row.id: {"terminals": part} if isinstance(part, str) else part[row.id] for row in mine}
    return told


def _inside(
    site: Site, records: Records, words: Mapping[str, tuple[str, str]], mine: tuple[str, list[Notice]]
) -> dict[str, Told]:
    """The file first, since it never waits; then the terminals."""
    name, rows = mine
    found = records.instance(name)
    if found is None or found.state is InstanceState.TRASHED:
        return {row.id: {"terminals": "there is no such container"} for row in rows}
    told = {row.id: {"notice": write_notice(site, row, words[row.id][1])} for row in rows}
    init, why = _init(site, name)
    for row in rows:
        told[row.id]["terminals"] = why if init is None else _tell(site, init, words[row.id][1])
    return told


def _init(site: Site, name: str) -> tuple[int | None, str]:
    """The container's init, or why nobody can sit in it."""
    try:
        seen = site.engine.instance(name)
    except LxgpuError as error:
        return None, error.brief
    if seen is None or seen.init_pid is None or seen.power is Power.STOPPED:
        return None, "it does not run"
    return seen.init_pid, ""


def _tell(site: Site, init: int, text: str) -> str:
    try:
        told, missed = site.probe.tell(init, f"lxgpu: {text}")
    except LxgpuError as error:
        return error.brief
    return f"{told} told, {missed} missed"


# ---- the mark, then mail and channels


def _mark(site: Site, rows: Iterable[Notice], told: Mapping[str, Told]) -> list[Notice]:
    """The attempt is recorded; gives the rows as they stand now, without those that somebody else has dealt with."""
    now, marked = site.clock.now(), []
    with site.write() as tx:
        left = {row.id for row in tx.records.notices}
        for row in rows:
            if row.id in left:
                marked.append(replace(row, sent_at=now, outcome={**told[row.id], "channels": BEGUN}))
                detail = {"person": row.person, "about": row.about, **told[row.id]}
                tx.event("told", row.instance or row.person, rule=row.kind, detail=detail)
        tx.put(*marked)
        tx.put(*(row for notice in marked for row in _whole_grace(tx.records, notice)))
    return marked


def _whole_grace(records: Records, notice: Notice) -> Iterator[Assignment]:
    """A warning that was sent late leaves its grace whole: that runs from the attempt, not from the decision."""
    late = (notice.sent_at or notice.created_at) - notice.created_at
    if notice.kind not in WARNINGS or late <= AT_ONCE:
        return
    for row in records.held_by(notice.instance):
        # An admin's `--no-warning` gives none.
        if row.state is AssignmentState.WARNED and row.due_at is not None and row.due_at > notice.created_at:
            yield replace(row, due_at=row.due_at + late)


def _left(said: Iterable[Message], marked: Iterable[Notice]) -> list[Message]:
    """The messages with those of their rows that were marked here."""
    rows = {row.id: row for row in marked}
    left = (Message(one.spoken, tuple(rows[row.id] for row in one.rows if row.id in rows)) for one in said)
    return [one for one in left if one.rows]


def _slow(site: Site, said: list[Message], words: Mapping[str, tuple[str, str]], told: Mapping[str, Told]) -> None:
    """All mails and channels at once; what was not taken stands in the history too."""
    if not said:
        return
    parts = _together(partial(_send, site, words), [one.spoken for one in said], limit_s=SLOW_S)
    outcomes = [{"channels": part} if isinstance(part, str) else part for part in parts]
    with site.write() as tx:
        for one, found in zip(said, outcomes, strict=True):
            tx.put(*(replace(row, outcome={**told[row.id], **found}) for row in one.rows))
            if missed := {way: why for way, why in found.items() if why != SENT}:
                spoken = one.spoken
                tx.event("not_told", spoken.instance or spoken.person, rule=spoken.kind, detail=missed)


def _send(site: Site, words: Mapping[str, tuple[str, str]], row: Notice) -> Mapping[str, str]:
    subject, text = words[row.id]
    return site.notify.send(f"[lxgpu] {subject}", text, mail=_addresses(site, row))


def _addresses(site: Site, row: Notice) -> str | None:
    """The person's address, and the lab's contact where the kind is the admins' business too."""
    policy, found = site.policy(), []
    if row.person:  # their groups are not asked for: that may mean LDAP, and an address is nobody else's
        found.append(policy.entitlement(row.person, frozenset(), site.clock.now()).mail)
    if row.kind in NOTICES and NOTICES[row.kind].admins and _ADDRESS.fullmatch(policy.contact):
        found.append(policy.contact)
    return ",".join(dict.fromkeys(filter(None, found))) or None


def _together(work: Callable[[Item], Found], items: list[Item], *, limit_s: float) -> list[Found | str]:
    """Do it for all at once; in words why there is nothing: a fault, or no end by then, which is not waited for."""
    if not items:
        return []
    pool = ThreadPoolExecutor(max_workers=min(len(items), _MOST_AT_ONCE))
    try:
        parts = [pool.submit(work, item) for item in items]
        wait(parts, timeout=limit_s)
        return list(map(partial(_found, late=f"no answer within {limit_s:g} s"), parts))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _found(part: Future[Found], *, late: str) -> Found | str:
    """What one came to; one that failed costs its own notice's way, and nobody else's."""
    if not part.done() or part.cancelled():
        return late
    error = part.exception()
    if error is None:
        return part.result()
    if not isinstance(error, Exception):
        raise error  # the process is to end
    return fault("telling", error)
