"""Resize: other limits for a container, live where LXD can, read back from the kernel, or put back as they were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Limits, Power
from lxgpu.model.plan import Plan, PlannedStep, Verdict
from lxgpu.model.snapshot import Snapshot
from lxgpu.ports import Tx
from lxgpu.services import observe
from lxgpu.services.begin import decided, make_way, new_operation
from lxgpu.services.configure import configure, picture
from lxgpu.services.identity import ensure_identity
from lxgpu.services.instances import sighting
from lxgpu.services.lending import lasting_instance, ready_instance, ready_row
from lxgpu.services.limits import check_disk, check_limits
from lxgpu.services.operations import carry_out
from lxgpu.services.recipes import Recipe, Step, Wait, Work
from lxgpu.services.room import check_room
from lxgpu.services.site import Site
from lxgpu.services.wanted import home_volume, shm_bytes
from lxgpu.units import format_size

SHM_S = 20.0
BALANCE_S = 5.0
"""LXD spreads CPUs over containers a moment after it was told how many one gets."""
_REMOUNT = (
    'mount -o remount,size="$1" /dev/shm 2>/dev/null && exit 0; used=$(df -B1 --output=used /dev/shm | tail -n 1);'
    ' echo "$used bytes are in it"; [ "$used" -gt "$1" ] && exit 3; exit 4'
)


def changed(old: Limits, wanted: Limits) -> Limits:
    """The limits with those that are asked for; None in `wanted` leaves one as it is."""
    said: dict[str, Any] = {name: value for name, value in asdict(wanted).items() if value is not None}
    return replace(old, **said)


def room(work: Work) -> None:
    """No disk limit below what is used."""
    asked = _limits(work, "new").disk_bytes
    if asked is not None:
        row = replace(work.instance(), limits=_limits(work, "old"))
        check_room(work.site, row, sighting(work.site, work.name), asked)


def configured(work: Work) -> None:
    """LXD is told; for a running container that counts at once."""
    _tell(work, before=_limits(work, "old"))


def _tell(work: Work, *, before: Limits) -> None:
    """Tell LXD the limits, the CPUs in a write of their own.

    When memory changes in the same write, LXD 5.0.2 spreads the CPUs before it has written down their new number, and
    leaves them as they were (6 of 10 times, ran; never when the CPUs came alone).
    """
    wanted = picture(work.site, work.name, gpus=work.gpus())
    row = wanted.instance
    first = replace(row.limits, cpu=before.cpu)
    if first not in {before, row.limits}:
        configure(work.site, replace(wanted, instance=replace(row, limits=first)), operation=work.operation.id)
    configure(work.site, wanted, operation=work.operation.id)


def shared_memory(work: Work) -> None:
    """The running container's /dev/shm follows the memory limit; a new start has it anyhow."""
    site, wanted = work.site, picture(work.site, work.name, gpus=work.gpus())
    size, seen = shm_bytes(wanted), sighting(work.site, work.name)
    if size is None or _limits(work, "old") == _limits(work, "new") or seen.power is not Power.RUNNING:
        return
    ran = site.engine.run(work.name, ["sh", "-c", _REMOUNT, "sh", str(size)], environment={}, timeout_s=SHM_S)
    if ran.status == 3:  # noqa: PLR2004 - the script's own word for "more is in it"
        raise LxgpuError(
            "limits_failed",
            f"what {work.name} keeps in /dev/shm is more than the {format_size(size)} it would have",
            why=ran.output.strip().splitlines()[-1:],
            fix="end what uses it, or ask for more memory",
        )
    if ran.status != 0:
        site.say("its /dev/shm keeps its size until the next start")


def held(work: Work) -> Wait | None:
    """The kernel's cgroups hold what was asked for."""
    wanted, seen = picture(work.site, work.name, gpus=work.gpus()), sighting(work.site, work.name)
    try:
        check_limits(work.site, wanted, seen)
    except LxgpuError:
        until = work.deadline(BALANCE_S)
        if work.site.clock.now() >= until:
            raise
        return Wait(until)
    return None


def volume(work: Work) -> None:
    """The home volume's size, after everything else has worked."""
    row, site = work.instance(), work.site
    if _limits(work, "old").disk_bytes != row.limits.disk_bytes:
        site.engine.ensure_volume(site.settings.pool, home_volume(row.owner), size_bytes=row.limits.disk_bytes)


def settle(work: Work) -> None:
    """The history has it."""
    with work.site.write() as tx:
        tx.event("resized", work.name, detail={"from": _said(work, "old"), "to": _said(work, "new")})


def put_back(work: Work) -> None:
    """Undo: the inventory has the old limits, and LXD is told so."""
    with work.site.write() as tx:
        row = tx.records.instance(work.name)
        if row is not None:
            tx.put(replace(row, limits=_limits(work, "old")))
            tx.event("resize_undone", work.name, detail={"why": work.operation.error})
    old = _limits(work, "old").disk_bytes
    owner, site = work.instance().owner, work.site
    _try(work, lambda: _tell(work, before=_limits(work, "new")))
    if old != _limits(work, "new").disk_bytes:
        _try(work, lambda: site.engine.ensure_volume(site.settings.pool, home_volume(owner), size_bytes=old))
    _try(work, lambda: shared_memory(work))


def _try(work: Work, action: Callable[[], None]) -> None:
    """Go on with the undoing when one part of it cannot be done, and say so."""
    try:
        action()
    except LxgpuError as error:
        if error.code in {"unavailable", "superseded"}:
            raise
        work.site.say(f"not put back: {error.brief}" + (f" ({error.why[0]})" if error.why else ""))


RESIZE = Recipe(
    kind="resize",
    steps=(
        Step("room", "", room),
        Step("configure", "setting the limits", configured),
        Step("shm", "", shared_memory),
        Step("check", "reading them back", held),
        Step("volume", "", volume),
        Step("settle", "", settle),
    ),
    undo=(Step("back", "putting the old limits back", put_back),),
)


def plan_resize(site: Site, name: str, wanted: Limits) -> Plan:
    """What a resize would do; nothing is written, and nothing is measured inside."""
    lasting_instance(site, name)
    row = ready_instance(site, name)
    new = changed(row.limits, wanted)
    steps = tuple(
        PlannedStep("resize", name, why=f"{key} {_text(key, before)} → {_text(key, after)}")
        for (key, before), after in zip(asdict(row.limits).items(), asdict(new).values(), strict=True)
        if before != after
    )
    return Plan(decision=Verdict.GRANTED, steps=steps)


def resize(site: Site, name: str, wanted: Limits) -> bool:
    """Change limits, in the running container too. False: they are so already.

    Errors: `disk_in_use` and `limits_failed`, after the old limits were put back.
    """
    ensure_identity(site)
    lasting_instance(site, name)
    row = ready_instance(site, name)
    if changed(row.limits, wanted) == row.limits:
        return False
    check_disk(site, site.engine.pool(site.settings.pool), wanted)
    snapshot = observe.snapshot(site)

    def write(tx: Tx, now: Snapshot) -> str:
        make_way(tx, now, name)
        current = ready_row(now, name)
        new = changed(current.limits, wanted)
        args = {"old": asdict(current.limits), "new": asdict(new)}
        operation = new_operation(site, kind="resize", instance=name, args=args)
        tx.put(replace(current, limits=new), operation)
        return operation.id

    carry_out(site, RESIZE, name, lambda: decided(site, snapshot, write), gpus=snapshot.seen.gpus)
    return True


def _limits(work: Work, which: str) -> Limits:
    value = work.operation.args[which]
    assert isinstance(value, dict)  # noqa: S101 - written by `resize`
    return Limits(**value)


def _said(work: Work, which: str) -> dict[str, object]:
    """Those of the limits that change, for the history."""
    old, new = asdict(_limits(work, "old")), asdict(_limits(work, "new"))
    chosen = old if which == "old" else new
    return {key: chosen[key] for key in old if old[key] != new[key]}


def _text(key: str, value: int | None) -> str:
    if value is None:
        return "unlimited"
    return format_size(value) if key.endswith("_bytes") else str(value)
