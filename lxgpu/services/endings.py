"""What the inventory knows of ends: what owners were told of them, and how long the trash was promised to stay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.reservation import Notice
from lxgpu.model.snapshot import EndTold, Observation, Records, Snapshot
from lxgpu.policy.expiry import Ending, concerned, emptied_at, ending_of
from lxgpu.ports import Inventory, Tx
from lxgpu.services import observe
from lxgpu.services.explain import ReasonView, Show
from lxgpu.services.site import Site

ENDS, GOES_ON = "expires", "goes_on"
TRASHED = "trashed"
_BEGINNINGS = frozenset({"resume", "brought_back", "created", "adopted"})
"""After these an owner is told anew: what was said before was of another time."""
_HISTORY = 200


def about_end(name: str) -> str:
    """What notices on the end of a container are about."""
    return f"end of {name}"


def with_ends(
    inventory: Inventory,
    snapshot: Snapshot,
    unix_groups: Callable[[str], frozenset[str]],
    *,
    told: Mapping[str, tuple[EndTold, ...]],
    rows: Iterable[Instance] | None = None,
) -> Snapshot:
    """A Snapshot that also says what `policy.expiry` looks at, for some containers; else for those it concerns soon."""
    snapshot = replace(snapshot, told_ends=told)
    chosen = list(concerned(snapshot) if rows is None else rows)
    groups = observe.groups_of(snapshot.policy, unix_groups, (row.owner for row in chosen))
    kept = {row.name: at for row in chosen if (at := _promised(inventory, row)) is not None}
    return replace(snapshot, unix_groups={**snapshot.unix_groups, **groups}, kept_until=kept)


def told_ends(inventory: Inventory, records: Records) -> Mapping[str, tuple[EndTold, ...]]:
    """What was told of the ends of containers in use, by container, oldest first."""
    ready = [row for row in records.instances if row.state is InstanceState.READY]
    found = ((row.name, _told(inventory, row)) for row in ready)
    return {name: told for name, told in found if told}


def remembered_ends(site: Site, records: Records) -> Mapping[str, tuple[EndTold, ...]]:
    """The same, asked for once in each version of the inventory."""
    known = site.watch.ends
    if known is None or known[0] != records.version:
        known = site.watch.ends = (records.version, told_ends(site.inventory, records))
    return known[1]


def ends_now(site: Site, records: Records, row: Instance) -> Snapshot:
    """What the end of one container depends on now."""
    seen = Observation(site.host, "", site.clock.now())
    snapshot = Snapshot(now=seen.at, records=records, seen=seen, policy=site.policy())
    told = remembered_ends(site, records)
    return with_ends(site.inventory, snapshot, site.unix_groups, told=told, rows=[row])


def promise_trash(site: Site, owner: str, deleted_at: datetime) -> datetime:
    """Until when what is deleted now is kept at least, whatever the policy says later."""
    policy = site.policy()
    groups = policy.groups_of(owner, observe.groups_of(policy, site.unix_groups, [owner]).get(owner, frozenset()))
    return deleted_at + timedelta(seconds=policy.entitlement(owner, groups, deleted_at).retain_s)


def note_promise(tx: Tx, trash: str, until: datetime) -> None:
    """Write down how long a container in the trash is kept."""
    tx.event(TRASHED, trash, rule="retain", detail={"kept_until": until.isoformat()})


def about_ending(snapshot: Snapshot, row: Instance, show: Show) -> tuple[ReasonView, ...]:
    """When a container ends, why, and whether its owner knows; nothing when it does not end by a date."""
    gone = emptied_at(snapshot, row)
    if gone is not None:
        return (ReasonView(row.name, "kept_until", f"it is removed for good after {show(gone)}"),)
    ending = ending_of(snapshot, row)
    return () if ending is None else (ReasonView(row.name, "ends", _in_words(ending, row, show), at=ending.told_at),)


def _in_words(ending: Ending, row: Instance, show: Show) -> str:
    whose = "its time" if ending.end == row.expires else f"{row.owner}'s time"
    verb = "ends" if ending.at == ending.end else "was set to end"
    told = f"told at {show(ending.told_at)}" if ending.told_at else "not told yet"
    return f"{whose} {verb} at {show(ending.end)} ({told}): it is suspended at {show(ending.at)}, its data stay"


def _told(inventory: Inventory, row: Instance) -> tuple[EndTold, ...]:
    said = [one for one in inventory.notices_about(about_end(row.name)) if one.kind in {ENDS, GOES_ON}]
    if not said:
        return ()
    begun = row.created_at
    for event in inventory.events(subject=row.name, since=said[0].created_at, limit=_HISTORY):
        if event.kind in _BEGINNINGS:
            begun = max(begun, event.at)
            break
    return tuple(_as_told(one) for one in said if one.created_at >= begun)


def _as_told(notice: Notice) -> EndTold:
    if notice.kind == GOES_ON:
        return EndTold(None, None, said_at=notice.created_at, at=notice.sent_at)
    end, until = (_instant(notice.facts.get(name)) for name in ("end", "until"))
    return EndTold(end, until, said_at=notice.created_at, at=notice.sent_at)


def _promised(inventory: Inventory, row: Instance) -> datetime | None:
    """Until when a container in the trash was promised to be kept, if that was noted when it came there."""
    if row.state is not InstanceState.TRASHED or row.deleted_at is None:
        return None
    events = inventory.events(subject=row.name, since=row.deleted_at, limit=_HISTORY)
    return next((_instant(event.detail.get("kept_until")) for event in events if event.kind == TRASHED), None)


def _instant(value: object) -> datetime | None:
    return datetime.fromisoformat(str(value)) if value else None
