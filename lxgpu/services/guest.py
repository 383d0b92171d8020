"""What a container may ask for: the same services as on the command line, in its owner's name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from lxgpu.instants import show_instant
from lxgpu.model.reservation import Reservation, ReservationState
from lxgpu.model.snapshot import Records
from lxgpu.services import guestbookings, guestcards
from lxgpu.services.endings import about_ending, ends_now
from lxgpu.services.explain import Show
from lxgpu.services.foresight import foreseen
from lxgpu.services.guestreasons import GuestReasons, guest_reasons
from lxgpu.services.guestviews import GuestAnswer, GuestLink, GuestStatus, guest_status
from lxgpu.services.guestworld import Looks
from lxgpu.services.headline import count
from lxgpu.services.insider import Insider, Noted, insider, known
from lxgpu.services.links import close, link
from lxgpu.services.noticefile import read_notices
from lxgpu.services.reasons import about_container
from lxgpu.services.report import instance_views
from lxgpu.services.reservationviews import InLine
from lxgpu.services.site import Site
from lxgpu.services.waitline import counts_since, line

LINE_S = 3.0
"""So long the line of those who wait is told as it was worked out, while nothing is written."""
_EVENTS = 1000


class Guests:
    """The uses of a container's socket: each is for the container named first, and raises `LxgpuError`.

    `site` gives the site as it is now (with the policy in force), `wake` lets the daemon's next turn begin at once:
    what is written down here is carried out there. Threads share it.
    """

    def __init__(self, site: Callable[[], Site], wake: Callable[[], object]) -> None:
        self._site, self._wake = site, wake
        self._looks = Looks()
        self._noted: Noted = {}
        self._line: tuple[float, int, Mapping[str, InLine]] = (0.0, -1, {})
        self._lining = threading.Lock()

    def status(self, name: str) -> GuestStatus:
        """What it holds, what it waits for, what is free."""
        site = self._site()
        policy, world = site.policy(), self._looks.now(site)
        records, now = world.records, site.clock.now()
        known(records, name, policy.contact)
        return guest_status(
            records,
            name,
            count=count(self._looks.cards(site, world).views, now),
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
        world = self._looks.now(site)
        records, seen = world.records, world.seen
        row = known(records, name)
        (view,) = instance_views(replace(records, instances=(row,)), seen.sightings if seen else None, site.settings)
        events, show = site.inventory.events(subject=name, limit=_EVENTS), _show(site)

        def found(identifier: str) -> Reservation | None:
            return records.reservation(identifier) or site.inventory.reservation(identifier)

        told = about_container(records, row, view, events, known=found, show=show, now=site.clock.now())
        return guest_reasons((*told, *about_ending(ends_now(site, records, row), row, show)), records, show)

    def release(self, name: str, *, gpus: int | None, busy: bool) -> GuestAnswer:
        """Give cards back; all of them for None, those in use only with `busy`."""
        return self._change(name, lambda me: guestcards.release(me, gpus=gpus, busy=busy))

    def extend(self, name: str, *, seconds: int) -> GuestAnswer:
        """Hold the cards for longer."""
        return self._change(name, lambda me: guestcards.extend(me, seconds=seconds))

    def keep(self, name: str, *, seconds: int, reason: str) -> GuestAnswer:
        """Keep idle cards for a while."""
        return self._change(name, lambda me: guestcards.keep(me, seconds=seconds, reason=reason))

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
        """Book cards for `seconds` or `until`; `at` is a time in the lab's zone, None for as soon as it can be."""
        return self._change(
            name,
            lambda me: guestbookings.reserve(
                me,
                gpus=gpus,
                seconds=seconds,
                at=at,
                model=model,
                until=until,
                weekly=weekly,
                class_name=class_name,
                note=note,
            ),
        )

    def may(self, name: str, *, gpus: int) -> GuestAnswer:
        """Whether it can ever hold so many cards; an error says why not."""
        site = self._site()
        seen = self._looks.now(site).seen
        return guestbookings.may(insider(site, name, self._noted), gpus=gpus, cards=seen.gpus if seen else None)

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
        """Change what is still to come of one of its own reservations; None: as it is. Another's is `not_found`."""
        return self._change(
            name,
            lambda me: guestbookings.edit(me, identifier, gpus=gpus, seconds=seconds, until=until, at=at, note=note),
        )

    def cancel(self, name: str, identifier: str) -> GuestAnswer:
        """Withdraw one of its own reservations; another's is `not_found`."""
        return self._change(name, lambda me: guestbookings.cancel(me, identifier))

    def web(self, name: str) -> GuestLink:
        """A one-time link to the page, for this container."""
        made = link(insider(self._site(), name, self._noted).site, name)
        return GuestLink(made.url, made.expires)

    def leave(self, name: str) -> GuestAnswer:
        """End all its sessions at the page, and the links to it that were not used yet."""
        number = close(insider(self._site(), name, self._noted).site, name)
        return GuestAnswer("done", f"{number} session{'s' * (number != 1)} and links of the page are over")

    def fault(self, name: str, error: Exception) -> None:
        """A fault of ours goes into the daemon's log."""
        self._site().say(f"a question of {name} met a fault in lxgpu: {type(error).__name__}: {error}")

    def _change(self, name: str, do: Callable[[Insider], GuestAnswer]) -> GuestAnswer:
        me = insider(self._site(), name, self._noted)
        before = me.site.inventory.read().version
        answer = do(me)
        if me.site.inventory.read().version != before:
            self._wake()
        return answer

    def _in_line(self, site: Site, records: Records, name: str) -> Mapping[str, InLine]:
        """Where those who wait stand, if the container is one of them; worked out once for all who ask now."""
        if not any(row.instance == name and row.state is ReservationState.WAITING for row in records.reservations):
            return {}
        with self._lining:
            asked = site.clock.monotonic()
            at, version, found = self._line
            if version != records.version or asked - at > LINE_S:
                now, policy = site.clock.now(), site.policy()
                past = tuple(site.inventory.closed_since(counts_since(policy, now)))
                frees = foreseen(site.settings.run_dir, policy, now).frees
                found = line(records, policy, host=site.host, now=now, past=past, frees=frees)
                self._line = (asked, records.version, found)
            return found


def _show(site: Site) -> Show:
    now, zone = site.clock.now(), site.policy().zone
    return lambda at: show_instant(at, now=now, zone=zone)
