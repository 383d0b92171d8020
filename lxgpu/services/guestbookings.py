"""What a container may ask for: cards now or later, and its own reservations changed or withdrawn."""

from __future__ import annotations

from collections.abc import Collection

from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import Gpu
from lxgpu.model.request import ReserveRequest
from lxgpu.model.reservation import Reservation
from lxgpu.services import reserve as reserving
from lxgpu.services.contact import ASK, with_contact
from lxgpu.services.guesttimes import asked_time, changed_time
from lxgpu.services.guestviews import GuestAnswer, guest_reservation, reservation_line
from lxgpu.services.insider import Insider, text
from lxgpu.services.refusal import Asked


def reserve(
    me: Insider,
    *,
    gpus: int,
    seconds: int | None,
    at: str | None,
    model: str,
    until: str | None,
    weekly: bool,
    class_name: str,
    note: str,
) -> GuestAnswer:
    """Book cards, or queue for them; their beginning is the daemon's."""

    def act() -> reserving.Booked:
        start, duration_s = asked_time(me.site, at=at, until=until, seconds=seconds, weekly=weekly)
        request = ReserveRequest(
            me.name,
            me.owner,
            gpus,
            duration_s,
            at=start,
            weekly=weekly,
            model=model,
            class_name=class_name,
            note=_one_line(note),
        )
        return reserving.reserve(me.site, request, begin=False)

    booked = me.act(act, Asked(gpus, seconds))
    rows = tuple(guest_reservation(row) for row in booked.reservations)
    when = [f"the cards come at {me.show(booked.plan.when)}"] if booked.plan.when else []
    reasons = [reason.text for reason in booked.plan.reasons]
    series = [f"and {len(rows) - 1} more, one a week"] if len(rows) > 1 else []
    first = (reservation_line(row, me.show) for row in rows[:1])
    return GuestAnswer("done", text(*first, *series, *when, *reasons, *me.said, me.times), reservations=rows)


def may(me: Insider, *, gpus: int, cards: Collection[Gpu] | None) -> GuestAnswer:
    """Whether it can ever hold so many cards; errors: `over_limit`, `no_capacity` (of the host's `cards`, if known)."""
    policy = me.site.policy()
    groups = policy.groups_of(me.owner, me.site.unix_groups(me.owner))
    limit = policy.entitlement(me.owner, groups, me.site.clock.now()).limit
    if gpus > limit:
        fix = with_contact(f"ask for {limit} or fewer" if limit else ASK, policy.contact)
        raise LxgpuError("over_limit", f"{me.owner} may hold {_number(limit)}, and not {gpus}", fix=fix)
    if cards is not None and gpus > len(cards):
        fix = f"ask for {len(cards)} or fewer" if cards else with_contact(ASK, policy.contact)
        raise LxgpuError("no_capacity", f"this host has {_number(len(cards))}, and not {gpus}", fix=fix)
    return GuestAnswer("done", f"{_number(gpus)} may be held")


def edit(
    me: Insider,
    identifier: str,
    *,
    gpus: int | None,
    seconds: int | None,
    until: str | None,
    at: str | None,
    note: str | None,
) -> GuestAnswer:
    """Change what is still to come of one of its own reservations."""
    key = _own(me, identifier)

    def act() -> Reservation:
        begin, end = changed_time(me.site, reserving.find(me.site, key), at=at, until=until, seconds=seconds)
        words = None if note is None else _one_line(note)
        return reserving.edit(me.site, key, instance=me.name, begin=False, gpus=gpus, at=begin, until=end, note=words)

    row = guest_reservation(me.act(act))
    told = f"changed: {reservation_line(row, me.show)}"
    return GuestAnswer("done", text(told, *me.said, me.times), reservations=(row,))


def cancel(me: Insider, identifier: str) -> GuestAnswer:
    """Withdraw one of its own reservations."""
    key = _own(me, identifier)
    me.act(lambda: reserving.cancel(me.site, key, instance=me.name, begin=False))
    return GuestAnswer("done", text(f"{key} is cancelled", *me.said))


def _own(me: Insider, identifier: str) -> str:
    """The id of one of the container's open reservations, of which the beginning will do; error `not_found`."""
    own = [row.id for row in me.site.inventory.read().reservations if row.instance == me.name]
    found = [key for key in own if key == identifier] or [
        key for key in own if identifier and key.startswith(identifier)
    ]
    if len(found) != 1:
        what = f"{me.name} has no reservation {identifier}" if not found else f"{identifier} begins {len(found)} ids"
        raise LxgpuError("not_found", what, fix="gpu lists those there are")
    return found[0]


def _one_line(note: str) -> str:
    return " ".join(note.split())


def _number(gpus: int) -> str:
    return f"{gpus} GPU{'s' * (gpus != 1)}" if gpus else "no GPU"
