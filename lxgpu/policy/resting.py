"""Cards that the queue gave and that lie idle: what others wait for is a lease from then on, not a booking; pure.

A booking ahead is for a time that somebody chose, and nothing of it is taken. Who asked for cards as soon as possible
has them to work with: those at work stay as firm, those at rest yield to who waits by the rule `idle`, and are warned.
What an admin ordered without a warning stays as it is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.changed import changed
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.model.rules import IdleWhen
from lxgpu.model.usage import NOT_JUDGED, IdleVerdict
from lxgpu.policy.closing import end
from lxgpu.policy.desk import Desk
from lxgpu.policy.pending import model_of, need_of
from lxgpu.policy.placement import fits
from lxgpu.policy.trimming import Grants

Wants = Mapping[str, Counter[str]]
"""How many cards of a model are waited for, by container."""


def let_rest(desk: Desk) -> None:
    """Running bookings from the queue lose cards at rest, the longest idle first, as far as others wait for them.

    Nobody's shrinks for a request that its owner may not have met, nor while enough cards lie idle that may be taken.
    """
    if desk.given.policy.rules.idle.when is not IdleWhen.NEEDED or not desk.given.verdicts:
        return
    running = {
        row.id: row for row in desk.mine((ReservationState.ACTIVE,)) if row.kind is Kind.BOOKING and not row.soft
    }
    idle = [
        item for item in desk.here() if item.state is AssignmentState.ACTIVE and _verdict(desk, item).takeable(desk.now)
    ]
    resting = [item for item in idle if (of := running.get(item.reservation or "")) and of.asap and not of.no_warning]
    if not resting:
        return
    wants = _wants(desk, {running[item.reservation or ""].pool for item in resting}, enough=len(idle))
    yielding = Counter(model_of(desk.given.seen, item) for item in idle if item.reservation not in running)
    let: defaultdict[str, list[Assignment]] = defaultdict(list)
    for item in sorted(resting, key=lambda one: (_verdict(desk, one).since or desk.now, one.slot)):
        row = running[item.reservation or ""]
        others = wants[row.pool].total() - wants[row.pool][row.instance]
        if others > yielding[row.pool]:
            yielding[row.pool] += 1
            let[row.id].append(item)
    for identifier, items in let.items():
        _shrink(desk, running[identifier], items)


def _wants(desk: Desk, pools: Collection[str], *, enough: int) -> Wants:
    """What waits and may be met; no longer looked for than until others than each one want enough."""
    grants, found = Grants(desk), {pool: Counter[str]() for pool in pools}
    for waits in (row for lane in desk.lanes().values() for row in lane):
        lacking = [pool for pool in pools if fits(pool, waits.model) and not _covered(found[pool], enough)]
        need = need_of(desk, waits) if lacking else None
        if need is not None and need.gpus > 0 and grants.allow(waits, need):
            for pool in lacking:
                found[pool][waits.instance] += need.gpus
    return found


def _covered(count: Counter[str], enough: int) -> bool:
    return bool(count) and count.total() - max(count.values()) >= enough


def _shrink(desk: Desk, row: Reservation, items: list[Assignment]) -> None:
    for item in items:
        desk.put(changed(item, reservation=None, until=item.until or row.until))
    left = row.gpus - len(items)
    if left > 0:
        desk.put(changed(row, gpus=left))
        desk.note("shrunk", row.instance, rule="idle", detail={"reservation": row.id, "gpus": left, "were": row.gpus})
    else:
        end(desk, row, ReservationState.FINISHED, "its cards lie idle and others wait: they are a lease until its end")


def _verdict(desk: Desk, item: Assignment) -> IdleVerdict:
    return desk.given.verdicts.get(item.slot, NOT_JUDGED)
