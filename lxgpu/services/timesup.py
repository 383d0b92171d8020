"""Containers and people whose time is over: told ahead, then suspended; the trash is emptied in the end.

What is due is decided in `policy.expiry`; here it is written down, under the lock of the container concerned.
"""

from __future__ import annotations

from functools import partial

from lxgpu.model.instance import InstanceState
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.policy.expiry import Ending, Word, decide_expiry
from lxgpu.ports import Tx
from lxgpu.services.begin import new_operation
from lxgpu.services.ending import open_end
from lxgpu.services.endings import ENDS, GOES_ON, about_end, remembered_ends, with_ends
from lxgpu.services.notices import notice
from lxgpu.services.oneversion import on_one_version
from lxgpu.services.site import Site

THEN = "the container is stopped, its cards go back and its port closes; what is in it stays"


def end_in_time(site: Site, seen: Observation, *, steady_s: float, paused: bool = False) -> int:
    """Tell whom it concerns, and begin what is due; gives how many. Who advances the journal does the rest.

    `steady_s`: for so long nobody set the clock.
    """
    judge = partial(look_at_ends, site, seen, steady_s=steady_s)
    due = decide_expiry(judge(site.inventory.read()), paused=paused)
    if due.words:
        on_one_version(site, judge, _tell)
    begun = sum(_begin(site, one.instance, judge) for one in due.suspended)
    return len(due.words) + begun + sum(_begin(site, name, judge) for name in due.emptied)


def look_at_ends(site: Site, seen: Observation, records: Records, *, steady_s: float = 0.0) -> Snapshot:
    """Everything that the ends of containers depend on."""
    snapshot = Snapshot(now=site.clock.now(), records=records, seen=seen, policy=site.policy(), steady_s=steady_s)
    return with_ends(site.inventory, snapshot, site.unix_groups, told=remembered_ends(site, records))


def _tell(tx: Tx, now: Snapshot) -> None:
    for word in decide_expiry(now, paused=True).words:
        row = now.records.instance(word.instance)
        if row is not None:
            made = partial(notice, instance=row.name, person=row.owner, about=about_end(row.name), now=now.now)
            kind, facts = _facts(word)
            tx.put(made(kind, facts=facts))


def _facts(word: Word) -> tuple[str, dict[str, object]]:
    if word.ending is None:
        return GOES_ON, {"until": word.later}
    return ENDS, {"until": word.ending.at, "end": word.ending.end, "then": THEN}


def _begin(site: Site, name: str, judge: partial[Snapshot]) -> bool:
    """Write the beginning, unless another command has the container in hand, or it is not due any more by now."""
    with site.locks.hold(name, wait_s=0) as free:
        return free and on_one_version(site, judge, partial(_write, site, name))


def _write(site: Site, name: str, tx: Tx, now: Snapshot) -> bool:
    due = decide_expiry(now)
    ending = next((one for one in due.suspended if one.instance == name), None)
    if ending is not None:
        _suspend(site, tx, now, ending)
    elif name in due.emptied:
        tx.put(new_operation(site, kind="empty", instance=name))
        tx.event("expired", name, rule="retain")
    else:
        return False
    return True


def _suspend(site: Site, tx: Tx, now: Snapshot, ending: Ending) -> None:
    reason = f"its time ended on {ending.end.astimezone(now.policy.zone):%Y-%m-%d}"
    open_end(site, tx, now, ending.instance, kind="suspend", state=InstanceState.SUSPENDED, reason=reason)
    detail = {"reason": reason, "told_at": ending.told_at and ending.told_at.isoformat()}
    tx.event("expired", ending.instance, rule="until", detail=detail)
