"""The first key of a newcomer, whom an invitation lets bring one, and what it shows them from then on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from lxgpu.config.keys import PublicKey, parse_keys
from lxgpu.errors import LxgpuError
from lxgpu.instants import format_utc
from lxgpu.policy.lookup import own_machine
from lxgpu.services import keys
from lxgpu.services.cardmemory import CardMemory
from lxgpu.services.contact import with_contact
from lxgpu.services.passbook import passes_of
from lxgpu.services.passes import LIVES, Pass, PassKind, brought_back, found, joined
from lxgpu.services.report import ssh_host
from lxgpu.services.site import Site
from lxgpu.services.views import SshView
from lxgpu.services.watch import Watch

Find = Callable[[str, PassKind], Pass | None]
"""The pass of a kind that a text opens, by what was read last."""


_LOOKED_BACK = 1000
"""Among so many of the newest keys that were added it is looked whether one is of them."""


@dataclass(frozen=True, slots=True)
class KeyTaken:
    """A newcomer's key is known now. `ssh` is where it lets them in, None while there is no container."""

    name: str
    fingerprint: str
    comment: str
    ssh: SshView | None
    text: str


@dataclass(frozen=True, slots=True)
class Invited:
    """A newcomer who was invited to bring a key, until when, and whom to ask; `taken` once it was brought."""

    name: str
    expires: datetime
    contact: str
    taken: KeyTaken | None = None


def invited(site: Site, find: Find, token: str) -> Invited:
    """Who an invitation is for, and what it shows by now; it is not used up.

    Raises:
        LxgpuError: `not_allowed`: it is over, or the key that it took was taken away.
    """
    after = find(token, PassKind.JOINED)
    mine = after or find(token, PassKind.INVITE)
    if mine is None:
        raise uninvited(site)
    return Invited(mine.name, mine.expires, site.policy().contact, shown(site, after) if after else None)


def take_key(site: Site, find: Find, token: str, key: str) -> KeyTaken:
    """Use an invitation up for one public key, which counts as if an admin had added it.

    Whoever sends the same key again, since the answer was lost on the way, is told the same again.

    Raises:
        LxgpuError: `bad_key` (the invitation still stands); `not_allowed`; what `keys.add` raises where it did not get
            as far as writing the key down (it stands too).
    """
    if find(token, PassKind.INVITE) is None and find(token, PassKind.JOINED) is None:
        raise uninvited(site)  # before anything is done that strangers could have done again and again
    given = parse_keys(key)
    if len(given) != 1:
        raise LxgpuError("bad_key", f"one key is wanted, and these are {len(given)}", fix="paste one line")
    before, after = _used_up(site, token, given[0])
    said = [] if _line(site, after) else _added(site, before, after, given[0])
    taken = shown(site, after)
    if taken is None:
        raise uninvited(site)
    return replace(taken, text="; ".join([taken.text, *said]))


def shown(site: Site, joined: Pass) -> KeyTaken | None:
    """What an invitation shows that took a key: how to log in, as soon as that is possible.

    None while the key is still to be written down, as where that was broken off.

    Raises:
        LxgpuError: `not_allowed`: the key was taken away since.
    """
    line = _line(site, joined)
    if line is None and _was_added(site, joined):
        raise uninvited(site)
    if line is None:
        return None
    ssh, contact = _way(site, joined.name), site.policy().contact
    later = f"this address shows how to log in once it is made, until {format_utc(joined.expires)}"
    kept = with_contact(f"your key is kept for your container, which your admin makes; {later}", contact)
    comment = parse_keys(line)[0].comment
    return KeyTaken(joined.name, joined.mark, comment, ssh, "your key is known" if ssh else kept)


def uninvited(site: Site) -> LxgpuError:
    """The error for a text that opens no invitation."""
    why = "it takes one key, and is over after some days"
    fix = with_contact("ask your admin for a new one", site.policy().contact)
    return LxgpuError("not_allowed", "this invitation is used up, or over", why=why, fix=fix)


def _used_up(site: Site, token: str, key: PublicKey) -> tuple[Pass, Pass]:
    """The invitation that a text opens, before and after it took the key, which alone it takes from then on."""
    now = site.clock.now()
    with passes_of(site) as book:
        mine = found(book.passes, token, PassKind.INVITE, now=now)
        if mine is not None:
            book.passes, after = joined(book.passes, mine, mark=key.fingerprint, now=now)
            return mine, after
        again = found(book.passes, token, PassKind.JOINED, now=now)
    if again is None or again.mark != key.fingerprint or (_line(site, again) is None and _was_added(site, again)):
        raise uninvited(site)
    return again, again


def _added(site: Site, before: Pass, after: Pass, key: PublicKey) -> list[str]:
    """Add the key; what there is to say of that."""
    said = list[str]()
    # What the daemon remembers of its looks is its own: it is at work in another thread.
    newcomers = replace(site, actor=f"{after.name} (invited)", say=said.append, watch=Watch(), cards=CardMemory())
    try:
        keys.add(newcomers, after.name, [key])
    except BaseException as error:
        if not isinstance(error, LxgpuError) or _line(site, after) is None:
            if before.kind is PassKind.INVITE:
                with passes_of(site) as book:
                    book.passes = brought_back(book.passes, before)
            raise
        said.append(f"it counts when your container starts next: {error.brief}")
    return said


def _line(site: Site, joined: Pass) -> str | None:
    """The key that an invitation took, as it is known; None where it is not."""
    rows = site.inventory.read().keys
    return next((row.line for row in rows if (row.person, row.fingerprint) == (joined.name, joined.mark)), None)


def _was_added(site: Site, joined: Pass) -> bool:
    """Whether the key was written down once: where it is not known now, somebody took it away."""
    added = site.inventory.events(kinds=("key_added",), limit=_LOOKED_BACK)
    return any((one.detail.get("person"), one.detail.get("key")) == (joined.name, joined.mark) for one in added)


def _way(site: Site, person: str) -> SshView | None:
    """Where a person logs in; None while they have no container."""
    records = site.inventory.read()
    known = records.person(person)
    own = own_machine(records.instances, person)
    if known is None or own is None or own.state not in LIVES:
        return None
    return SshView(host=ssh_host(site.settings.network), port=known.ssh_port, user=known.name)
