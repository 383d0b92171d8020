"""The steps that make a container that was made by hand one of lxgpu's, and those that leave it as it was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lxgpu.errors import LxgpuError
from lxgpu.model import devices
from lxgpu.model.assignment import AssignmentState
from lxgpu.model.instance import InstanceState, Power, Sighting
from lxgpu.ports import Change
from lxgpu.services import instances, leaving, making, slots
from lxgpu.services.configure import picture
from lxgpu.services.recipes import Recipe, Step, Work
from lxgpu.services.wanted import full, home_path, home_volume

SIDE_DEVICE = "lxgpu-home"
SIDE = "/var/lib/lxgpu-home"
"""Where the home volume is mounted while the home is copied into it."""
FIT_S = 3600.0
BACK_S = 600.0


def stop(work: Work) -> None:
    """Stop it where something changes that a running container cannot take."""
    if work.flag("restart"):
        _stop(work, instances.by_uuid(work.site, work.name))


def mark(work: Work) -> None:
    """Identity, limits, network and cards; its port stays closed, and its home where it is."""
    wanted = picture(work.site, work.name, gpus=work.gpus())
    aside = devices.home_device(pool=work.site.settings.pool, volume=home_volume(wanted.person.name), path=SIDE)
    shut = {"home": None, "ssh": None, SIDE_DEVICE: aside if work.flag("account") else None}
    _write(work, shut)


def fit(work: Work) -> None:
    """The settings of sshd inside, and the home into its volume."""
    site, wanted = work.site, picture(work.site, work.name, gpus=work.gpus())
    work.note(fitted=True)
    values = {"person": wanted.person, "home": home_path(wanted.person.name), "side": SIDE}
    script = site.texts.render("adopt.sh.j2", **values)
    ran = site.engine.run(work.name, ["sh", "-c", script], environment={}, timeout_s=FIT_S)
    if ran.status != 0:
        raise LxgpuError(
            "bootstrap_failed",
            f"{work.name} could not be made fit for lxgpu",
            why=ran.output.strip().splitlines()[-5:] or f"the script ended with status {ran.status}",
            fix="mend it inside, then adopt it again; templates/adopt.sh.j2 is what was run",
        )


def settle_in(work: Work) -> None:
    """The home volume where the home is, and the port open."""
    _write(work, {SIDE_DEVICE: None})


def confirm(work: Work) -> None:
    """It is lxgpu's, its cards are held; one that did not run does not run after it."""
    with work.site.write() as tx:
        slots.activate(tx, work.name)
    if not work.flag("was_running"):
        leaving.stop(work)
    with work.site.write() as tx:
        row = tx.records.instance(work.name)
        if row is not None and row.state is InstanceState.CREATING:
            tx.put(replace(row, state=InstanceState.READY, running=work.flag("was_running")))
            tx.event("adopted", work.name, detail={"owner": row.owner, "was_running": work.flag("was_running")})
    if work.flag("account"):
        work.site.say("its old home lies beside the new one, with .before-lxgpu behind its name, until it is removed")


def as_before(work: Work) -> None:
    """Undo: account and home inside, then configuration and devices, then whether it runs."""
    site, seen = work.site, work.site.engine.instance(work.name)
    row = site.inventory.read().instance(work.name)
    if seen is None or row is None or seen.uuid != row.uuid:
        return
    if seen.ours and seen.power is Power.RUNNING and work.flag("fitted"):
        _unfit(work)
    if work.flag("restart") or not work.flag("was_running"):
        _stop(work, seen)
    instances.put(site, work.name, lambda now: _before(work, now), read=instances.by_uuid)
    if work.flag("was_running"):
        site.engine.start(work.name)
        _lift(work)


def forget(work: Work) -> None:
    """Undo: the inventory forgets it; somebody unknown holds its cards again, so no earlier proof counts."""
    with work.site.write() as tx:
        row = tx.records.instance(work.name)
        if row is None:
            return
        for held in tx.records.held_by(work.name):
            tx.put(replace(held, state=AssignmentState.CLOSED, closed_at=work.site.clock.now(), outcome="adopt undone"))
            known = tx.records.slot(held.slot)
            if known is not None:
                tx.put(replace(known, proven_at=None))
        tx.drop(row)
        new = work.texts("keys_new")
        for key in tx.records.keys:
            if key.person == row.owner and key.fingerprint in new:
                tx.drop(key)
        person = tx.records.person(row.owner)
        if person is not None and work.flag("person_new"):
            tx.drop(person)
        tx.event("adopt_undone", work.name, detail={"why": work.operation.error})


def remove_home(work: Work) -> None:
    """Undo: the volume that was made goes, unless the only whole copy of the home may be in it."""
    if work.flag("fitted") and work.flag("account") and not work.flag("home_back"):
        work.site.say("its home could not be moved back: it lies in the home volume, and beside it inside")
        return
    making.remove_home(work)


ADOPT = Recipe(
    kind="adopt",
    steps=(
        Step("volume", "home volume", making.volume),
        Step("stop", "", stop),
        Step("mark", "limits, network, cards", mark),
        Step("start", "", making.start),
        Step("fit", "making it fit", fit),
        Step("configure", "", settle_in),
        Step("account", "account and SSH login", making.account),
        Step("verify", "checking cards and limits", making.verify),
        Step("confirm", "", confirm),
    ),
    undo=(
        Step("before", "leaving it as it was", as_before),
        Step("home", "", remove_home),
        Step("forget", "", forget),
    ),
)


def _write(work: Work, extra: Mapping[str, Mapping[str, str] | None]) -> None:
    wanted = picture(work.site, work.name, gpus=work.gpus())
    drop = work.operation.args.get("drop")
    away = drop if isinstance(drop, dict) else {}

    def build(now: Sighting) -> Change:
        change = full(wanted, now, attached=wanted.usable, operation=work.operation.id)
        gone: dict[str, Mapping[str, str] | None] = {
            str(name): None if own else {"type": "none"} for name, own in away.items()
        }
        return replace(change, devices={**gone, **change.devices, **extra})

    instances.put(work.site, work.name, build, read=instances.by_uuid)


def _stop(work: Work, seen: Sighting) -> None:
    if seen.power is not Power.STOPPED:
        leaving.end(work.site, work.name)


def _unfit(work: Work) -> None:
    """Account and home as they were; the volume must not be mounted over the home for that."""
    site, wanted = work.site, picture(work.site, work.name, gpus=work.gpus())
    off = Change(devices={"home": None, "ssh": None, SIDE_DEVICE: None})
    try:
        instances.put(site, work.name, lambda _: off, read=instances.by_uuid)
        script = site.texts.render("unadopt.sh.j2", person=wanted.person)
        ran = site.engine.run(work.name, ["sh", "-c", script], environment={}, timeout_s=BACK_S)
    except LxgpuError as error:
        if error.code != "engine":
            raise
        site.say(f"inside nothing could be taken back: {error.brief}")
        return
    work.note(home_back=ran.status == 0)


def _before(work: Work, now: Sighting) -> Change:
    """What it takes to make the instance as it was found; LXD's own keys stay its own."""
    before = work.operation.args["before"]
    assert isinstance(before, dict)  # noqa: S101 - written when it was begun
    config: dict[str, str | None] = {key: None for key in now.config if not key.startswith("volatile.")}
    devices_: dict[str, Mapping[str, str] | None] = dict.fromkeys(now.devices)
    return Change(config=config | before["config"], devices=devices_ | before["devices"])


def _lift(work: Work) -> None:
    """Without lxgpu no rule denies anything."""
    seen = work.site.engine.instance(work.name)
    if seen is not None and seen.init_pid is not None:
        every = [node for gpu in work.gpus() for node in gpu.nodes]
        work.site.probe.set_rule(seen.init_pid, denied=(), allowed=every)
