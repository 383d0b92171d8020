"""What the commands about reservations have in common: the gathering, the columns, and what a person does next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from lxgpu.cli.bookingrows import KINDS, model_words, show_rows
from lxgpu.cli.news import say_pause, start_daemon
from lxgpu.cli.render import Column, Output
from lxgpu.figures import n_gpus, short_duration
from lxgpu.model.cardnames import n_asked
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.services.reservationviews import Ledger, ReservationView, likely, reservation_views

if TYPE_CHECKING:
    from lxgpu.cli.times import Times
    from lxgpu.errors import LxgpuError
    from lxgpu.model.plan import Plan
    from lxgpu.model.quota import Policy
    from lxgpu.services.reserve import Booked

PAST = timedelta(days=7)
"""How far `--all` looks back."""
_EVENTS = 1000
_OWED = {True: "; they have a claim to it", False: "", None: "; it is not taken yet"}
_LAST = 8
"""How many lines of history a sheet shows."""

KEEP_COLUMNS = (
    Column("ID", "id"),
    Column("CONTAINER", "instance"),
    Column("PERSON", "person"),
    Column("SINCE", "since"),
    Column("UNTIL", "until"),
    Column("REASON", "reason"),
)


def ledger(policy: Policy | None, *, now: datetime, over: bool = False, more: tuple[Reservation, ...] = ()) -> Ledger:
    """All reservations, with those that ended lately where `over`; nothing where there is no inventory.

    `more` are some that are not written: the line is told as if they were.
    """
    from lxgpu import hosts, wiring  # noqa: PLC0415 -- not for --help
    from lxgpu.services import looking, waitline  # noqa: PLC0415
    from lxgpu.services.foresight import foreseen  # noqa: PLC0415

    records = looking.records_of(lambda: wiring.inventory(read_only=True))
    if records.identity is None and not records.reservations:
        return Ledger(records, ())
    store = wiring.inventory(read_only=True)
    rows = store.reservations_since(now - PAST) if over else records.reservations
    return Ledger(
        records=records,
        rows=rows,
        events=tuple(store.events(limit=_EVENTS)) if rows else (),
        line=waitline.lines(
            replace(records, reservations=(*records.reservations, *more)),
            policy,
            {
                place.host: place.probe.readings
                for place in hosts.places({card.pci: card.uuid for card in records.cards})
            },
            now=now,
            past=store.closed_since(waitline.counts_since(policy, now)),
            frees=foreseen(wiring.settings().run_dir, policy, now).frees if policy else {},
        ),
    )


def ledger_of(policy: Policy | None, row: Reservation, *, now: datetime) -> Ledger:
    """One reservation with all that was written about it."""
    from lxgpu import wiring  # noqa: PLC0415
    from lxgpu.services import looking  # noqa: PLC0415

    events = looking.events_about_reservation(lambda: wiring.inventory(read_only=True), row.id, most=_EVENTS)
    return replace(ledger(policy, now=now), rows=(row,), events=tuple(events))


def sheet(found: Ledger, view: ReservationView, times: Times) -> Sequence[tuple[str, Sequence[str]]]:
    """Everything about one reservation, for people."""
    from lxgpu.cli.sheets import event_lines  # noqa: PLC0415

    place = found.line.get(view.id)
    span = f"{times.show(view.start)} until {times.show(view.end)}" if view.start and view.end else "not known yet"
    gave = [
        f"{one.uuid} from {one.instance}" + (f", rule {one.reason}" if one.reason else "") + _OWED[one.owed]
        for one in view.displaced
    ]
    number = [f"number {view.position}"] if view.position else []
    begins = [likely(times.show(view.estimate), foreseen=view.foreseen)] if view.estimate else []
    return (
        ("", [f"{view.id}: {view.state} {KINDS.get(view.kind, view.kind)} of {view.instance}"]),
        ("GPUs", [f"{view.gpus}, {model_words(view.model)}"]),
        ("time", [span]),
        ("class", [view.class_] if view.class_ else []),
        ("host", [view.host] if view.host else []),
        ("cards", list(view.slots)),
        ("taken", gave),
        ("in line", [", ".join([*number, *begins])] if number or begins else []),
        ("waits for", [place.why] if place and place.why else []),
        ("note", [view.note] if view.note else []),
        ("history", event_lines(found.events[:_LAST], times)),
    )


def views_for(rows: Iterable[ReservationView], instance: str | None) -> list[ReservationView]:
    """Those of one container, or all."""
    return [view for view in rows if instance is None or view.instance == instance]


def headline(views: Iterable[ReservationView]) -> str:
    """`2 running, 1 being prepared, 3 booked, 4 waiting`; empty when there are none."""
    words = {"active": "running", "preparing": "being prepared", "scheduled": "booked", "waiting": "waiting"}
    counts = {word: sum(view.state == state for view in views) for state, word in words.items()}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def rehearsed(out: Output, plan: Plan, times: Times, *, error: LxgpuError | None) -> None:
    """The end of --dry-run: the plan, and the error that the command itself would end with; to wait is no failure."""
    out.plan(plan, show=times.show, words={"waiting": "it waits"}, error=error)
    say_pause(out.screen, times)
    if error is not None:
        raise error


def rehearsed_reserve(out: Output, booked: Booked, times: Times, policy: Policy, *, what: str, fix: str) -> None:
    """The end of `reserve --dry-run`: the plan; of what must wait its place in the line, an estimate, and for what."""
    from lxgpu.model.plan import Verdict  # noqa: PLC0415
    from lxgpu.services.refusal import refusal  # noqa: PLC0415

    plan = booked.plan
    if plan.decision is not Verdict.WAITING:
        rehearsed(out, plan, times, error=refusal(plan, what, policy, fix=fix))
        return
    found = ledger(policy, now=times.now, more=booked.reservations)
    (view,) = reservation_views(replace(found, rows=booked.reservations))
    rehearsed(out, replace(plan, when=view.estimate), times, error=None)
    if not out.structured:
        place = found.line.get(view.id)
        out.screen.note(_waits(view, n_asked(view.gpus, view.model), times, place.why if place else ""))


def show_made(out: Output, rows: Sequence[Reservation], policy: Policy, times: Times) -> None:
    """Reservations that were just made or changed, and for people what they can do next."""
    from lxgpu import resident  # noqa: PLC0415

    found = ledger(policy, now=times.now)
    found = replace(found, rows=tuple(rows))
    views = reservation_views(found)
    show_rows(out, views, rows, times)
    say_pause(out.screen, times)
    if out.structured or not views:
        return
    place = found.line.get(views[0].id)
    first = next(row for row in rows if row.id == views[0].id)
    come = no_show_line(first, policy)
    why = place.why if place else ""
    for line in next_steps(views[0], times, running=resident.status().running, why=why, come=come):
        out.screen.note(line)
    if beside := other_bookings(first, found.records.reservations):
        out.screen.note(beside)
    if len(views) > 1:
        series = f"lxgpu reservation cancel {rows[0].id} --series"
        out.screen.note(f"{len(views)} weeks are booked, up to the horizon; {series} gives all of them up")


def other_bookings(row: Reservation, known: Iterable[Reservation]) -> str:
    """What the container has booked besides at that time: numbers of cards are each booking's own, and add up."""
    start, until = row.start, row.until
    others = [
        one
        for one in known
        if one.open
        and (one.instance, one.kind is Kind.RETURN) == (row.instance, False)
        and one.id != row.id
        and not (row.series and one.series == row.series)
        and (start is None or one.until is None or one.until > start)
        and (until is None or one.start is None or one.start < until)
    ]
    if not others:
        return ""
    number = sum(one.gpus for one in others)
    what = (
        f"another booking of {n_gpus(number)}"
        if len(others) == 1
        else f"{len(others)} other bookings of {n_gpus(number)}"
    )
    names = ", ".join(one.id for one in others)
    return f"{row.instance} has {what} then ({names}); together {number + row.gpus}"


def no_show_line(row: Reservation, policy: Policy, *, begun: bool = False) -> str:
    """What a booking asks of its person, with the time that the policy sets; empty for one that asks nothing (more).

    `begun` leaves out those that are still to come.
    """
    asks = row.state in {ReservationState.PREPARING, ReservationState.ACTIVE}
    asks |= row.state is ReservationState.SCHEDULED and not begun
    if row.kind is not Kind.BOOKING or not asks or row.used_at is not None:
        return ""
    time = short_duration(policy.rules.bookings.no_show_s)
    since = " of its start" if row.state is ReservationState.SCHEDULED else ""
    it, goes = ("it", "it goes") if row.gpus == 1 else ("them", "they go")
    return f"log in or use {it} within {time}{since}, or {goes} back"


def next_steps(view: ReservationView, times: Times, *, running: bool, why: str = "", come: str = "") -> list[str]:
    """What a person hears of a reservation they have just made, and what to do next.

    `running` says whether a daemon carries on by itself; `why` is what a waiting one waits for, `come` what it asks of
    its person.
    """
    cards, be = n_asked(view.gpus, view.model), "is" if view.gpus == 1 else "are"
    until = f" until {times.show(view.end)}" if view.end else ""
    match view.state:
        case "active":
            lines = [f"{view.instance} has {cards}{until}; lxgpu extend {view.instance} --for 1h makes it longer"]
        case "preparing":
            lines = [
                f"{cards} for {view.instance} {be} being got ready{_from(view)}; lxgpu why {view.id} tells how far"
            ]
        case "scheduled":
            start = times.show(view.start) if view.start else "a time to come"
            lines = [f"{cards} {be} booked for {view.instance} from {start}{until}"]
        case "waiting":
            lines = [_waits(view, cards, times, why), "it begins by itself; lxgpu reservations --queue shows the line"]
        case _:
            lines = [f"{view.id} is {view.state}"]
    lines += [come] if come else []
    if view.state in {"preparing", "scheduled", "waiting"}:
        lines.append(f"lxgpu reservation cancel {view.id} gives it up")
    if not running:
        lines.append(f"no daemon runs, so nothing begins or ends by itself: {start_daemon()}")
    return lines


def _waits(view: ReservationView, cards: str, times: Times, why: str) -> str:
    place = f"as number {view.position} in the line" if view.position else "in the line"
    begins = f", likely {likely(times.show(view.estimate), foreseen=view.foreseen)}" if view.estimate else ""
    return f"{cards} for {view.instance} wait{'s' * (view.gpus == 1)} {place}{begins}" + (f": {why}" if why else "")


def _from(view: ReservationView) -> str:
    names = list(dict.fromkeys(one.instance for one in view.displaced))
    return f" (from {', '.join(names)})" if names else ""
