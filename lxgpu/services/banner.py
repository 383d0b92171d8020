"""The login banner: what is free, what you hold until when, and the present warning, in three lines.

It lies in the container's folder on the host, so that it is right also at a login in a full or half-dead system;
/etc/motd inside is a link to it. Beside it lies what is held in a few words, for prompts (`gpu --short`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime

from lxgpu.errors import LxgpuError
from lxgpu.instants import show_instant, show_zoned
from lxgpu.model.assignment import KEPT, Assignment, AssignmentState
from lxgpu.model.cardnames import n_asked, n_held
from lxgpu.model.gpu import WHOLE
from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.reservation import Kind
from lxgpu.model.snapshot import Observation, Records
from lxgpu.services.borrowwords import banner_line
from lxgpu.services.cards import card_views
from lxgpu.services.headline import count, headline
from lxgpu.services.noticefile import drop_void
from lxgpu.services.notices import LOCK
from lxgpu.services.noticewords import cards
from lxgpu.services.site import Site

FILE, SHORT = "banner", "short"
Show = Callable[[datetime], str]


def refresh_banner(
    site: Site,
    names: Iterable[str] | None = None,
    *,
    seen: Observation | None,
    trouble: Callable[[str], None] | None = None,
) -> int:
    """Write the banners of these containers, of all that are in use without `names`; gives how many changed.

    One of a single run has none, since nobody logs in. `seen` is what the host showed just now, None when LXD did not
    answer. A banner that cannot be written is said, to `trouble` where there is one, and stops nobody. The first line
    is about all cards: where one was lent or came back, all banners change.
    """
    records, policy, now = site.inventory.read(), site.policy(), site.clock.now()

    def show(at: datetime) -> str:
        return show_instant(at, now=now, zone=policy.zone)

    def zoned(at: datetime) -> str:
        return show_zoned(at, now=now, zone=policy.zone)

    views = card_views(records, seen, None, mode=lambda uuid: policy.rules.card(uuid).mode.value).views
    first, wanted, changed = headline(count(views, now), show), None if names is None else set(names), 0
    used = (row for row in records.instances if row.state in {InstanceState.CREATING, InstanceState.READY})
    for row in used:
        if not row.throw_away and (wanted is None or row.name in wanted):
            lines = {"headline": first, "holds": holds_line(records, row.name, now=now, show=show)}
            lines["warning"] = warning_line(records, row.name, show=zoned) or booked_line(records, row, show=show)
            try:
                text = site.texts.render("banner.txt.j2", instance=row, contact=policy.contact, **lines)
                changed += site.board.write(row.name, FILE, text)
                site.board.write(row.name, SHORT, short_line(records, row.name, now=now, show=show) + "\n")
            except LxgpuError as error:
                (trouble or site.say)(f"the login banner of {row.name} is as it was: {error.brief}")
    _tidy(site, records, wanted, trouble or site.say)
    return changed


def _tidy(site: Site, records: Records, wanted: set[str] | None, say: Callable[[str], None]) -> None:
    """What was told of times that are others now goes from the notices, unless somebody writes there at the moment."""
    with site.locks.hold(LOCK, wait_s=0) as free:
        for row in records.instances if free else ():
            if row.state is InstanceState.READY and not row.throw_away and (wanted is None or row.name in wanted):
                try:
                    drop_void(site, records, row.name)
                except LxgpuError as error:
                    say(f"old notices of {row.name} stay in its file: {error.brief}")


def holds_line(records: Records, name: str, *, now: datetime, show: Show) -> str:
    """`You hold 2 GPUs until 18:00, 1 without an end`, and what is owed."""
    held = [row for row in records.held_by(name) if row.state in KEPT]
    ends: defaultdict[datetime | None, list[str]] = defaultdict(list)
    for row in held:
        ends[row.until].append(row.slot.gpu)
    divided, parts = any(row.slot.part != WHOLE for row in held), list[str]()
    for until, slots in sorted(ends.items(), key=lambda item: (item[0] is None, item[0] or now)):
        number = n_held(slots) if divided or not parts else str(len(slots))
        parts.append(f"{number} {_end(until, now=now, show=show)}")
    owed = sum(row.gpus for row in records.reservations if row.instance == name and row.kind is Kind.RETURN)
    borrowed = banner_line(records, name)
    line = f"You hold {', '.join(parts) or 'no GPU'}" + (f"; {borrowed}" if borrowed else "")
    return f"{line}; {owed} will come back by {'itself' if owed == 1 else 'themselves'}" if owed else line


def short_line(records: Records, name: str, *, now: datetime, show: Show) -> str:
    """`2 GPUs until 18:00`, the nearest end where there are several; what is about to be taken goes before that."""
    held = [row for row in records.held_by(name) if row.state in KEPT]
    if not held:
        return "no GPU"
    text, taken = n_held(row.slot.gpu for row in held), [row for row in held if row.due_at]
    due = min((row.due_at for row in taken if row.due_at), default=None)
    if due:
        number = "" if text.endswith(" of a GPU") else f"{len(taken)} "  # of a part there is one, and it is said
        return f"{text}, {number}taken at {show(due)}"
    ends = sorted({row.until for row in held if row.until})
    return f"{text} {_end(ends[0], now=now, show=show)}" if ends else text


def _end(until: datetime | None, *, now: datetime, show: Show) -> str:
    if until is None:
        return "without an end"
    return f"until {show(until)}" if until > now else "until someone waits"


def warning_line(records: Records, name: str, *, show: Show) -> str:
    """What is about to be taken, and when; empty when nothing is."""
    rows = [row for row in records.held_by(name) if row.state is AssignmentState.WARNED]
    if not rows:
        return ""
    first = min(rows, key=_due)
    when = f" at {show(first.due_at)}" if first.due_at else ""
    return f"WARNING: {cards((row.slot.gpu for row in rows), records)} will be taken{when}; `gpu why` says why"


def _due(row: Assignment) -> tuple[bool, datetime]:
    return row.due_at is None, row.due_at or row.created_at


def booked_line(records: Records, instance: Instance, *, show: Show) -> str:
    """The next booking that is still to come; empty when there is none."""
    rows = [row for row in records.reservations if row.instance == instance.name and row.pending and row.start]
    if not rows:
        return ""
    start, row = min(((row.start, row) for row in rows if row.start), key=lambda pair: (pair[0], pair[1].id))
    what = n_asked(row.gpus, row.pool or row.model)
    return f"Booked: {what} from {show(start)}" + (f" until {show(row.until)}" if row.until else "")
