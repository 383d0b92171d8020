"""Drift that lxgpu may mend by itself: cards that our containers show and do not hold are taken off, and proven."""

from __future__ import annotations

from functools import partial

from lxgpu.errors import LxgpuError
from lxgpu.model.snapshot import Observation, Snapshot
from lxgpu.policy.drift import extra_cards
from lxgpu.ports import Tx
from lxgpu.services import fence, observe, slots, taking
from lxgpu.services.begin import decided, new_operation
from lxgpu.services.fence import FenceState, FenceVerdict
from lxgpu.services.identity import mirror_promises
from lxgpu.services.operations import carry_out
from lxgpu.services.recipes import Recipe, Step, Wait, Work
from lxgpu.services.site import Site


def prove(work: Work) -> Wait | None:
    """What nobody holds is proven free of those who had it, or goes to nobody; a holder's own card is theirs."""
    site, records = work.site, work.site.inventory.read()
    rest = [slot for slot in taking.taken(work) if records.holder(slot) is None]
    verdicts = fence.prove(site, slots.gpus_of(work.gpus(), rest), suspects=[work.name])
    bad = {slot: verdicts[slot.gpu].why for slot in rest if slot.gpu in verdicts and _doubtful(verdicts[slot.gpu])}
    if not bad:
        return None
    until = work.deadline(work.seconds("fence_timeout_s"))
    if site.clock.now() < until:
        return Wait(until)
    for slot, why in bad.items():
        slots.quarantine(site, work.name, slot, why)
        site.say(f"{slot} is in quarantine: {why}")
    mirror_promises(site)
    return None


def _doubtful(verdict: FenceVerdict) -> bool:
    return verdict.state is not FenceState.PROVEN


MEND = Recipe(
    kind="mend",
    steps=(
        Step("deny", "taking off what it does not hold", taking.deny),
        Step("detach", "", taking.detach),
        Step("kill", "", taking.kill),
        Step("fence", "", prove),
    ),
)


def mend(site: Site, seen: Observation) -> tuple[str, ...]:
    """Take off the cards that our instances show and do not hold; gives the instances' names.

    Whoever restored a snapshot or edited devices by hand is told in the history. One that another command is at work
    on is left to that, and one that cannot be mended is said: neither stops the command that came by.
    """
    extra = extra_cards(site.inventory.read(), seen)
    for name in extra:
        with site.locks.hold(name, wait_s=0) as free:
            pass
        if not free:
            continue
        try:
            carry_out(site, MEND, name, partial(_begin, site, name), gpus=seen.gpus)
        except LxgpuError as error:
            site.say(f"cards that {name} shows and does not hold: {error.brief}")
    return tuple(extra)


def begin_mending(site: Site, seen: Observation) -> tuple[str, ...]:
    """The same, but only begun: whoever advances the journal's operations takes the cards off."""
    begun = []
    for name in extra_cards(site.inventory.read(), seen):
        with site.locks.hold(name, wait_s=0) as free:
            if free and _begin(site, name) is not None:
                begun.append(name)
    return tuple(begun)


def _begin(site: Site, name: str) -> str | None:
    """Look once more, now that nobody else is at work on it: a release may have been under way."""

    def write(tx: Tx, now: Snapshot) -> str | None:
        extra = extra_cards(now.records, now.seen).get(name, ())
        busy = any(row.live and row.instance == name for row in now.records.operations)
        if not extra or busy:
            return None
        texts = [str(slot) for slot in extra]
        timeout = now.policy.rules.preemption.fence_timeout_s
        operation = new_operation(site, kind="mend", instance=name, args={"slots": texts, "fence_timeout_s": timeout})
        tx.put(operation)
        tx.event("mended", name, rule="drift", detail={"slots": texts})
        return operation.id

    return decided(site, observe.snapshot(site), write)
