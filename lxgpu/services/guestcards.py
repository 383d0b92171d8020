"""What a container may do with the cards that it holds: give them back, hold them for longer, keep idle ones."""

from __future__ import annotations

from lxgpu.errors import LxgpuError
from lxgpu.model.snapshot import Snapshot
from lxgpu.ports import Tx
from lxgpu.services import observe
from lxgpu.services.begin import decided
from lxgpu.services.extending import extend as extended
from lxgpu.services.guestviews import GuestAnswer
from lxgpu.services.insider import Insider, text
from lxgpu.services.keeping import keep as kept
from lxgpu.services.lending import intend_release

LOCK_S = 5.0
_KEPT_FROM = "bookings, guarantees, higher classes and the end of a lease count all the same"


def release(me: Insider, *, gpus: int | None, busy: bool) -> GuestAnswer:
    """Write down that cards go back; the daemon's next turn takes them: rule, TERM, detach, KILL, fence."""
    site = me.site
    if not site.inventory.read().held_by(me.name):
        return GuestAnswer("done", "it holds no GPU")
    snapshot = observe.snapshot(site, readings=True)

    def write(tx: Tx, now: Snapshot) -> str | None:
        return intend_release(site, tx, now, me.name, count=gpus, busy=busy)

    with site.locks.hold(me.name, wait_s=LOCK_S) as mine:
        if not mine:
            raise LxgpuError("conflict", f"lxgpu is at work on {me.name} right now", fix="repeat in a moment")
        identifier = me.act(lambda: decided(site, snapshot, write))
    operation = site.inventory.operation(identifier) if identifier else None
    taken = operation.args.get("slots") if operation else None
    slots = tuple(str(slot) for slot in taken) if isinstance(taken, (list, tuple)) else ()
    number = "1 GPU is" if len(slots) == 1 else f"{len(slots)} GPUs are"
    return GuestAnswer("accepted", f"{number} on the way back", slots=slots)


def extend(me: Insider, *, seconds: int) -> GuestAnswer:
    """Hold the cards for longer."""
    until = me.act(lambda: extended(me.site, me.name, seconds=seconds))
    return GuestAnswer("done", text(f"yours until {me.zoned(until)}", *me.said), until=until)


def keep(me: Insider, *, seconds: int, reason: str) -> GuestAnswer:
    """Keep idle cards for a while."""
    row = me.act(lambda: kept(me.site, me.name, seconds=seconds, reason=reason))
    told = f"until {me.zoned(row.until)} no card of yours is taken for lying idle"
    return GuestAnswer("done", text(told, *me.said, _KEPT_FROM), until=row.until)
