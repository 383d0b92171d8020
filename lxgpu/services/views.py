"""What `ls`, `show` and others show of containers: the fields of the JSON schema `lxgpu.instances/v1`, no more.

Unknown is None everywhere, never zero. Times are UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from lxgpu.model.instance import Limits


@dataclass(frozen=True, slots=True)
class HeldView:
    """A card that a container holds; `slot` is the card's UUID, or UUID/part where a card is divided."""

    uuid: str | None
    pci: str | None
    model: str | None
    slot: str | None
    state: str
    since: datetime | None = None
    lease_until: datetime | None = None
    reservation: str | None = None


@dataclass(frozen=True, slots=True)
class SshView:
    """Where people log in."""

    host: str | None = None
    port: int | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True)
class IdleView:
    """Whether the cards are used: `busy`, `idle` or `unknown`; None: not judged yet."""

    verdict: str | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClaimView:
    """A right to get cards back that were taken; it dies at `dies`."""

    gpus: int
    model: str
    since: datetime
    dies: datetime | None


@dataclass(frozen=True, slots=True)
class InstanceView:
    """One container; `kind` is own, run (a throw-away one of `lxgpu run`), or None for one that is not lxgpu's.

    `state` is running, stopped, frozen or error as LXD says; creating, suspended, deleting or trashed as the
    inventory says; missing (the inventory has it, LXD does not), unreachable (LXD does not answer), foreign (not
    lxgpu's), lost (marked as lxgpu's, but not in the inventory); None for a passing state. `disk_used_bytes` is None
    unless LXD was asked for it.
    """

    name: str
    owner: str | None
    host: str | None
    state: str | None
    kind: str | None = None
    class_: str | None = None
    gpus: tuple[HeldView, ...] = ()
    ssh: SshView = field(default_factory=SshView)
    limits: Limits = field(default_factory=Limits)
    disk_used_bytes: int | None = None
    idle: IdleView = field(default_factory=IdleView)
    claims: tuple[ClaimView, ...] = ()
    created_at: datetime | None = None
    expires: datetime | None = None
