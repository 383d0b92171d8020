"""Giving cards to an instance: fence where there is no proof, attach, lift the rule, verify, confirm."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import AssignmentState
from lxgpu.model.gpu import WHOLE, DeviceNode, Gpu, Slot
from lxgpu.model.instance import Power, Sighting
from lxgpu.model.snapshot import Observation
from lxgpu.policy.exclusivity import holdings
from lxgpu.policy.health import by_fault
from lxgpu.services import fence, hooks, parking, slots
from lxgpu.services.configure import configure, picture, set_rule
from lxgpu.services.fence import FenceState, FenceVerdict
from lxgpu.services.recipes import Step, Wait, Work
from lxgpu.services.wanted import Picture


def coming(work: Work) -> tuple[Slot, ...]:
    """The slots on their way to the instance."""
    held = work.site.inventory.read().held_by(work.name)
    return tuple(row.slot for row in held if row.state is AssignmentState.ATTACHING)


def prove(work: Work) -> Wait | None:
    """No card is handed over without a proof newer than its last detach and the host's boot."""
    site = work.site
    records, boot = site.inventory.read(), site.probe.boot_id()
    known = {slot: records.slot(slot) for slot in coming(work)}
    of_cards = [(slot, records.slot(Slot(slot.card))) for slot in known if slot.part != WHOLE]
    broken = ((slot, record) for slot, record in [*known.items(), *of_cards] if record is not None)
    faulty = [f"{slot}: {record.quarantine}" for slot, record in broken if by_fault(record.quarantine)]
    if faulty:
        why = "a fault was told of after they were granted"
        raise LxgpuError("not_free", f"cards for {work.name} are broken: {why}", why=faulty, fix="repeat the command")
    unproven = [slot for slot, record in known.items() if record is None or not record.proven(boot)]
    if not unproven:
        return None
    cards = slots.gpus_of(work.gpus(), unproven)
    # Whoever had it last may hide it, and the inventory may be a rebuilt or an older one; only a boot clears everybody.
    booted = all(record is not None and record.boot_id not in {"", boot} for record in map(known.get, unproven))
    suspects = [] if booted else [row.name for row in records.instances]
    verdicts = fence.prove(site, cards, suspects=suspects)
    unseen = FenceVerdict(FenceState.UNKNOWN, why="the host does not show it")
    judged = {slot.gpu: verdicts.get(slot.gpu, unseen) for slot in unproven}
    bad = {uuid: verdict for uuid, verdict in judged.items() if verdict.state is not FenceState.PROVEN}
    if not bad:
        return None
    until = work.deadline(work.seconds("fence_timeout_s"))
    if site.clock.now() < until:
        return Wait(until)
    lines = [f"{uuid}: {verdict.why}" for uuid, verdict in sorted(bad.items())]
    raise LxgpuError(
        "not_free",
        f"cards for {work.name} could not be proven free",
        why=lines,
        fix="lxgpu gpu show GPU says who holds it; lxgpu doctor looks at NVML",
    )


def attach(work: Work) -> None:
    """The cards into the container's devices, and the rule lifted for them.

    Node files that an interrupted attach left make LXD refuse; they are cleared, and it is tried once more.
    """
    wanted = picture(work.site, work.name, gpus=work.gpus())
    try:
        _plug(work, wanted, wanted.usable)
    except LxgpuError as error:
        if error.code != "engine" or not _cleared(work):
            raise
        _plug(work, wanted, wanted.usable)


def tidy(work: Work) -> None:
    """What an interrupted attach left is taken away, inside and on the host."""
    _cleared(work)


def verify(work: Work) -> None:
    """In a running container its cards' nodes are there and open, and no other card's are; else an error.

    LXD takes the files of an interrupted attach for nodes that are there, and leaves them out inside: then they are
    cleared, the cards on their way are plugged in anew, and it is looked at again.
    """
    wanted, seen = picture(work.site, work.name, gpus=work.gpus()), work.glance()
    trouble: LxgpuError | None = None
    with ThreadPoolExecutor(max_workers=1) as pool:
        alone = pool.submit(check_alone, work, wanted)
        try:
            if seen.power is Power.RUNNING:
                check_nodes(work, wanted, seen)
        except LxgpuError as error:
            trouble = error
        alone.result()  # a card that is elsewhere too is told before anything else
    if trouble is not None:
        work.mark()
        if not _cleared(work):
            raise trouble
        _plug(work, wanted, wanted.usable - set(coming(work)))
        seen = _plug(work, wanted, wanted.usable)
        check_nodes(work, wanted, seen)
    work.left = seen


def _plug(work: Work, wanted: Picture, attached: Iterable[Slot]) -> Sighting:
    first, work.left = work.left, None
    seen = configure(work.site, wanted, operation=work.operation.id, attached=attached, first=first)
    set_rule(work.site, wanted, seen)
    work.left = seen
    return seen


def _cleared(work: Work) -> bool:
    """Whether an interrupted attach had left anything, which is gone now."""
    if not work.site.engine.left_nodes(work.name):
        return False
    work.site.say("clearing what an interrupted attach left")
    work.site.engine.clear_left_nodes(work.name)
    return True


def check_alone(work: Work, wanted: Picture) -> None:
    """Error `attach_failed` when a card is also attached elsewhere: ETags guard one instance, not a card."""
    mine = {slot.card for slot in wanted.usable}
    if not mine:
        return
    parts = {slot.card for slot in wanted.usable if slot.part != WHOLE}
    records = work.site.inventory.read()
    shared = {(row.instance, row.slot.card) for row in records.assignments if row.live and row.slot.part != WHOLE}
    held = {row.id for row in records.held_by(work.name)}
    lent_on = {(row.instance, row.slot.card) for row in records.borrowings if row.assignment in held}
    sightings = work.site.engine.instances(with_state=False)
    seen = Observation(host=work.site.host, boot_id="", at=work.site.clock.now(), gpus=wanted.gpus, sightings=sightings)
    others = [
        f"{holding.uuid} is attached to {holding.instance} too (project {holding.project}, device {holding.device})"
        for holding in holdings(seen)
        if holding.uuid in mine
        and not (holding.uuid in parts and (holding.instance, holding.uuid) in shared)
        and (holding.instance, holding.uuid) not in lent_on
        and (holding.instance, holding.project) != (work.name, work.site.settings.hosts[0].project)
    ]
    if others:
        raise LxgpuError(
            "attach_failed",
            f"cards of {work.name} are attached elsewhere at the same time",
            why=others,
            fix="take the device off there, or close the card: lxgpu gpu close GPU",
        )


def check_nodes(work: Work, wanted: Picture, seen: Sighting) -> None:
    """Compare what is inside and what opens with what was granted, whatever LXD answered.

    Error `attach_failed`: a granted node is missing or does not open, or another card's node can be opened.
    """
    if seen.init_pid is None:
        return
    probe, every = work.site.probe, tuple(dict.fromkeys(node for gpu in wanted.gpus for node in gpu.nodes))
    allowed, inside = frozenset(wanted.allowed()), probe.nodes_inside(seen.init_pid, every)
    opens = probe.openable(seen.init_pid, every)
    faults = [
        *_named("not inside", allowed - inside, wanted.gpus),
        *_named("inside, but not granted", inside - allowed, wanted.gpus),
        *_named("does not open", allowed - opens, wanted.gpus),
        *_named("opens, but is not granted", opens - allowed, wanted.gpus),
    ]
    if faults:
        raise LxgpuError(
            "attach_failed",
            f"the cards of {work.name} are not as they should be inside",
            why=faults,
            fix=f"lxgpu restart {work.name} --yes makes its devices anew; then repeat",
        )


def confirm(work: Work) -> None:
    """The cards are held from now on."""
    work.at_last(partial(slots.activate, instance=work.name))
    work.leave(came=[slot.gpu for slot in coming(work)])


def tell(work: Work) -> None:
    """What waited for the cards inside goes on: parked programs, the person's own script. It changes nothing more."""
    try:
        init = work.glance().init_pid
        parking.unpark(work.site, work.name)
        hooks.after_attach(work, init, work.texts("came"))
    except LxgpuError as error:
        work.site.say(f"the cards of {work.name} are there, and nothing inside was told: {error.brief}")


def take_back(work: Work) -> None:
    """Undo: the cards on their way become cards to be released, which the following steps do.

    Which ones these are is written with it: after a crash in between nobody would know.
    """
    noted = work.operation
    with work.site.write() as tx:
        gone = [row for row in tx.records.held_by(work.name) if row.state is AssignmentState.ATTACHING]
        if gone:
            tx.put(*(replace(row, state=AssignmentState.RELEASING) for row in gone))
            noted = replace(noted, args={**noted.args, "slots": [str(row.slot) for row in gone], "outcome": "failed"})
            tx.put(noted)
    work.operation = noted


ATTACH_STEPS = (
    Step("fence", "", prove, looks=True),
    Step("attach", "attaching", attach),
    Step("nodes", "checking what opens inside", verify, looks=True),
    Step("confirm", "", confirm),
    Step("tell", "", tell, stands=True),
)


def _named(fault: str, nodes: Iterable[DeviceNode], gpus: Iterable[Gpu]) -> list[str]:
    owner = {node: gpu.card for gpu in gpus for node in gpu.nodes}
    return [f"/dev/{node.path} of {owner[node]} {fault}" for node in sorted(nodes)]
