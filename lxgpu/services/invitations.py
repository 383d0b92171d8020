"""Which invitations there are: who may bring a key, and who did and reads at the same address how to log in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lxgpu.services.passbook import passes_of, read_passes
from lxgpu.services.passes import PassKind, taken_back
from lxgpu.services.site import Site

OPEN, USED = "open", "used"
_STATES = {PassKind.INVITE: OPEN, PassKind.JOINED: USED}


@dataclass(frozen=True, slots=True)
class InvitationView:
    """One invitation: schema `lxgpu.invitations/v1`. `open` takes a key, `used` has taken one and shows the way in."""

    person: str
    state: str
    expires: datetime


def views(state_dir: Path, now: datetime) -> tuple[InvitationView, ...]:
    """The invitations that still open something, by person.

    Raises:
        LxgpuError: `not_allowed`: passes are root's.
    """
    mine = [one for one in read_passes(state_dir) if one.kind in _STATES and one.expires > now]
    order = sorted(mine, key=lambda one: (one.name, one.kind))
    return tuple(InvitationView(one.name, _STATES[one.kind], one.expires) for one in order)


def end_invitation(site: Site, person: str, fingerprint: str) -> None:
    """End the invitation by which a person brought the key of that fingerprint, if there is one.

    Raises:
        LxgpuError: `not_allowed`, `inventory_storage`: the passes cannot be read or written.
    """
    there = read_passes(site.settings.state_dir)
    if taken_back(there, person, fingerprint) != there:
        with passes_of(site) as book:
            book.passes = taken_back(book.passes, person, fingerprint)


def open_until(site: Site, person: str) -> datetime | None:
    """Until when a person may bring a key; None: there is no invitation that takes one. Raises as `views`."""
    there = views(site.settings.state_dir, site.clock.now())
    return next((one.expires for one in there if (one.person, one.state) == (person, OPEN)), None)
