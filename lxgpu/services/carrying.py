"""An agenda becomes rows and operations: one transaction for what was decided, then steps that wait for nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from lxgpu.errors import LxgpuError
from lxgpu.model.operation import Operation
from lxgpu.model.reservation import Reservation
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.desk import Agenda, Giving, Taking
from lxgpu.ports import Tx
from lxgpu.services.begin import new_operation, remember_cards
from lxgpu.services.operations import advance
from lxgpu.services.recover import RECIPES
from lxgpu.services.sections import FATAL, fault
from lxgpu.services.site import Site


def write_down(site: Site, tx: Tx, snapshot: Snapshot, agenda: Agenda) -> None:
    """Everything that an agenda says, in one transaction: promises away, rows, history, and what is to be begun."""
    remember_cards(tx, snapshot)
    for row in agenda.drops:
        tx.drop(row)
    # What ends comes before what begins, or a slot would have two holders for a moment.
    tx.put(*sorted(agenda.rows, key=lambda row: isinstance(row, Reservation)))
    for note in agenda.notes:
        tx.event(note.kind, note.subject, rule=note.rule, detail=note.detail)
    for taking in agenda.takings:
        tx.put(_release(site, snapshot, taking))
        facts = {"slots": [str(slot) for slot in taking.slots], "reservation": taking.reservation}
        tx.event("releasing", taking.instance, rule=taking.rule, detail=facts)
    for giving in agenda.givings:
        tx.put(_attach(site, snapshot, giving))


def advance_all(site: Site) -> tuple[int, tuple[str, ...]]:
    """One pass over every operation of the journal that nobody has in hand: (how many moved, what went wrong)."""
    before = [row for row in site.inventory.read().operations if row.live]
    if not before:
        return 0, ()
    with ThreadPoolExecutor(max_workers=max(1, min(site.settings.workers, len(before)))) as pool:
        results = list(pool.map(lambda row: _advanced(site, row), before))
    return sum(moved for moved, _ in results), tuple(trouble for _, trouble in results if trouble)


def _advanced(site: Site, row: Operation) -> tuple[bool, str]:
    """Whether it moved, and its trouble; one that fails, by whatever fault, stops no other."""
    about = f"{row.kind} of {row.instance}"
    site.alive()
    try:
        now = advance(site, RECIPES[row.kind], row.id)
    except LxgpuError as error:
        if error.code in FATAL:
            raise
        trouble = error.brief
    except Exception as error:  # noqa: BLE001 -- one operation's boundary: it is told, and is taken up again
        trouble = fault(about, error)
    else:
        return now is not None and _moved(row, now), ""
    after = site.inventory.operation(row.id)
    return after is not None and _moved(row, after), f"{about}: {trouble}"


def _moved(row: Operation, now: Operation) -> bool:
    return (row.state, row.position) != (now.state, now.position)


def _release(site: Site, snapshot: Snapshot, taking: Taking) -> Operation:
    chosen = snapshot.policy.classes.get(taking.class_name)
    return new_operation(
        site,
        kind="release",
        instance=taking.instance,
        args={
            "slots": [str(slot) for slot in taking.slots],
            "outcome": taking.outcome,
            "rule": taking.rule,
            "reservation": taking.reservation,
            "term_wait_s": chosen.term_wait_s if chosen else 0,
            "fence_timeout_s": snapshot.policy.rules.preemption.fence_timeout_s,
        },
    )


def _attach(site: Site, snapshot: Snapshot, giving: Giving) -> Operation:
    timeout = snapshot.policy.rules.preemption.fence_timeout_s
    args = {"fence_timeout_s": timeout, "term_wait_s": 0, "reservation": giving.reservation}
    return new_operation(site, kind="attach", instance=giving.instance, args=args)
