"""Rename: a container gets another name; its person, account, home, cards, port, address and who is on its page stay.

The rows carry the new name from the first moment, so that nobody else can take it, and `engine_name` says what LXD
still calls it; the operation goes by the new name, so recovery finds everything under it.
"""

from __future__ import annotations

from dataclasses import replace

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Instance, InstanceState, Power, Sighting
from lxgpu.model.operation import Operation
from lxgpu.model.plan import Plan, PlannedStep, Reason, Verdict
from lxgpu.model.snapshot import Snapshot
from lxgpu.ports import Tx
from lxgpu.services import giving, instances, making, observe, power
from lxgpu.services.begin import decided, make_way, new_operation
from lxgpu.services.identity import ensure_identity
from lxgpu.services.leaving import end
from lxgpu.services.lending import lasting_instance
from lxgpu.services.operations import LOCK_WAIT_S, carry_out
from lxgpu.services.recipes import Recipe, Step, Work
from lxgpu.services.refusal import raise_if_refused
from lxgpu.services.site import Site

_MAY = frozenset({InstanceState.READY, InstanceState.SUSPENDED})


def stop(work: Work) -> None:
    """Stop it under the name that LXD has for it."""
    seen = _under_old_name(work)
    if seen is None or seen.power is Power.STOPPED:
        return
    end(work.site, seen.name)


def rename_in_lxd(work: Work) -> None:
    """LXD's name; whatever LXD answers, what is there afterwards counts."""
    seen = _under_old_name(work)
    if seen is None:
        _under_new_name(work)
        return
    try:
        work.site.engine.rename(seen.name, work.name)
    except LxgpuError:
        instances.settle(work.site, seen.name)
        if _under_old_name(work) is not None:
            raise
        _under_new_name(work)


def settle(work: Work) -> None:
    """The two names are one again, and the host's folder of the container goes by it."""
    _move_folder(work)
    with work.site.write() as tx:
        row = tx.records.instance(work.name)
        if row is not None and row.engine_name:
            tx.put(replace(row, engine_name=""))
            for subject in (work.text("old"), work.name):
                tx.event("renamed", subject, detail={"from": work.text("old"), "to": work.name})


def _move_folder(work: Work) -> None:
    """Unless somebody else has the old name by now, and the folder of that name with it."""
    old = work.text("old")
    if work.site.inventory.read().instance(old) is not None:
        return
    try:
        work.site.board.move(old, work.name)
    except LxgpuError as error:
        work.site.say(f"its folder on the host stays under {old}: {error.brief}")


def start(work: Work) -> None:
    """One that ran runs again."""
    if work.flag("was_running"):
        making.start(work)


def account(work: Work) -> None:
    """The banner and the system's own list of hosts have the new name."""
    if work.flag("was_running"):
        making.refresh_account(work)


def rows_back(work: Work) -> None:
    """Undo: as long as LXD has the old name the rows get it back; afterwards they keep the new one."""
    site, old = work.site, work.text("old")
    if _under_old_name(work) is None:
        site.say(f"it is called {work.name} now; the rest was not done: lxgpu start {work.name}")
        settle(work)
        return
    with site.write() as tx:
        row = tx.records.instance(work.name)
        if row is None:
            return
        undone = replace(work.operation, instance=old)
        _move(tx, row, replace(row, name=old, engine_name=""), undone)
        tx.event("rename_undone", old, detail={"to": work.name, "why": work.operation.error})
    work.operation = undone


RENAME = Recipe(
    kind="rename",
    steps=(
        Step("stop", "stopping", stop),
        Step("rename", "", rename_in_lxd),
        Step("settle", "", settle),
        Step("configure", "", power.in_line),
        Step("start", "starting", start),
        Step("nodes", "", giving.verify),
        Step("account", "", account),
    ),
    undo=(Step("rows", "", rows_back), Step("start", "", power.start_again)),
)


def plan_rename(site: Site, name: str, new: str) -> Plan:
    """What a rename would do, or every reason against it; nothing is written."""
    lasting_instance(site, name)
    return _decide(observe.snapshot(site), name, new)


def rename(site: Site, name: str, new: str) -> None:
    """Give a container another name. A running one is stopped for it and started again."""
    ensure_identity(site)
    lasting_instance(site, name)
    snapshot = observe.snapshot(site)
    raise_if_refused(_decide(snapshot, name, new), f"rename {name}", snapshot.policy)

    def write(tx: Tx, now: Snapshot) -> str:
        make_way(tx, now, name)
        make_way(tx, now, new)
        raise_if_refused(_decide(now, name, new), f"rename {name}", now.policy)
        row = now.records.instance(name)
        assert row is not None  # noqa: S101 - refused otherwise
        args = {"old": name, "was_running": row.running and row.state is InstanceState.READY}
        operation = new_operation(site, kind="rename", instance=new, args=args)
        _move(tx, row, replace(row, name=new, engine_name=name), operation)
        return operation.id

    with site.locks.hold(name, wait_s=LOCK_WAIT_S) as held:
        if not held:
            raise LxgpuError("conflict", f"another lxgpu is at work on {name}", fix="repeat in a moment")
        carry_out(site, RENAME, new, lambda: decided(site, snapshot, write), gpus=snapshot.seen.gpus)


def _move(tx: Tx, row: Instance, renamed: Instance, operation: Operation) -> None:
    """Everything that goes by the name of an instance goes by its other name, in one transaction."""
    tx.drop(row)
    tx.put(renamed)
    records = tx.records
    for rows in (records.assignments, records.reservations, records.keeps, records.notices):
        tx.put(*(replace(one, instance=renamed.name) for one in rows if one.instance == row.name))
    tx.put(operation)


def _decide(now: Snapshot, name: str, new: str) -> Plan:
    row, reasons = now.records.instance(name), []
    if row is None:
        reasons.append(Reason("not_found", f"there is no container {name}"))
    elif row.state not in _MAY:
        reasons.append(Reason("not_ready", f"{name} is {row.state.value}"))
    if now.records.instance(new) is not None:
        reasons.append(Reason("exists", f"there is a container {new} already"))
    elif now.seen.sighting(new) is not None:
        reasons.append(Reason("exists", f"LXD has an instance {new} that lxgpu did not make"))
    if reasons:
        return Plan(decision=Verdict.REFUSED, reasons=tuple(reasons))
    running = row is not None and row.running and row.state is InstanceState.READY
    first = (PlannedStep("stop", name),) if running else ()
    last = (PlannedStep("start", new),) if running else ()
    why = "account, home, cards, port and logins to the page stay as they are"
    return Plan(decision=Verdict.GRANTED, steps=(*first, PlannedStep("rename", name, why=f"to {new}; {why}"), *last))


def _under_old_name(work: Work) -> Sighting | None:
    """The container, if LXD still has it under the old name."""
    seen = work.site.engine.instance(work.text("old"))
    if seen is None or seen.uuid != work.instance().uuid:
        return None
    instances.check_ours(work.site, seen)
    return seen


def _under_new_name(work: Work) -> Sighting:
    """The container under its new name; error `exists` or `missing` when LXD has another one there, or none."""
    seen = work.site.engine.instance(work.name)
    if seen is not None and seen.uuid != work.instance().uuid:
        raise making.exists(work.name)
    return instances.sighting(work.site, work.name)
