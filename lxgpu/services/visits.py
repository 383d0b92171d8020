"""The page's door: who comes in by a link, who a session speaks for, and the key that a newcomer brings.

The page's process holds no power: each change is asked for with the session of the container that it is made for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from lxgpu.config.keys import parse_keys
from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.names import check_person
from lxgpu.model.snapshot import Records
from lxgpu.services.cardmemory import CardMemory
from lxgpu.services.contact import with_contact
from lxgpu.services.passbook import Passbook, PassReader, opened
from lxgpu.services.passes import LIFE, Pass, PassKind, brought_back, ended, found, issued, new_text, without
from lxgpu.services.report import ssh_host
from lxgpu.services.site import Site
from lxgpu.services.unknown import no_container
from lxgpu.services.views import SshView
from lxgpu.services.watch import Watch

PERSON, VIEWER = "person", "viewer"
INVITE_LIFE = LIFE[PassKind.INVITE]
_LIVES = frozenset({InstanceState.READY, InstanceState.SUSPENDED})
_OVER = "it opens once and for a short time; `gpu web` in your container prints a new one"


@dataclass(frozen=True, slots=True)
class Entered:
    """A link was taken: the `session` is for the browser alone. `name` is a container, None for a viewer."""

    session: str
    name: str | None
    kind: str
    expires: datetime


@dataclass(frozen=True, slots=True)
class Visitor:
    """Whom a session speaks for: a `person`'s container, or a `viewer`, who changes nothing and has no name."""

    name: str | None
    kind: str
    expires: datetime


@dataclass(frozen=True, slots=True)
class Invited:
    """A newcomer who was invited to bring a key, until when, and whom to ask."""

    name: str
    expires: datetime
    contact: str


@dataclass(frozen=True, slots=True)
class Address:
    """A one-time address of the page: whoever has it can use it, so it goes to that person alone. None: a viewer's."""

    name: str | None
    url: str
    expires: datetime


@dataclass(frozen=True, slots=True)
class KeyTaken:
    """A newcomer's key is known now. `ssh` is where it lets them in, None while there is no container."""

    name: str
    fingerprint: str
    ssh: SshView | None
    text: str


class Visits:
    """The uses of the page's door; `api.page.PageUses`. `site` gives the site as it is now."""

    def __init__(self, site: Callable[[], Site]) -> None:
        self._site = site
        self._reader = PassReader()

    def enter(self, token: str) -> Entered:
        """Use a link up for a session.

        Raises:
            LxgpuError: `not_allowed`: it was used already, is over, or its container is no more.
        """
        site, text = self._site(), new_text()
        now, life = site.clock.now(), LIFE[PassKind.SESSION]
        records = site.inventory.read()
        if found(self._reader.read(site.settings.state_dir), token, PassKind.LINK, now=now) is None:
            raise _used()  # before the lock is asked for, which strangers are not to hold up
        with _opened(site) as book:
            link = found(book.passes, token, PassKind.LINK, now=now)
            if link is None or not _stands(records, link):
                raise _used()
            name = _called(records, link)
            book.passes, made = issued(
                without(book.passes, link), text, PassKind.SESSION, name=name, mark=link.mark, now=now, life=life
            )
        return Entered(text, name or None, _kind(made), made.expires)

    def leave(self, session: str) -> None:
        """End a session; one that is over, or never was, is no error."""
        site = self._site()
        with _opened(site) as book:
            mine = found(book.passes, session, PassKind.SESSION, now=site.clock.now())
            if mine is not None:
                book.passes = without(book.passes, mine)

    def who(self, session: str) -> Visitor | None:
        """Whom a session speaks for now; None: nobody."""
        site = self._site()
        mine = found(self._reader.read(site.settings.state_dir), session, PassKind.SESSION, now=site.clock.now())
        records = site.inventory.read()
        if mine is None or not _stands(records, mine):
            return None
        return Visitor(_called(records, mine) or None, _kind(mine), mine.expires)

    def invited(self, token: str) -> Invited:
        """Who an invitation is for; it is not used up.

        Raises:
            LxgpuError: `not_allowed`: it was used already, or is over.
        """
        site = self._site()
        mine = found(self._reader.read(site.settings.state_dir), token, PassKind.INVITE, now=site.clock.now())
        if mine is None:
            raise _uninvited(site)
        return Invited(mine.name, mine.expires, site.policy().contact)

    def key(self, token: str, key: str) -> KeyTaken:
        """Use an invitation up for one public key, which counts as if an admin had added it.

        Raises:
            LxgpuError: `bad_key` (the invitation still stands); `not_allowed`; what `keys.add` raises where it did not
                get as far as writing the key down (it stands too).
        """
        from lxgpu.services import keys  # noqa: PLC0415 -- loaded when somebody comes

        site = self._site()
        given = parse_keys(key)
        if len(given) != 1:
            raise LxgpuError("bad_key", f"one key is wanted, and these are {len(given)}", fix="paste one line")
        mine = _used_up(site, token)
        said = list[str]()
        # What the daemon remembers of its looks is its own: it is at work in another thread.
        mine_site = replace(site, actor=f"{mine.name} (invited)", say=said.append, watch=Watch(), cards=CardMemory())
        try:
            keys.add(mine_site, mine.name, given)
        except BaseException as error:
            if not isinstance(error, LxgpuError) or not _known(site, mine.name, given[0].fingerprint):
                with _opened(site) as book:
                    book.passes = brought_back(book.passes, mine)
                raise
            said.append(f"it counts when your container starts next: {error.brief}")
        ssh = _way(site, mine.name)
        kept = with_contact("your key is kept for your container, which your admin makes", site.policy().contact)
        text = "your key is known" if ssh else kept
        return KeyTaken(mine.name, given[0].fingerprint, ssh, "; ".join([text, *said]))

    def fault(self, name: str, error: Exception) -> None:
        """A fault of ours goes into the daemon's log."""
        self._site().say(f"a question of the page ({name}) met a fault in lxgpu: {type(error).__name__}: {error}")


def link(site: Site, name: str = "") -> Address:
    """A one-time link for a container, or for a viewer without a name.

    Raises:
        LxgpuError: `not_found`; `not_allowed`: passes are root's.
    """
    mark = ""
    if name:
        records = site.inventory.read()
        row = records.instance(name)
        if row is None or row.state is InstanceState.TRASHED:
            raise no_container(records, name)
        if row.state not in _LIVES:
            raise LxgpuError("not_ready", f"{name} is {row.state.value}", fix=f"lxgpu show {name}")
        mark = _mark(row)
    text, made = _made(site, PassKind.LINK, name, mark, LIFE[PassKind.LINK])
    with site.write() as tx:
        tx.event("linked", name or site.host, detail={"until": made.expires.isoformat()})
    return Address(name or None, f"{site.settings.web.url}/in#{text}", made.expires)


def close(site: Site, name: str = "") -> int:
    """End all sessions and links of a container, or those of all viewers without a name; gives how many there were."""
    now, records = site.clock.now(), site.inventory.read()
    with _opened(site) as book:
        theirs = {one for one in book.passes if one.kind is not PassKind.INVITE and _called(records, one) == name}
        gone = [one for one in theirs if one.expires > now]
        book.passes = tuple(one for one in book.passes if one not in theirs)
    if gone:
        with site.write() as tx:
            tx.event("page_closed", name or site.host, detail={"passes": len(gone)})
    return len(gone)


def invite(site: Site, person: str, *, life: timedelta = INVITE_LIFE) -> Address:
    """The address at which a newcomer brings a key, and until when; an earlier one of theirs is void.

    Raises:
        LxgpuError: `not_allowed`: passes are root's.
    """
    text, made = _made(site, PassKind.INVITE, check_person(person), "", life)
    with site.write() as tx:
        tx.event("invited", person, detail={"until": made.expires.isoformat()})
    return Address(person, f"{site.settings.web.url}/join#{text}", made.expires)


def withdraw(site: Site, person: str) -> bool:
    """Make a person's invitation void; False when there was none."""
    with _opened(site) as book:
        left = ended(book.passes, PassKind.INVITE, person)
        gone, book.passes = len(left) < len(book.passes), left
    return gone


@contextmanager
def _opened(site: Site) -> Iterator[Passbook]:
    """The passes, to be changed; that all are over because their file broke stands in the history."""

    def lost(kept: Path) -> None:
        site.say(
            f"the file of the page's links, sessions and invitations was broken: all are over; it is kept as {kept}"
        )
        with site.write() as tx:
            tx.event("passes_lost", site.host, detail={"kept": str(kept)})

    with opened(site.settings.state_dir, lost) as book:
        yield book


def _made(site: Site, kind: PassKind, name: str, mark: str, life: timedelta) -> tuple[str, Pass]:
    text, now = new_text(), site.clock.now()
    with _opened(site) as book:
        book.passes, made = issued(book.passes, text, kind, name=name, mark=mark, now=now, life=life)
    return text, made


def _used_up(site: Site, token: str) -> Pass:
    """The invitation that a text opens, which nobody opens again."""
    with _opened(site) as book:
        mine = found(book.passes, token, PassKind.INVITE, now=site.clock.now())
        if mine is None:
            raise _uninvited(site)
        book.passes = without(book.passes, mine)
    return mine


def _used() -> LxgpuError:
    return LxgpuError("not_allowed", "this link is used up, or over", why=_OVER)


def _uninvited(site: Site) -> LxgpuError:
    why, fix = (
        "it takes one key, and is over after some days",
        with_contact("ask your admin for a new one", site.policy().contact),
    )
    return LxgpuError("not_allowed", "this invitation is used up, or over", why=why, fix=fix)


def _stands(records: Records, one: Pass) -> bool:
    """Whether a pass is a viewer's, or the container that it was given for lives."""
    row = _container(records, one)
    return not one.name or (row is not None and row.state in _LIVES)


def _called(records: Records, one: Pass) -> str:
    """What the container of a pass is called by now; empty for a viewer."""
    row = _container(records, one)
    return one.name if row is None else row.name


def _container(records: Records, one: Pass) -> Instance | None:
    """The container that a pass was given for, by its mark: it may have been renamed since."""
    return next((row for row in records.instances if one.mark and _mark(row) == one.mark), None)


def _mark(row: Instance) -> str:
    return row.uuid or row.created_at.isoformat()


def _kind(one: Pass) -> str:
    return PERSON if one.name else VIEWER


def _known(site: Site, person: str, fingerprint: str) -> bool:
    keys = site.inventory.read().keys
    return any((key.person, key.fingerprint) == (person, fingerprint) for key in keys)


def _way(site: Site, person: str) -> SshView | None:
    """Where a person logs in; None while they have no container."""
    records = site.inventory.read()
    known = records.person(person)
    if known is None or not any(row.owner == person and row.state in _LIVES for row in records.instances):
        return None
    return SshView(host=ssh_host(site.settings.network), port=known.ssh_port, user=known.name)
