"""Rebuild: a container gets a fresh system; home, keys, cards, port, address and limits stay."""

from __future__ import annotations

from dataclasses import replace

from lxgpu.errors import LxgpuError
from lxgpu.model.plan import Plan, PlannedStep, Verdict
from lxgpu.model.snapshot import Snapshot
from lxgpu.ports import Image, Tx
from lxgpu.services import instances, leaving, making, observe, power
from lxgpu.services.begin import decided, make_way, new_operation
from lxgpu.services.identity import ensure_identity
from lxgpu.services.images import ensure_template, find_image, template_for
from lxgpu.services.lending import lasting_instance, ready_instance, ready_row
from lxgpu.services.operations import carry_out
from lxgpu.services.recipes import Recipe, Step, Work
from lxgpu.services.site import Site


def root(work: Work) -> None:
    """The new system, as a copy of its image's template."""
    site, row = work.site, work.instance()
    source = f"copy:{template_for(site, row.image, site.profile(row.profile))}"
    work.note(begun=True)
    instances.insist(lambda: site.engine.rebuild_root(work.name, source=source))  # goes on from where it came to
    work.note(replaced=True)


def rest(work: Work) -> None:
    """One that did not run before does not run after it; the history has it."""
    if not work.flag("was_running"):
        leaving.stop(work)
    with work.site.write() as tx:
        row = tx.records.instance(work.name)
        if row is not None:
            tx.put(replace(row, running=work.flag("was_running")))
            tx.event("rebuilt", work.name, detail={"image": row.image})
    work.site.say("its host keys are new; `lxgpu ssh-config` prints them, `ssh-keygen -R` forgets the old ones")


def whole(work: Work) -> None:
    """Undo: a system that was half replaced is replaced whole; there is no way back to the old one."""
    seen = work.site.engine.instance(work.name)
    half = work.flag("begun") and not work.flag("replaced") and (seen is None or not seen.ours)
    if not half:
        return
    try:
        root(work)
    except LxgpuError as error:
        if error.code != "not_found":
            raise
        work.site.say(f"LXD has no {work.name} any more")


def told(work: Work) -> None:
    """Undo: what it is now is said; the old image's name comes back where nothing was replaced."""
    replaced = work.flag("replaced")
    with work.site.write() as tx:
        row = tx.records.instance(work.name)
        if row is not None and not replaced:
            tx.put(replace(row, image=work.text("old_image"), running=work.flag("was_running")))
        detail = {"why": work.operation.error, "replaced": replaced}
        tx.event("rebuild_failed", work.name, detail=detail)
    if replaced:
        work.site.say(f"the system is new and not proven; home and cards are as they were: lxgpu rebuild {work.name}")


REBUILD = Recipe(
    kind="rebuild",
    steps=(
        Step("stop", "stopping", leaving.stop),
        Step("root", "new system", root),
        Step("configure", "", power.in_line),
        Step("start", "starting", making.start),
        Step("account", "account and SSH login", making.account),
        Step("verify", "checking cards and limits", making.verify),
        Step("rest", "", rest),
    ),
    undo=(Step("whole", "", whole), Step("told", "", told), Step("start", "", power.start_again)),
)


def plan_rebuild(site: Site, name: str, *, image: str) -> Plan:
    """What a rebuild would do; nothing is written. Errors: `conflict` (it has snapshots), `no_image`."""
    row, found = ready_instance(site, name), _image(site, name, image)
    _no_snapshots(site, name)
    label = found.aliases[0] if found.aliases else found.fingerprint[:12]
    stop = (PlannedStep("stop", name),) if row.running else ()
    renew = PlannedStep("rebuild", name, why=f"from image {label}; home, keys, cards, port and limits stay")
    return Plan(decision=Verdict.GRANTED, steps=(*stop, renew, PlannedStep("verify", name)))


def rebuild(site: Site, name: str, *, image: str) -> None:
    """Replace a container's system; done when the person's login works and the cards are as granted."""
    ensure_identity(site)
    row, found = ready_instance(site, name), _image(site, name, image)
    _no_snapshots(site, name)
    ensure_template(site, found, site.profile(row.profile))
    snapshot = observe.snapshot(site)

    def write(tx: Tx, now: Snapshot) -> str:
        make_way(tx, now, name)
        current = ready_row(now, name)
        args = {"was_running": current.running, "old_image": current.image}
        operation = new_operation(site, kind="rebuild", instance=name, args=args)
        tx.put(replace(current, image=found.fingerprint, running=True), operation)
        return operation.id

    carry_out(site, REBUILD, name, lambda: decided(site, snapshot, write), gpus=snapshot.seen.gpus)


def _image(site: Site, name: str, wanted: str) -> Image:
    """The image asked for; else the one it is made of, or that of the settings where this one is gone."""
    lasting_instance(site, name)
    row = ready_instance(site, name)
    if wanted:
        return find_image(site, wanted)
    known = {image.fingerprint for image in site.engine.images()}
    return find_image(site, row.image if row.image in known else "")


def _no_snapshots(site: Site, name: str) -> None:
    names = [snapshot for snapshot, _ in site.engine.snapshots(name)]
    if names:
        raise LxgpuError(
            "conflict",
            f"{name} has snapshots, which belong to the system that would be replaced",
            why=", ".join(names),
            fix=f"lxgpu snapshot {name} --delete SNAP for each of them, then repeat",
        )
