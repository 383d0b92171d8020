"""How a container leaves: the steps of deleting, suspending and resuming, and what lies in the trash."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Instance, InstanceState, Power
from lxgpu.model.names import LONGEST_NAME
from lxgpu.ports import Change
from lxgpu.services import borrowed, instances, making, slots, taking
from lxgpu.services.configure import configure, picture
from lxgpu.services.endings import note_promise, promise_trash
from lxgpu.services.identity import mirror_promises
from lxgpu.services.recipes import Recipe, Step, Wait, Work
from lxgpu.services.site import Site
from lxgpu.services.wanted import KEY_HOLDS, KEY_INSTANCE, home_volume, instance_text

STOP_S = 30.0
TRASH = "trash-"


def end(site: Site, name: str) -> None:
    """Stop what runs under a name of LXD's: gently, and by force when that does not help."""
    borrowed.back(site, name)
    try:
        site.engine.stop(name, timeout_s=STOP_S, force=False)
    except LxgpuError as error:
        site.say(f"it does not stop by itself ({error.brief}), so it is ended")
        instances.settle(site, name)
        site.engine.stop(name, timeout_s=0, force=True)


def stop(work: Work) -> None:
    """Stop: what runs inside gets time to end, then it is ended; one that comes up again is ended once more."""
    site = work.site
    borrowed.back(site, work.name)
    at_once = work.instance().throw_away  # nobody keeps anything of it
    for gently in (not at_once, False, False):
        seen = taking.there(work)
        if seen is None or seen.power is Power.STOPPED:
            return
        try:
            site.engine.stop(work.name, timeout_s=STOP_S if gently else 0, force=not gently)
        except LxgpuError as error:
            if not gently:
                raise
            site.say(f"it does not stop by itself ({error.brief}), so it is ended")
            instances.settle(site, work.name)
        else:
            work.note(stopped=True)


def detach(work: Work) -> Wait | None:
    """Cards and port leave the container's configuration; one that is only about to come up again is stopped first."""
    site, mine = work.site, taking.taken(work)
    stop(work)
    if taking.there(work) is not None:
        wanted = picture(site, work.name, gpus=work.gpus())
        configure(site, wanted, operation=work.operation.id, attached=())
        if mine and not work.flag("stopped") and not taking.at_rest(work):
            return Wait(work.deadline(taking.REST_S))
    work.at_last(partial(slots.detached, slots=mine, host=site.host, at=site.clock.now()))
    return None


def to_trash(work: Work) -> None:
    """The container under a name that frees its own, without the home volume; or gone, with `purge`."""
    site = work.site
    stop(work)  # it may have come up again by itself
    if taking.there(work) is None:
        return
    if work.flag("purge"):
        site.engine.delete(work.name)
        return
    trashed = _trashed(work.instance(), work.operation.created_at)
    marks = {KEY_INSTANCE: instance_text(trashed), KEY_HOLDS: "[]"}
    instances.put(site, work.name, lambda _: Change(config=marks, devices={"home": None, "lxgpu": None}))
    if not work.text("trash_name"):
        taken = {sighting.name for sighting in site.engine.instances(with_state=False)}
        names = (trash_name(work.name, number) for number in range(1, 1000))
        work.note(trash_name=next(name for name in names if name not in taken))
    site.engine.rename(work.name, work.text("trash_name"))


def trash_name(name: str, number: int) -> str:
    """What the `number`th deleted container of a name is called; a long name is cut, since LXD takes 63 characters."""
    tail = f"-{number}" if number > 1 else ""
    return TRASH + name[: LONGEST_NAME - len(TRASH) - len(tail)].rstrip("-") + tail


def _trashed(row: Instance, now: datetime) -> Instance:
    return replace(row, state=InstanceState.TRASHED, deleted_at=now, running=False, address="", hwaddr="")


def put_folder(work: Work) -> None:
    """The host's folder of the container goes with it into the trash, or goes: whoever has the name next reads none."""
    board, trash = work.site.board, work.text("trash_name")
    try:
        if trash:
            board.move(work.name, trash)
        else:
            board.remove(work.name)
    except LxgpuError as error:
        work.site.say(f"its folder on the host stays: {error.brief}")


def purge_home(work: Work) -> None:
    """With `purge`, the home volume goes too: that of the person's own machine, no run's."""
    row = work.site.inventory.read().instance(work.name)
    if row is not None and work.flag("purge") and not row.throw_away:
        work.site.engine.delete_volume(work.site.settings.pool, home_volume(row.owner))


def forget(work: Work) -> None:
    """The inventory lets go: a trashed container keeps a row of its own, keys are closed, the port stays reserved."""
    site, trash, at = work.site, work.text("trash_name"), work.operation.created_at
    known = site.inventory.read().instance(work.name)
    kept = promise_trash(site, known.owner, at) if trash and known else None
    with site.write() as tx:
        row = tx.records.instance(work.name)
        if row is None:
            return
        tx.drop(row)
        if trash:
            tx.put(replace(_trashed(row, at), name=trash))
        if trash and kept:
            note_promise(tx, trash, kept)
        for key in tx.records.keys:
            if key.person == row.owner and not row.throw_away:
                tx.drop(key)
        tx.event("deleted", work.name, detail={"trash": trash or None, "purged": work.flag("purge")})
    mirror_promises(site)


DELETE = Recipe(
    kind="delete",
    steps=(
        Step("lent_on", "", borrowed.off, looks=True),
        Step("stop", "stopping", stop),
        Step("detach", "", detach),
        Step("fence", "proving its cards free", taking.prove),
        Step("trash", "putting it away", to_trash),
        Step("folder", "", put_folder),
        Step("home", "", purge_home),
        Step("forget", "", forget),
    ),
)


def empty_trash(work: Work) -> None:
    """A container that lies in the trash goes for good; the home volume is not its any more."""
    site, seen = work.site, work.site.engine.instance(work.name)
    if seen is not None:
        instances.check_ours(site, seen)
        site.engine.delete(work.name)
    put_folder(work)
    with site.write() as tx:
        row = tx.records.instance(work.name)
        if row is not None:
            tx.drop(row)
            tx.event("purged", work.name)


EMPTY = Recipe(kind="empty", steps=(Step("empty", "removing it for good", empty_trash),))


def settle(work: Work) -> None:
    """What the instance is from now on."""
    with work.site.write() as tx:
        row = tx.records.instance(work.name)
        if row is not None:
            tx.event(work.operation.kind, work.name, detail={"reason": row.reason})


SUSPEND = Recipe(
    kind="suspend",
    steps=(
        Step("lent_on", "", borrowed.off, looks=True),
        Step("stop", "stopping", stop),
        Step("detach", "", detach),
        Step("fence", "proving its cards free", taking.prove),
        Step("settle", "", settle),
    ),
)


def back_in_use(work: Work) -> None:
    """Resume: the port opens again."""
    configure(work.site, picture(work.site, work.name, gpus=work.gpus()), operation=work.operation.id)


RESUME = Recipe(
    kind="resume",
    steps=(
        Step("configure", "", back_in_use),
        Step("start", "starting", making.start),
        Step("account", "", making.refresh_account),
        Step("settle", "", settle),
    ),
)
