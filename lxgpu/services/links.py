"""One-time addresses of the page: links of containers and viewers, invitations for newcomers; made, and made void.

A pass is written first, then its line of history, and only then its text goes out: nobody has one that the history does
not know of, and none opens anything after the history says that it is over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import InstanceState
from lxgpu.model.names import check_person
from lxgpu.model.snapshot import Records
from lxgpu.services.passbook import passes_of
from lxgpu.services.passes import LIFE, LIVES, OF_CONTAINERS, Pass, PassKind, called, ended, issued, mark_of, new_text
from lxgpu.services.site import Site
from lxgpu.services.unknown import no_container

INVITE_LIFE, LONGEST_INVITE = LIFE[PassKind.INVITE], timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Address:
    """A one-time address of the page: whoever has it can use it, so it goes to that person alone. None: a viewer's."""

    name: str | None
    url: str
    expires: datetime


def link(site: Site, name: str = "") -> Address:
    """A one-time link for a container, or for a viewer without a name.

    Raises:
        LxgpuError: `not_found`; `not_allowed`: passes are root's.
    """
    text, made = _made(site, PassKind.LINK, name, link_mark(site, name), LIFE[PassKind.LINK])
    with site.write() as tx:
        tx.event("linked", name or site.host, detail={"until": made.expires.isoformat()})
    return Address(name or None, f"{site.settings.web.url}/in#{text}", made.expires)


def link_mark(site: Site, name: str) -> str:
    """What tells the container that a link is for from a later one of its name; empty for a viewer's link.

    Raises:
        LxgpuError: `not_found`, `not_ready`.
    """
    if not name:
        return ""
    records = site.inventory.read()
    row = records.instance(name)
    if row is None or row.state is InstanceState.TRASHED:
        raise no_container(records, name)
    if row.state not in LIVES:
        raise LxgpuError("not_ready", f"{name} is {row.state.value}", fix=f"lxgpu show {name}")
    return mark_of(row)


def close(site: Site, name: str = "") -> int:
    """End all sessions and links of a container, or those of all viewers without a name; gives how many there were."""
    now, records = site.clock.now(), site.inventory.read()
    with passes_of(site) as book:
        gone = theirs(records, book.passes, name)
        number = len(open_ones(gone, now))
        book.passes = tuple(one for one in book.passes if one not in gone)
    if number:
        with site.write() as tx:
            tx.event("page_closed", name or site.host, detail={"passes": number})
    return number


def theirs(records: Records, passes: Iterable[Pass], name: str) -> frozenset[Pass]:
    """The sessions and links of a container, or those of all viewers without a name."""
    return frozenset(one for one in passes if one.kind in OF_CONTAINERS and called(records, one) == name)


def open_ones(passes: Iterable[Pass], now: datetime) -> list[Pass]:
    """Those that still let somebody in."""
    return [one for one in passes if one.expires > now and one.kind is not PassKind.USED]


def check_life(person: str, life: timedelta) -> None:
    """Raise `usage` for an invitation that would open for too long."""
    if life > LONGEST_INVITE:
        what = f"an invitation opens for {LONGEST_INVITE.days} days at most"
        raise LxgpuError("usage", what, fix=f"lxgpu keys invite {person} --for 7d")


def invite(site: Site, person: str, *, life: timedelta = INVITE_LIFE) -> Address:
    """The address at which a newcomer brings a key, and until when; an earlier one of theirs is void.

    Raises:
        LxgpuError: `not_allowed`: passes are root's; `usage`: it would open for too long.
    """
    check_life(person, life)
    text, made = _made(site, PassKind.INVITE, check_person(person), "", life)
    with site.write() as tx:
        tx.event("invited", person, detail={"until": made.expires.isoformat()})
    return Address(person, f"{site.settings.web.url}/join#{text}", made.expires)


def withdraw(site: Site, person: str) -> bool:
    """Make a person's invitation void, one that took its key too; False when there was none."""
    with passes_of(site) as book:
        left = ended(ended(book.passes, PassKind.INVITE, person), PassKind.JOINED, person)
        gone, book.passes = len(left) < len(book.passes), left
    if gone:
        with site.write() as tx:
            tx.event("invite_withdrawn", person)
    return gone


def _made(site: Site, kind: PassKind, name: str, mark: str, life: timedelta) -> tuple[str, Pass]:
    text, now = new_text(), site.clock.now()
    with passes_of(site) as book:
        book.passes, made = issued(book.passes, text, kind, name=name, mark=mark, now=now, life=life)
    return text, made
