"""Who asks inside a container: in whose name it is done, and what becomes of a refusal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from lxgpu.errors import LxgpuError
from lxgpu.instants import show_instant, show_zoned
from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.snapshot import Records
from lxgpu.services.cardmemory import CardMemory
from lxgpu.services.contact import with_contact
from lxgpu.services.guestfix import inside
from lxgpu.services.refusal import Asked, record_refusal
from lxgpu.services.site import Site
from lxgpu.services.watch import Watch

T = TypeVar("T")

NOTED_EVERY = timedelta(minutes=1)
"""Of a container's refusals one in so long goes into the history."""
Noted = dict[str, datetime]
"""When a refusal of a container was noted last."""


@dataclass(frozen=True, slots=True)
class Insider:
    """A container that asks. `site` acts in its owner's name, so that the history says who asked and from where.

    `said` is what services have to say beside the answer.
    """

    site: Site
    name: str
    owner: str
    noted: Noted
    said: list[str] = field(default_factory=list)

    def act(self, do: Callable[[], T], asked: Asked | None = None) -> T:
        """Do it. A refusal goes into the history, where `why` finds it; not each one of a caller who asks on and on."""
        try:
            return do()
        except LxgpuError as error:
            error.fix = inside(error.fix, self.name, self.site.policy().contact)
            now = self.site.clock.now()
            last = self.noted.get(self.name)
            if last is None or not last <= now < last + NOTED_EVERY:  # a clock that was set back hides nothing
                self.noted[self.name] = now
                record_refusal(self.site, error, self.name, asked)
            raise

    def show(self, at: datetime) -> str:
        """An instant in the lab's zone."""
        return show_instant(at, now=self.site.clock.now(), zone=self.site.policy().zone)

    def zoned(self, at: datetime) -> str:
        """The same with the zone's name."""
        return show_zoned(at, now=self.site.clock.now(), zone=self.site.policy().zone)

    @property
    def times(self) -> str:
        """In which zone times are told."""
        return f"times in {self.site.policy().timezone}"


def insider(site: Site, name: str, noted: Noted) -> Insider:
    """Who asks in a container, with the site in the name of its owner; error `not_ready`."""
    owner = known(site.inventory.read(), name).owner
    said = list[str]()
    # What the daemon remembers of its looks is its own: it is at work in another thread.
    mine = replace(site, actor=f"{owner} (inside {name})", say=said.append, watch=Watch(), cards=CardMemory())
    return Insider(mine, name, owner, noted, said)


def known(records: Records, name: str, contact: str = "") -> Instance:
    """The container's row; error `not_ready` for one that is being made, suspended or deleted."""
    row = records.instance(name)
    if row is None or row.state is not InstanceState.READY:
        fix = f"your admin can: lxgpu show {name}"
        fix = with_contact(fix, contact) if contact else fix
        raise LxgpuError("not_ready", f"{name} is not in use as lxgpu knows it", fix=fix)
    return row


def text(*parts: str) -> str:
    """Several things to say, as one line."""
    return "; ".join(parts)
