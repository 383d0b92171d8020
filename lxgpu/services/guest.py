"""What a container may do for itself: the same services as on the command line, in its owner's name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from lxgpu.errors import LxgpuError
from lxgpu.instants import show_instant, show_zoned
from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.request import ReserveRequest
from lxgpu.model.reservation import Reservation, ReservationState
from lxgpu.model.snapshot import Records, Snapshot
from lxgpu.ports import Tx
from lxgpu.services import observe
from lxgpu.services.begin import decided
from lxgpu.services.cardmemory import CardMemory
from lxgpu.services.cards import card_views
from lxgpu.services.contact import ASK, with_contact
from lxgpu.services.endings import about_ending, ends_now
from lxgpu.services.guestfix import inside
from lxgpu.services.guestreasons import GuestReasons, guest_reasons
from lxgpu.services.guesttimes import asked_time, changed_time
from lxgpu.services.guestviews import (
    GuestAnswer,
    GuestLink,
    GuestStatus,
    guest_reservation,
    guest_status,
    reservation_line,
)
from lxgpu.services.guestworld import World, looked
from lxgpu.services.headline import count
from lxgpu.services.lending import intend_release
from lxgpu.services.noticefile import read_notices
from lxgpu.services.reasons import about_container
from lxgpu.services.refusal import Asked, record_refusal
from lxgpu.services.report import instance_views
from lxgpu.services.reservationviews import InLine
from lxgpu.services.site import Site
from lxgpu.services.watch import Watch

T = TypeVar("T")

FRESH_S = 3.0
"""Of what LXD shows all containers share one look that is this old at most."""
LOCK_S = 5.0
NOTED_EVERY = timedelta(minutes=1)
"""Of a container's refusals one in so long goes into the history."""
_EVENTS = 1000
_KEPT_FROM = "bookings, guarantees, higher classes and the end of a lease count all the same"


class Guests:
    """The uses of a container's socket; `api.app.GuestUses`.

    `site` gives the site as it is now (with the policy in force), `wake` lets the daemon's next turn begin at once:
    what is written down here is carried out there.
    """

    def __init__(self, site: Callable[[], Site], wake: Callable[[], object]) -> None:
        self._site, self._wake = site, wake
        self._world: World | None = None
        self._line: tuple[float, int, Mapping[str, InLine]] = (0.0, -1, {})
        self._looking = threading.Lock()
        self._noted: dict[str, datetime] = {}
        self._watch = Watch()

    def status(self, name: str) -> GuestStatus:
        """What it holds, what it waits for, what is free."""
        site = self._site()
        world, policy, records = self._look(site), site.policy(), site.inventory.read()
        _known(records, name, policy.contact)
        now = site.clock.now()
        cards = card_views(records, world.seen, None, mode=lambda uuid: policy.rules.card(uuid).mode.value)
        return guest_status(
            records,
            name,
            count=count(cards.views, now),
            verdicts=world.verdicts,
            line=self._in_line(site, records, name),
            said=read_notices(site, records, name),
            timezone=policy.timezone,
            now=now,
            show=_show(site),
        )

    def why(self, name: str) -> GuestReasons:
        """How its present state came about, from its own history."""
        site = self._site()
        records, world = site.inventory.read(), self._look(site)
        row = _known(records, name)
        sightings = world.seen.sightings if world.seen else None
        view = next(view for view in instance_views(records, sightings, site.settings) if view.name == name)
        events, show = site.inventory.events(subject=name, limit=_EVENTS), _show(site)

        def known(identifier: str) -> Reservation | None:
            return records.reservation(identifier) or site.inventory.reservation(identifier)

        told = about_container(records, row, view, events, known=known, show=show, now=site.clock.now())
        return guest_reasons((*told, *about_ending(ends_now(site, records, row), row, show)), records, show)

    def release(self, name: str, *, gpus: int | None, busy: bool) -> GuestAnswer:
        """Write down that cards go back; the daemon's next turn takes them: rule, TERM, detach, KILL, fence."""
        site, _ = self._as(name)
        if not site.inventory.read().held_by(name):
            return GuestAnswer("done", "it holds no GPU")
        snapshot = observe.snapshot(site, readings=True)

        def write(tx: Tx, now: Snapshot) -> str | None:
            return intend_release(site, tx, now, name, count=gpus, busy=busy)

        with site.locks.hold(name, wait_s=LOCK_S) as mine:
            if not mine:
                raise LxgpuError("conflict", f"lxgpu is at work on {name} right now", fix="repeat in a moment")
            identifier = self._noting(site, name, lambda: decided(site, snapshot, write))
        self._wake()
        operation = site.inventory.operation(identifier) if identifier else None
        taken = operation.args.get("slots") if operation else None
        slots = tuple(str(slot) for slot in taken) if isinstance(taken, (list, tuple)) else ()
        return GuestAnswer("accepted", f"{_cards(len(slots))} on the way back", slots=slots)

    def extend(self, name: str, *, seconds: int) -> GuestAnswer:
        """Hold the cards for longer."""
        from lxgpu.services.extending import extend  # noqa: PLC0415 -- as the others below: loaded when asked for

        site, said = self._as(name)
        until = self._noting(site, name, lambda: extend(site, name, seconds=seconds))
        self._wake()
        return GuestAnswer("done", _text(f"yours until {_zoned(site, until)}", *said), until=until)

    def keep(self, name: str, *, seconds: int, reason: str) -> GuestAnswer:
        """Keep idle cards for a while."""
        from lxgpu.services.keeping import keep  # noqa: PLC0415 -- see extend

        site, said = self._as(name)
        row = self._noting(site, name, lambda: keep(site, name, seconds=seconds, reason=reason))
        self._wake()
        text = _text(f"until {_zoned(site, row.until)} no card of yours is taken for lying idle", *said, _KEPT_FROM)
        return GuestAnswer("done", text, until=row.until)

    def reserve(
        self,
        name: str,
        *,
        gpus: int,
        seconds: int | None,
        at: str | None,
        model: str,
        until: str | None = None,
        weekly: bool = False,
        class_name: str = "",
        note: str = "",
    ) -> GuestAnswer:
        """Book cards, or queue for them."""
        from lxgpu.services.reserve import Booked, reserve  # noqa: PLC0415 -- see extend

        site, said = self._as(name)
        owner = _known(site.inventory.read(), name).owner

        def act() -> Booked:
            start, duration_s = asked_time(site, at=at, until=until, seconds=seconds, weekly=weekly)
            request = ReserveRequest(
                name,
                owner,
                gpus,
                duration_s,
                at=start,
                weekly=weekly,
                model=model,
                class_name=class_name,
                note=" ".join(note.split()),
            )
            return reserve(site, request, begin=False)

        booked = self._noting(site, name, act, Asked(gpus, seconds))
        self._wake()
        show = _show(site)
        rows = tuple(guest_reservation(row) for row in booked.reservations)
        when = [f"the cards come at {show(booked.plan.when)}"] if booked.plan.when else []
        reasons = [reason.text for reason in booked.plan.reasons]
        series = [f"and {len(rows) - 1} more, one a week"] if len(rows) > 1 else []
        zone = f"times in {site.policy().timezone}"
        text = _text(*(reservation_line(row, show) for row in rows[:1]), *series, *when, *reasons, *said, zone)
        return GuestAnswer("done", text, reservations=rows)

    def may(self, name: str, *, gpus: int) -> GuestAnswer:
        """Whether it can ever hold so many cards; errors: `over_limit`, `no_capacity` (the host has fewer)."""
        site, _ = self._as(name)
        owner, policy = _known(site.inventory.read(), name).owner, site.policy()
        groups = policy.groups_of(owner, site.unix_groups(owner))
        limit = policy.entitlement(owner, groups, site.clock.now()).limit
        if gpus > limit:
            fix = with_contact(f"ask for {limit} or fewer" if limit else ASK, policy.contact)
            raise LxgpuError("over_limit", f"{owner} may hold {_number(limit)}, and not {gpus}", fix=fix)
        seen = self._look(site).seen
        if seen is not None and gpus > len(seen.gpus):
            fix = f"ask for {len(seen.gpus)} or fewer" if seen.gpus else with_contact(ASK, policy.contact)
            raise LxgpuError("no_capacity", f"this host has {_number(len(seen.gpus))}, and not {gpus}", fix=fix)
        return GuestAnswer("done", f"{_number(gpus)} may be held")

    def edit(
        self,
        name: str,
        identifier: str,
        *,
        gpus: int | None,
        seconds: int | None,
        until: str | None,
        at: str | None,
        note: str | None,
    ) -> GuestAnswer:
        """Change what is still to come of one of its own reservations."""
        from lxgpu.services.reserve import edit, find  # noqa: PLC0415 -- see extend

        site, said = self._as(name)
        key = _own(site, name, identifier)

        def act() -> Reservation:
            begin, end = changed_time(site, find(site, key), at=at, until=until, seconds=seconds)
            words = None if note is None else " ".join(note.split())
            return edit(site, key, instance=name, begin=False, gpus=gpus, at=begin, until=end, note=words)

        row = guest_reservation(self._noting(site, name, act))
        self._wake()
        text = _text(f"changed: {reservation_line(row, _show(site))}", *said, f"times in {site.policy().timezone}")
        return GuestAnswer("done", text, reservations=(row,))

    def cancel(self, name: str, identifier: str) -> GuestAnswer:
        """Withdraw one of its own reservations."""
        from lxgpu.services.reserve import cancel  # noqa: PLC0415 -- see extend

        site, said = self._as(name)
        key = _own(site, name, identifier)
        self._noting(site, name, lambda: cancel(site, key, instance=name, begin=False))
        self._wake()
        return GuestAnswer("done", _text(f"{key} is cancelled", *said))

    def web(self, name: str) -> GuestLink:
        """A one-time link to the page, for this container."""
        from lxgpu.services.visits import link  # noqa: PLC0415 -- see extend

        site, _ = self._as(name)
        made = link(site, name)
        return GuestLink(made.url, made.expires)

    def leave(self, name: str) -> GuestAnswer:
        """End all its sessions at the page, and the links to it that were not used yet."""
        from lxgpu.services.visits import close  # noqa: PLC0415 -- see extend

        number = close(self._as(name)[0], name)
        return GuestAnswer("done", f"{number} session{'s' * (number != 1)} and links of the page are over")

    def fault(self, name: str, error: Exception) -> None:
        """A fault of ours goes into the daemon's log."""
        self._site().say(f"a question of {name} met a fault in lxgpu: {type(error).__name__}: {error}")

    def _as(self, name: str) -> tuple[Site, list[str]]:
        """The site in the name of the container's owner, so that the history says who asked and from where.

        What it has to say beside the answer is collected.
        """
        site, said = self._site(), list[str]()
        owner = _known(site.inventory.read(), name).owner
        actor = f"{owner} (inside {name})"
        # What the daemon remembers of its looks is its own: it is at work in another thread.
        return replace(site, actor=actor, say=said.append, watch=Watch(), cards=CardMemory()), said

    def _look(self, site: Site) -> World:
        with self._looking:
            now = site.clock.monotonic()
            if self._world is None or now - self._world.at > FRESH_S:
                self._world = looked(replace(site, watch=self._watch), now)
            return self._world

    def _in_line(self, site: Site, records: Records, name: str) -> Mapping[str, InLine]:
        """Where those who wait stand, if the container is one of them; worked out once for all who ask now."""
        if not any(row.instance == name and row.state is ReservationState.WAITING for row in records.reservations):
            return {}
        from lxgpu.services.foresight import foreseen  # noqa: PLC0415 -- see extend
        from lxgpu.services.waitline import counts_since, line  # noqa: PLC0415 -- see extend

        with self._looking:
            asked = site.clock.monotonic()
            at, version, found = self._line
            if version != records.version or asked - at > FRESH_S:
                now, policy = site.clock.now(), site.policy()
                past = tuple(site.inventory.closed_since(counts_since(policy, now)))
                frees = foreseen(site.settings.run_dir, policy, now).frees
                found = line(records, policy, host=site.host, now=now, past=past, frees=frees)
                self._line = (asked, records.version, found)
            return found

    def _noting(self, site: Site, name: str, act: Callable[[], T], asked: Asked | None = None) -> T:
        """A refusal goes into the history, where `why` finds it; not each one of a caller who asks again and again."""
        try:
            return act()
        except LxgpuError as error:
            error.fix = inside(error.fix, name, site.policy().contact)
            now = site.clock.now()
            if name not in self._noted or now - self._noted[name] >= NOTED_EVERY:
                self._noted[name] = now
                record_refusal(site, error, name, asked)
            raise


def _known(records: Records, name: str, contact: str = "") -> Instance:
    """The container's row; error `not_ready` for one that is being made, suspended or deleted."""
    row = records.instance(name)
    if row is None or row.state is not InstanceState.READY:
        fix = f"your admin can: lxgpu show {name}"
        fix = with_contact(fix, contact) if contact else fix
        raise LxgpuError("not_ready", f"{name} is not in use as lxgpu knows it", fix=fix)
    return row


def _own(site: Site, name: str, identifier: str) -> str:
    """The id of one of the container's open reservations, of which the beginning will do; error `not_found`."""
    own = [row.id for row in site.inventory.read().reservations if row.instance == name]
    found = [key for key in own if key == identifier] or [
        key for key in own if identifier and key.startswith(identifier)
    ]
    if len(found) != 1:
        what = f"{name} has no reservation {identifier}" if not found else f"{identifier} begins {len(found)} ids"
        raise LxgpuError("not_found", what, fix="gpu lists those there are")
    return found[0]


def _text(*parts: str) -> str:
    return "; ".join(parts)


def _show(site: Site) -> Callable[[datetime], str]:
    now, zone = site.clock.now(), site.policy().zone
    return lambda at: show_instant(at, now=now, zone=zone)


def _zoned(site: Site, at: datetime) -> str:
    return show_zoned(at, now=site.clock.now(), zone=site.policy().zone)


def _number(gpus: int) -> str:
    return f"{gpus} GPU{'s' * (gpus != 1)}" if gpus else "no GPU"


def _cards(number: int) -> str:
    return "1 GPU is" if number == 1 else f"{number} GPUs are"
