"""Making a container and giving it to its person, step by step; and taking all of it away again when a step fails."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import InstanceState, Power, Sighting
from lxgpu.policy.lookup import instances_everywhere
from lxgpu.ports import Tx
from lxgpu.services import giving, instances, slots, taking
from lxgpu.services.account import give_account, prove_login
from lxgpu.services.configure import picture, set_rule
from lxgpu.services.images import template_for
from lxgpu.services.limits import check_limits
from lxgpu.services.recipes import Recipe, Step, Work
from lxgpu.services.wanted import KEY_OPERATION, base, full, home_volume
from lxgpu.services.workloads import answering


def volume(work: Work) -> None:
    """The home volume; one that is there already keeps what is in it."""
    site, row = work.site, work.instance()
    name = home_volume(row.owner)
    if "volume_new" not in work.operation.args:
        work.note(volume_new=not site.engine.has_volume(site.settings.pool, name))
    instances.insist(lambda: site.engine.ensure_volume(site.settings.pool, name, size_bytes=row.limits.disk_bytes))


def make(work: Work) -> None:
    """Home volume and container side by side, since each of them waits for the disk."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        for part in [pool.submit(volume, work), pool.submit(copy, work)]:
            part.result()


def copy(work: Work) -> None:
    """The container, as a copy of its image's template, stopped and without any card."""
    site = work.site
    if _made(work) is not None:
        return
    row = work.instance()
    wanted = picture(site, work.name, gpus=work.gpus())
    source = template_for(site, row.image, wanted.profile)
    try:
        site.engine.create(
            work.name, source=f"copy:{source}", change=base(wanted, operation=work.operation.id), profiles=()
        )
    except LxgpuError:
        instances.settle(site, work.name)
        if _made(work) is None:
            raise


def configure(work: Work) -> None:
    """Identity, promises, port and cards in one write; from here on the container is lxgpu's."""
    site = work.site
    wanted = picture(site, work.name, gpus=work.gpus())
    seen = instances.put(
        site,
        work.name,
        lambda now: full(wanted, now, attached=wanted.usable, operation=work.operation.id),
        read=lambda _site, _name: _present(work),
    )
    if wanted.instance.uuid != seen.uuid:
        with site.write() as tx:
            tx.put(replace(wanted.instance, uuid=seen.uuid))


def start(work: Work) -> None:
    """Start, and set the device rule of what runs then."""
    site = work.site
    seen = instances.sighting(site, work.name)
    if seen.power is not Power.RUNNING:
        try:
            site.engine.start(work.name)
        except LxgpuError:
            instances.settle(site, work.name)
            if instances.sighting(site, work.name).power is not Power.RUNNING:
                raise
    set_rule(site, picture(site, work.name, gpus=work.gpus()), instances.sighting(site, work.name))


def account(work: Work) -> None:
    """Account, keys, banner; then a login as the person through the published port, and the profile's services."""
    wanted = picture(work.site, work.name, gpus=work.gpus())
    prove_login(work.site, wanted, fresh=work.operation.kind in {"create", "rebuild"})
    answering(work)


def refresh_account(work: Work) -> None:
    """Keys and banner as they are now; what changed while it was stopped is made up for.

    A system that its owner broke starts all the same: that nothing could be written is said.
    """
    try:
        give_account(work.site, picture(work.site, work.name, gpus=work.gpus()))
    except LxgpuError as error:
        if error.code not in {"bootstrap_failed", "engine", "outcome_unknown"}:
            raise
        work.site.say(f"keys and banner are as they were before: {error.brief}")


def verify(work: Work) -> None:
    """Exactly the granted nodes, and the limits that were asked for."""
    giving.verify(work)
    check_limits(work.site, picture(work.site, work.name, gpus=work.gpus()), instances.sighting(work.site, work.name))


def confirm(work: Work) -> None:
    """The container is ready and its cards are held: in one transaction with the operation's end.

    Were the operation still open for a moment, an interruption then would undo what is in use.
    """
    work.at_last(partial(_ready, name=work.name))


def _ready(tx: Tx, *, name: str) -> None:
    slots.activate(tx, name)
    row = tx.records.instance(name)
    if row is not None and row.state is InstanceState.CREATING:
        tx.put(replace(row, state=InstanceState.READY))
        tx.event("created", name, detail={"owner": row.owner, "image": row.image, "profile": row.profile})


def remove(work: Work) -> None:
    """Undo: the container goes, if it is the one this operation made; another's of that name stays."""
    seen = work.site.engine.instance(work.name, with_state=False)
    if seen is None or not _mine(work, seen):
        return
    work.site.engine.stop(work.name, timeout_s=0, force=True)
    work.site.engine.delete(work.name)


def remove_home(work: Work) -> None:
    """Undo: the home volume goes, if this operation made it."""
    row = work.site.inventory.read().instance(work.name)
    if row is not None and work.flag("volume_new"):
        work.site.engine.delete_volume(work.site.settings.pool, home_volume(row.owner))


def detached(work: Work) -> None:
    """Undo: the cards are off; nothing proves yet that nobody holds them."""
    site = work.site
    work.at_last(partial(slots.detached, slots=taking.taken(work), host=site.host, at=site.clock.now()))


def forget(work: Work) -> None:
    """Undo: the inventory forgets what it had written down."""
    with work.site.write() as tx:
        row = tx.records.instance(work.name)
        if row is None:
            return
        tx.drop(row)
        tx.event(f"{work.operation.kind}_undone", work.name, detail={"why": work.operation.error})
        for fingerprint in work.texts("keys_new"):
            for key in tx.records.keys:
                if key.person == row.owner and key.fingerprint == fingerprint:
                    tx.drop(key)
        person = tx.records.person(row.owner)
        others = any(one.owner == row.owner for one in instances_everywhere(tx.records) if one.name != row.name)
        if person is not None and work.flag("person_new") and not others:  # another of theirs counts on them
            tx.drop(person)


CREATE = Recipe(
    kind="create",
    steps=(
        Step("make", "container and home volume", make),
        Step("fence", "", giving.prove),
        Step("configure", "limits, network, cards", configure),
        Step("start", "starting", start),
        Step("account", "account and SSH login", account),
        Step("verify", "checking cards and limits", verify),
        Step("confirm", "", confirm),
    ),
    undo=(
        Step("back", "", giving.take_back),
        Step("remove", "removing what was made", remove),
        Step("home", "", remove_home),
        Step("detached", "", detached),
        Step("fence", "", taking.prove),
        Step("forget", "", forget),
    ),
)


def _made(work: Work) -> Sighting | None:
    """The container if it is the one of this operation; error `exists` if it is another's."""
    seen = work.site.engine.instance(work.name, with_state=False)
    if seen is not None and not _mine(work, seen):
        raise exists(work.name)
    return seen


def _mine(work: Work, seen: Sighting) -> bool:
    row = work.site.inventory.read().instance(work.name)
    return seen.config.get(KEY_OPERATION) == work.operation.id or (row is not None and row.uuid == seen.uuid != "")


def _present(work: Work) -> Sighting:
    seen = _made(work)
    if seen is None:
        raise LxgpuError("missing", f"{work.name} vanished while it was being made", fix="repeat the command")
    return seen


def exists(name: str) -> LxgpuError:
    """The error that an instance of that name is there, made by somebody else."""
    return LxgpuError(
        "exists",
        f"LXD has an instance {name} that lxgpu did not make",
        fix=f"lxgpu adopt {name} takes it over; or choose another name",
    )
