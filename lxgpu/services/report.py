"""Containers as values with fields, for commands that look at single ones; `listing` has the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lxgpu.model.instance import Limits, Sighting
from lxgpu.model.snapshot import Records
from lxgpu.services.listing import instance_items, public_host
from lxgpu.services.views import ClaimView, HeldView, IdleView, InstanceView, SshView

if TYPE_CHECKING:
    from lxgpu.config.settings import NetworkSettings, Settings


def instance_views(
    records: Records,
    sightings: Sequence[Sighting] | None,
    settings: Settings,
    *,
    trashed: bool = False,
    foreign: bool = False,
    idle: Mapping[str, dict[str, Any]] | None = None,
) -> tuple[InstanceView, ...]:
    """All containers by name; the arguments are those of `listing.instance_items`."""
    host = ssh_host(settings.network)
    items = instance_items(records, sightings, host, trashed=trashed, foreign=foreign, idle=idle)
    return tuple(_view(item) for item in items)


def ssh_host(network: NetworkSettings) -> str:
    """What people type after `ssh`: the address set, else the one listened on, else the host's own name."""
    return public_host(network.address, network.listen)


def _view(item: dict[str, Any]) -> InstanceView:
    limits = item["limits"]
    same = ("name", "owner", "host", "state", "kind", "disk_used_bytes", "created_at", "expires")
    rest = {key: item[key] for key in same}
    return InstanceView(
        class_=item["class"],
        gpus=tuple(HeldView(**held) for held in item["gpus"]),
        ssh=SshView(**item["ssh"]),
        limits=limits if isinstance(limits, Limits) else Limits(**limits),
        idle=_idle(item["idle"]),
        claims=tuple(ClaimView(**claim) for claim in item["claims"]),
        **rest,
    )


def _idle(item: Mapping[str, Any]) -> IdleView:
    since = item["since"]
    return IdleView(item["verdict"], datetime.fromisoformat(since) if isinstance(since, str) else since)
