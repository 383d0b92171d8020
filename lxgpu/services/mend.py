"""Drift that lxgpu may mend by itself: cards that our containers show and do not hold are taken off, and proven."""

from __future__ import annotations

from lxgpu.model.snapshot import Observation, Snapshot
from lxgpu.policy.drift import extra_cards
from lxgpu.ports import Tx
from lxgpu.services import observe, taking
from lxgpu.services.begin import decided, new_operation
from lxgpu.services.operations import Recipe, Step, carry_out
from lxgpu.services.site import Site

MEND = Recipe(
    kind="mend",
    steps=(
        Step("deny", "taking off what it does not hold", taking.deny),
        Step("detach", "", taking.detach),
        Step("kill", "", taking.kill),
    ),
)


def mend(site: Site, seen: Observation) -> tuple[str, ...]:
    """Take off the cards that our instances show and do not hold; gives the instances' names.

    Whoever restored a snapshot or edited devices by hand is told in the history.
    """
    extra = extra_cards(site.inventory.read(), seen)
    for name in extra:
        _mend_one(site, name, seen)
    return tuple(extra)


def _mend_one(site: Site, name: str, seen: Observation) -> None:
    snapshot = observe.of(site, seen, site.inventory.read())

    def write(tx: Tx, now: Snapshot) -> str | None:
        slots = extra_cards(now.records, now.seen).get(name, ())
        busy = any(row.live and row.instance == name for row in now.records.operations)
        if not slots or busy:
            return None
        texts = [str(slot) for slot in slots]
        timeout = now.policy.rules.preemption.fence_timeout_s
        operation = new_operation(site, kind="mend", instance=name, args={"slots": texts, "fence_timeout_s": timeout})
        tx.put(operation)
        tx.event("mended", name, rule="drift", detail={"slots": texts})
        return operation.id

    carry_out(site, MEND, name, lambda: decided(site, snapshot, write), gpus=snapshot.seen.gpus)
