"""Taking cards from an instance that lives on: rule, TERM, detach, KILL, fence, in this order.

The rule comes first, so that nothing new opens the card; KILL comes after the detach, so that a restart loop finds
nothing; only a proven card is closed. Each function is a step: idempotent, and never waiting by itself.
"""

from __future__ import annotations

import signal
from datetime import datetime, timedelta
from functools import partial

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import AssignmentState, SlotRecord
from lxgpu.model.gpu import Gpu, Slot
from lxgpu.model.instance import InstanceState, Sighting
from lxgpu.model.layout import looked_at
from lxgpu.ports import Holders, Process
from lxgpu.services import borrowed, fence, hooks, parking, slots
from lxgpu.services.configure import configure, picture, set_rule
from lxgpu.services.identity import mirror_promises
from lxgpu.services.recipes import Step, Wait, Work
from lxgpu.services.wanted import Picture

REST_S = 10.0
"""A container that reboots from inside is down for a moment, and LXD starts it again with the devices and the rule
that it had in hand when it went down (ran, and read in LXD's source): a write made in that moment changes nothing of
what comes up. Only one that has been down for so long stays down."""


def taken(work: Work) -> tuple[Slot, ...]:
    """The slots that this operation takes."""
    return tuple(Slot(text) for text in work.texts("slots"))


def deny(work: Work) -> None:
    """The device rule back: from here on nothing in the container can open the cards anew."""
    for _ in range(2):  # one that went down since it was seen may be up again already
        seen = there(work)
        if seen is None:
            return
        if _ruled(work, picture(work.site, work.name, gpus=work.gpus()), seen):
            work.left = seen
            return


def terminate(work: Work) -> Wait | None:
    """TERM to everything that holds the cards, once; then time to end by itself. Own script and parking come first."""
    work.left = seen = there(work)
    waiting = hooks.before_release(work, seen.init_pid if seen else None)
    if waiting is not None:
        return waiting
    site, held = work.site, _holders(work, still=False)
    if not held:
        work.calm = True
        return None
    waiting = None if work.flag("termed") else parking.park(work, _processes(held))
    if waiting is not None:
        return waiting
    if not work.flag("termed"):
        for process in _processes(held):
            site.probe.signal(process, signal.SIGTERM)
        work.note(termed=True)
    until = work.deadline(work.seconds("term_wait_s"))
    return None if site.clock.now() >= until else Wait(until)


def detach(work: Work) -> Wait | None:
    """The cards leave the container's devices, and with them their nodes; and no start under way brings them back.

    Done when, after the write, the rule stands in a container that lives on, or one that is down stays down.
    """
    site, mine = work.site, set(taken(work))
    first = there(work)
    if first is not None:
        wanted = picture(site, work.name, gpus=work.gpus())
        seen = configure(site, wanted, operation=work.operation.id, attached=wanted.usable - mine, first=first)
        if not (_ruled(work, wanted, seen) and _lives(work, seen) if seen.init_pid else at_rest(work)):
            return _patience(work)
        work.left = seen
    work.at_last(partial(slots.detached, slots=mine, host=site.host, at=site.clock.now()))
    return None


def there(work: Work) -> Sighting | None:
    """The container, if LXD has it; one that was removed or replaced behind lxgpu's back holds nothing through us."""
    try:
        return work.glance()
    except LxgpuError as error:
        if error.code not in {"missing", "not_ours"}:
            raise
        return None


def at_rest(work: Work) -> bool:
    """Whether a container that is down stays so: it was meant to be, or it has been down for `REST_S`."""
    now, since = work.site.clock.now(), work.text("down_since")
    row = work.instance()
    if row.state is InstanceState.READY and not row.running:
        return True
    if not since:
        work.note(down_since=now.isoformat())
        return False
    return now - datetime.fromisoformat(since) >= timedelta(seconds=REST_S)


def _lives(work: Work, seen: Sighting) -> bool:
    """Whether the container's init still runs, after all that was written: then its next start is a start with that."""
    if seen.init_pid is None:
        return False
    if work.text("down_since"):
        work.note(down_since="")
    nodes = [node for gpu in _cards(work) for node in gpu.nodes]
    try:
        left = work.site.probe.nodes_inside(seen.init_pid, nodes)
    except LxgpuError as error:
        if error.code != "unavailable":
            raise
        now = work.site.engine.instance(work.name)
        if now is None or now.init_pid != seen.init_pid:
            return False
        # Its root decides what /dev answers, and must not keep a card by that.
        work.site.say(f"whether nodes of its cards stay inside cannot be seen, and nothing opens them: {error.brief}")
        return True
    if left:
        _clear(work)
    return True


def _clear(work: Work) -> None:
    """Nodes that a start with the old devices brought are taken away; the rule holds if that cannot be done."""
    try:
        work.site.engine.clear_left_nodes(work.name)
    except LxgpuError as error:
        work.site.say(f"nodes of its cards stay inside, where nothing opens them: {error.brief}")


def _ruled(work: Work, wanted: Picture, seen: Sighting) -> bool:
    """Set the rule in what runs; False when it went down just then."""
    try:
        set_rule(work.site, wanted, seen)
    except LxgpuError as error:
        if error.code != "unavailable":
            raise
        now = work.site.engine.instance(work.name)
        if now is not None and now.init_pid == seen.init_pid:
            raise
        return False
    return True


def _patience(work: Work) -> Wait:
    until = work.deadline(work.seconds("fence_timeout_s") + 2 * REST_S)
    if work.site.clock.now() < until:
        return Wait(until)
    raise LxgpuError(
        "conflict",
        f"{work.name} goes down and up again all the time, so its cards cannot be taken",
        fix=f"lxc stop --force {work.name}, then repeat",
    )


def kill(work: Work) -> Wait | None:
    """KILL whatever still holds the cards, again and again until nothing is left or the time is over."""
    if work.calm:  # the fence's own look, which then serves the next step as well
        proof = _look(work, at_once=True)
        if not any(verdict.processes for verdict in proof.verdicts.values()):
            work.proof = proof
            return None
    site, held = work.site, _holders(work)
    if not held:
        return None
    for process in _processes(held):
        site.probe.signal(process, signal.SIGKILL)
    until = work.deadline(work.seconds("fence_timeout_s") / 2)
    return None if site.clock.now() >= until else Wait(until)


def prove(work: Work) -> Wait | None:
    """The fence: close what is proven free; what is not by the deadline goes into quarantine."""
    site, mine = work.site, taken(work)
    open_ = {row.slot for row in site.inventory.read().held_by(work.name) if row.state is AssignmentState.RELEASING}
    rest = [slot for slot in mine if slot in open_]
    if not rest:
        return None
    proof = work.proof or _look(work)
    verdicts = proof.verdicts
    free = [row for row in fence.proofs(site, proof) if row.slot in rest]
    _close(work, free)
    gone = {row.slot for row in free}
    rest = [slot for slot in rest if slot not in gone]
    if not rest:
        return None
    until = work.deadline(work.seconds("fence_timeout_s"))
    if site.clock.now() < until:
        return Wait(until)
    for slot in rest:
        verdict = verdicts.get(slot.gpu)
        why = verdict.why if verdict else "the host no longer shows the card"
        slots.quarantine(site, work.name, slot, why)
        site.say(f"{slot} is in quarantine: {why}")
    return None


def _look(work: Work, *, at_once: bool = False) -> fence.Look:
    seen = [] if work.left is None else [work.left]
    names = [work.name, *work.texts("borrowers")]
    return fence.look(work.site, _cards(work), suspects=names, seen=seen, at_once=at_once)


def _close(work: Work, free: list[SlotRecord]) -> None:
    """What is proven goes from its holder: the proof and the end of the assignment in one transaction."""
    site, wanted = work.site, {row.slot for row in free}
    stuck = any(record.quarantine and record.slot in wanted for record in site.inventory.read().slots)
    outcome, rule = work.text("outcome") or "released", work.text("rule")
    work.at_last(partial(slots.close, instance=work.name, proofs=free, at=site.clock.now(), outcome=outcome, rule=rule))
    if stuck or len(wanted) < len(taken(work)):
        with site.write() as tx:
            work.write_last(tx)
    if stuck:
        mirror_promises(site)


RELEASE_STEPS = (
    Step("lent_on", "", borrowed.off, looks=True),
    Step("deny", "nothing new can open the card", deny),
    Step("term", "asking its processes to end", terminate),
    Step("detach", "detaching", detach),
    Step("kill", "", kill),
    Step("fence", "proving it free", prove, looks=True),
)


def _holders(work: Work, *, still: bool = True) -> dict[str, Holders]:
    """Who in the container holds each card that is being taken; cards nobody holds are left out."""
    work.left = seen = there(work)
    if seen is None or seen.init_pid is None:
        return {}
    try:
        found = work.site.probe.holders([seen.init_pid], looked_at(_cards(work)), still=still)
    except LxgpuError as error:
        if error.code != "unavailable":
            raise
        return {}  # it went down just now, and everything in it
    return {uuid: holders for uuid, holders in found.items() if holders.processes}


def _cards(work: Work) -> tuple[Gpu, ...]:
    return slots.gpus_of(work.gpus(), taken(work))


def _processes(held: dict[str, Holders]) -> list[Process]:
    return sorted({process for holders in held.values() for process in holders.processes})
