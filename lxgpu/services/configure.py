"""Bring one instance in LXD in line with the inventory."""

from __future__ import annotations

from collections.abc import Iterable

from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import Gpu, Slot
from lxgpu.model.instance import Sighting
from lxgpu.ports import Change
from lxgpu.services import instances
from lxgpu.services.identity import ensure_identity
from lxgpu.services.site import Site
from lxgpu.services.wanted import Picture, cards, full, raw_lxc


def picture(site: Site, name: str, *, gpus: tuple[Gpu, ...]) -> Picture:
    """All that decides how an instance must look."""
    records = site.inventory.read()
    instance = records.instance(name)
    person = records.person(instance.owner) if instance else None
    if instance is None or person is None:
        raise LxgpuError("not_found", f"the inventory has no instance {name}", fix="lxgpu ls lists those there are")
    profile = site.profile(instance.profile)
    policy = site.policy()
    groups = policy.groups_of(person.name, site.unix_groups(person.name))
    return Picture(
        instance=instance,
        person=person,
        assignments=records.held_by(name),
        borrowings=tuple(row for row in records.borrowings if row.instance == name),
        gpus=gpus,
        profile=profile,
        settings=site.settings,
        identity=records.identity or ensure_identity(site),
        keys=tuple(key.line for key in records.keys if key.person == person.name),
        data=policy.data_for(groups),
        nvidia=site.nvidia(profile),
        guest=site.guest(name),
    )


def configure(
    site: Site,
    wanted: Picture,
    *,
    operation: str,
    attached: Iterable[Slot] | None = None,
    first: Sighting | None = None,
) -> Sighting:
    """Make LXD show what the inventory says; `attached` defaults to all cards the instance may use.

    `first` is how the instance was seen a moment ago, with its ETag: the write is built on that, and LXD refuses it if
    anything has changed since. Gives a sighting, with its init, taken after it was true.
    """
    name, slots = wanted.instance.name, wanted.usable if attached is None else frozenset(attached)
    return instances.put(
        site,
        name,
        lambda now: full(wanted, now, attached=slots, operation=operation),
        read=instances.sighting,
        first=first,
    )


def renew_cards(site: Site, name: str, *, gpus: tuple[Gpu, ...]) -> None:
    """Make LXD show the cards that an instance has as they are now, and the rule with them; nothing else of it."""
    wanted = picture(site, name, gpus=gpus)

    def build(now: Sighting) -> Change:
        return Change(config={"raw.lxc": raw_lxc(wanted)}, devices=cards(wanted, now, wanted.usable))

    set_rule(site, wanted, instances.put(site, name, build, read=instances.sighting))


def set_rule(site: Site, wanted: Picture, seen: Sighting) -> None:
    """Let a running instance open its own cards and no other."""
    if seen.init_pid is not None:
        site.probe.set_rule(seen.init_pid, denied=wanted.denied(), allowed=wanted.allowed())
