"""Taking cards from an instance that lives on: rule, TERM, detach, KILL, fence, in this order.

The rule comes first, so that nothing new opens the card; KILL comes after the detach, so that a restart loop finds
nothing; only a proven card is closed. Each function is a step: idempotent, and never waiting by itself.
"""

from __future__ import annotations

import signal

from lxgpu.model.assignment import AssignmentState
from lxgpu.model.gpu import Gpu, Slot
from lxgpu.model.instance import Sighting
from lxgpu.ports import Holders, Process
from lxgpu.services import fence, slots
from lxgpu.services.configure import configure, picture, set_rule
from lxgpu.services.fence import FenceState
from lxgpu.services.operations import Step, Wait, Work


def taken(work: Work) -> tuple[Slot, ...]:
    """The slots that this operation takes."""
    return tuple(Slot.parse(text) for text in work.texts("slots"))


def deny(work: Work) -> None:
    """The device rule back: from here on nothing in the container can open the cards anew."""
    seen = work.glance()
    set_rule(work.site, picture(work.site, work.name, gpus=work.gpus()), seen)
    work.left = seen


def terminate(work: Work) -> Wait | None:
    """TERM to everything that holds the cards, once; then time to end by itself."""
    site, seen = work.site, work.glance()
    held = _holders(work, seen)
    if not held:
        return None
    if not work.flag("termed"):
        for process in _processes(held):
            site.probe.signal(process, signal.SIGTERM)
        work.note(termed=True)
    until = work.deadline(work.seconds("term_wait_s"))
    return None if site.clock.now() >= until else Wait(until)


def detach(work: Work) -> None:
    """The cards leave the container's devices, and with them their nodes."""
    site, mine = work.site, set(taken(work))
    wanted = picture(site, work.name, gpus=work.gpus())
    seen = configure(site, wanted, operation=work.operation.id, attached=wanted.usable - mine)
    set_rule(site, wanted, seen)
    slots.detached(site, mine)
    work.left = seen


def kill(work: Work) -> Wait | None:
    """KILL whatever still holds the cards, again and again until nothing is left or the time is over."""
    site, seen = work.site, work.glance()
    held = _holders(work, seen)
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
    cards = slots.gpus_of(work.gpus(), rest)
    seen = site.engine.instance(work.name)
    verdicts = fence.prove(site, cards, suspect=seen.init_pid if seen else None)
    free = [slot for slot in rest if slot.gpu in verdicts and verdicts[slot.gpu].state is FenceState.PROVEN]
    slots.close(site, work.name, free, outcome=work.text("outcome") or "released", rule=work.text("rule"))
    rest = [slot for slot in rest if slot not in free]
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


RELEASE_STEPS = (
    Step("deny", "nothing new can open the card", deny),
    Step("term", "asking its processes to end", terminate),
    Step("detach", "detaching", detach),
    Step("kill", "", kill),
    Step("fence", "proving it free", prove),
)


def _holders(work: Work, seen: Sighting) -> dict[str, Holders]:
    """Who in the container holds each card that is being taken; cards nobody holds are left out."""
    if seen.init_pid is None:
        return {}
    found, readings = {}, work.site.probe.readings()
    for gpu in _cards(work):
        holders = work.site.probe.holders(seen.init_pid, gpu.nodes, uuid=gpu.uuid, readings=readings)
        if holders.processes:
            found[gpu.uuid] = holders
    return found


def _cards(work: Work) -> tuple[Gpu, ...]:
    return slots.gpus_of(work.gpus(), taken(work))


def _processes(held: dict[str, Holders]) -> list[Process]:
    return sorted({process for holders in held.values() for process in holders.processes})
