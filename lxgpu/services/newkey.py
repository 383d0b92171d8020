"""The first key of a newcomer, whom an invitation lets bring one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lxgpu.config.keys import PublicKey, parse_keys
from lxgpu.errors import LxgpuError
from lxgpu.services import keys
from lxgpu.services.cardmemory import CardMemory
from lxgpu.services.contact import with_contact
from lxgpu.services.passbook import passes_of
from lxgpu.services.passes import LIVES, Pass, PassKind, brought_back, found, used
from lxgpu.services.report import ssh_host
from lxgpu.services.site import Site
from lxgpu.services.views import SshView
from lxgpu.services.watch import Watch

Find = Callable[[str, PassKind], Pass | None]
"""The pass of a kind that a text opens, by what was read last."""


@dataclass(frozen=True, slots=True)
class KeyTaken:
    """A newcomer's key is known now. `ssh` is where it lets them in, None while there is no container."""

    name: str
    fingerprint: str
    ssh: SshView | None
    text: str


def take_key(site: Site, find: Find, token: str, key: str) -> KeyTaken:
    """Use an invitation up for one public key, which counts as if an admin had added it.

    Whoever sends the same key again, since the answer was lost on the way, is told the same again.

    Raises:
        LxgpuError: `bad_key` (the invitation still stands); `not_allowed`; what `keys.add` raises where it did not get
            as far as writing the key down (it stands too).
    """
    if find(token, PassKind.INVITE) is None and find(token, PassKind.USED) is None:
        raise uninvited(site)  # before anything is done that strangers could have done again and again
    given = parse_keys(key)
    if len(given) != 1:
        raise LxgpuError("bad_key", f"one key is wanted, and these are {len(given)}", fix="paste one line")
    mine = _used_up(site, token, given[0])
    said = list[str]()
    if not (mine.kind is PassKind.USED and _known(site, mine.name, given[0])):
        said += _added(site, mine, given[0])
    ssh = _way(site, mine.name)
    kept = with_contact("your key is kept for your container, which your admin makes", site.policy().contact)
    text = "your key is known" if ssh else kept
    return KeyTaken(mine.name, given[0].fingerprint, ssh, "; ".join([text, *said]))


def uninvited(site: Site) -> LxgpuError:
    """The error for a text that opens no invitation."""
    why = "it takes one key, and is over after some days"
    fix = with_contact("ask your admin for a new one", site.policy().contact)
    return LxgpuError("not_allowed", "this invitation is used up, or over", why=why, fix=fix)


def _used_up(site: Site, token: str, key: PublicKey) -> Pass:
    """The invitation that a text opens, which from now on takes that key alone."""
    with passes_of(site) as book:
        mine = found(book.passes, token, PassKind.INVITE, now=site.clock.now())
        if mine is not None:
            book.passes = used(book.passes, mine, mark=key.fingerprint)
            return mine
        before = found(book.passes, token, PassKind.USED, now=site.clock.now())
    if before is None or before.mark != key.fingerprint:
        raise uninvited(site)
    return before


def _added(site: Site, mine: Pass, key: PublicKey) -> list[str]:
    """Add the key; what there is to say of that."""
    said = list[str]()
    # What the daemon remembers of its looks is its own: it is at work in another thread.
    newcomers = replace(site, actor=f"{mine.name} (invited)", say=said.append, watch=Watch(), cards=CardMemory())
    try:
        keys.add(newcomers, mine.name, [key])
    except BaseException as error:
        if not isinstance(error, LxgpuError) or not _known(site, mine.name, key):
            if mine.kind is PassKind.INVITE:
                with passes_of(site) as book:
                    book.passes = brought_back(book.passes, mine)
            raise
        said.append(f"it counts when your container starts next: {error.brief}")
    return said


def _known(site: Site, person: str, key: PublicKey) -> bool:
    rows = site.inventory.read().keys
    return any((row.person, row.fingerprint) == (person, key.fingerprint) for row in rows)


def _way(site: Site, person: str) -> SshView | None:
    """Where a person logs in; None while they have no container."""
    records = site.inventory.read()
    known = records.person(person)
    if known is None or not any(row.owner == person and row.state in LIVES for row in records.instances):
        return None
    return SshView(host=ssh_host(site.settings.network), port=known.ssh_port, user=known.name)
