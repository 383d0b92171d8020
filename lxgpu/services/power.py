"""Start, stop, restart: the device rule is set anew at every start, from the first process on."""

from __future__ import annotations

from dataclasses import replace

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Power
from lxgpu.model.snapshot import Records, Snapshot
from lxgpu.ports import Tx
from lxgpu.services import borrowed, giving, leaving, making, observe
from lxgpu.services.begin import decided, make_way, new_operation
from lxgpu.services.configure import configure, picture
from lxgpu.services.identity import ensure_identity
from lxgpu.services.instances import sighting
from lxgpu.services.lending import check_ready, ready_instance, ready_row
from lxgpu.services.operations import LOCK_WAIT_S, carry_out
from lxgpu.services.recipes import Recipe, Step, Work
from lxgpu.services.site import Site

_OF_CARDS = frozenset({"attach", "release", "mend"})
"""Operations that only move cards; none of them starts a container or counts on its running."""


def in_line(work: Work) -> None:
    """Limits, port and cards as the inventory has them, whatever was done to the container since."""
    configure(work.site, picture(work.site, work.name, gpus=work.gpus()), operation=work.operation.id)


def force_stop(work: Work) -> None:
    """Stop at once."""
    borrowed.back(work.site, work.name)
    work.site.engine.stop(work.name, timeout_s=0, force=True)


def stop(work: Work) -> None:
    """Stop, gently or at once as was asked."""
    if work.flag("force"):
        force_stop(work)
    else:
        leaving.stop(work)


def start_again(work: Work) -> None:
    """Undo: one that ran before (`was_running`) runs again; that it does not start is said, and ends nothing else."""
    if not work.flag("was_running"):
        return
    try:
        in_line(work)
        making.start(work)
    except LxgpuError as error:
        if error.code not in {"engine", "missing"}:
            raise
        work.site.say(f"it does not start: {error.brief}" + (f" ({error.why[0]})" if error.why else ""))
    else:
        making.refresh_account(work)


_START = (
    Step("configure", "", in_line),
    Step("start", "starting", making.start),
    Step("nodes", "", giving.verify),
    Step("account", "", making.refresh_account),
)
START = Recipe(kind="start", steps=_START)
STOP = Recipe(kind="stop", steps=(Step("stop", "stopping", stop),))
RESTART = Recipe(kind="restart", steps=(Step("stop", "stopping", stop), *_START))


def start(site: Site, name: str) -> None:
    """Start a container and wait until its cards are as granted."""
    _run(site, name, START, running=True)


def stop_instance(site: Site, name: str, *, force: bool) -> None:
    """Stop a container; it keeps its cards."""
    _run(site, name, STOP, running=False, force=force)


def stop_beside(site: Site, name: str, *, force: bool) -> bool:
    """Stop a container whose cards are being taken or given at this moment; False when none are.

    That work may hang on what runs inside, and a stop is what ends it. It goes on afterwards, and finds the container
    down; so the stop needs no operation of its own, and does not wait for the other one's end.
    """
    ready_instance(site, name)
    if not _cards_move(site.inventory.read(), name):
        return False
    ensure_identity(site)
    with site.locks.hold(name, wait_s=LOCK_WAIT_S) as held:
        if not held:
            raise LxgpuError("conflict", f"another lxgpu is at work on {name}", fix="repeat in a moment")
        with site.write() as tx:
            row = tx.records.instance(name)
            if row is None or not _cards_move(tx.records, name):
                return False
            tx.put(replace(check_ready(row), running=False))
            tx.event("stop", name)
        seen = sighting(site, name)
        if force:
            borrowed.back(site, name)
            site.engine.stop(name, timeout_s=0, force=True)
        elif seen.power is not Power.STOPPED:
            leaving.end(site, name)
    return True


def _cards_move(records: Records, name: str) -> bool:
    return any(row.live and row.instance == name and row.kind in _OF_CARDS for row in records.operations)


def restart(site: Site, name: str, *, force: bool) -> None:
    """Stop and start; clears what an interrupted attach left behind."""
    _run(site, name, RESTART, running=True, force=force)


def _run(site: Site, name: str, recipe: Recipe, *, running: bool, force: bool = False) -> None:
    ensure_identity(site)
    ready_instance(site, name)
    snapshot = observe.snapshot(site)

    def write(tx: Tx, now: Snapshot) -> str:
        make_way(tx, now, name)
        row = ready_row(now, name)
        operation = new_operation(site, kind=recipe.kind, instance=name, args={"force": force})
        tx.put(replace(row, running=running), operation)
        tx.event(recipe.kind, name)
        return operation.id

    carry_out(site, recipe, name, lambda: decided(site, snapshot, write), gpus=snapshot.seen.gpus)
