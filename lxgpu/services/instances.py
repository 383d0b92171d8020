"""Writing to an instance in LXD: guarded by ETag, judged by re-reading, refused when a newer epoch is in charge."""

from __future__ import annotations

from collections.abc import Callable

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Sighting
from lxgpu.ports import Change
from lxgpu.services.identity import KEY_EPOCH
from lxgpu.services.site import Site

TRIES = 25
AGAIN_S = 0.02
"""Somebody else may be writing all the time; each further try waits a little longer, so that one of them fits in."""
DOUBTS = 2
"""A write that failed and did not land is sent once more; a lost operation deserves that, a refusal ends there."""
_DOUBTFUL = frozenset({"engine", "outcome_unknown"})

Build = Callable[[Sighting], Change]


def sighting(site: Site, name: str, *, with_state: bool = True) -> Sighting:
    """One of our instances as LXD has it now; of its state only the init, or nothing where that is not wanted either.

    Errors: `missing` (the inventory knows it, LXD does not), `not_ours`, `superseded`.
    """
    seen = present(site, name, with_state=with_state)
    check_ours(site, seen)
    return seen


def present(site: Site, name: str, *, with_state: bool = True) -> Sighting:
    """An instance as LXD has it now, whoever made it; error `missing`."""
    seen = site.engine.glimpse(name) if with_state else site.engine.instance(name, with_state=False)
    if seen is None:
        raise LxgpuError(
            "missing",
            f"LXD has no instance {name}, though the inventory does",
            why="it was removed behind lxgpu's back",
            fix=f"lxgpu delete {name} --yes (its home volume stays), then create it again",
        )
    return seen


def check_ours(site: Site, seen: Sighting) -> None:
    """Refuse an instance that is not lxgpu's, and one that a newer inventory has taken over.

    One that only lost its mark is the same container by LXD's own identity; the next write marks it again.
    """
    if not seen.ours and not _meant(site, seen):
        raise LxgpuError(
            "not_ours",
            f"{seen.name} is not an instance of lxgpu",
            why="its mark is missing or belongs to the instance it was copied from",
            fix=f"lxgpu adopt {seen.name}, or give the new container another name",
        )
    identity = site.inventory.read().identity
    theirs = int(seen.config.get(KEY_EPOCH, "0"))
    if identity is not None and theirs > identity.epoch:
        raise LxgpuError(
            "superseded",
            f"{seen.name} is looked after by a newer inventory",
            why=f"it carries epoch {theirs}, this database has {identity.epoch}",
            fix="lxgpu inventory rebuild",
        )


def _meant(site: Site, seen: Sighting) -> bool:
    row = site.inventory.read().instance(seen.name)
    return row is not None and bool(row.uuid) and row.uuid == seen.uuid


def by_uuid(site: Site, name: str) -> Sighting:
    """The instance that the row means, by LXD's own identity alone, since our mark may be missing; without its state.

    Errors: `missing`, `not_ours`: another one has its name.
    """
    seen, row = present(site, name, with_state=False), site.inventory.read().instance(name)
    if row is None or seen.uuid != row.uuid:
        raise LxgpuError(
            "not_ours",
            f"LXD has another instance under the name {name}",
            why=f"its identity is {seen.uuid or 'not told'}, the inventory knows {row.uuid if row else 'none'}",
            fix="rename that one, or lxgpu delete this one; lxgpu inventory verify compares them",
        )
    return seen


def plainly(site: Site, name: str) -> Sighting:
    """One of our instances without its state: all that a write needs."""
    return sighting(site, name, with_state=False)


def put(
    site: Site,
    name: str,
    build: Build,
    *,
    read: Callable[[Site, str], Sighting] = plainly,
    first: Sighting | None = None,
) -> Sighting:
    """Make a change true in one guarded write, whatever LXD answers; the change is built from what is there.

    `first` is what `read` gave a moment ago. A stale ETag means reading and building again. After an error or a
    time-out nothing is believed: a barrier waits for what may still land, then the instance is read and judged. Gives
    the sighting, as `read` gives it, in which the change is true.
    """
    doubts: list[LxgpuError] = []
    for turn in range(TRIES):
        seen = first if first is not None and not turn else read(site, name)
        change = build(seen)
        if true_of(seen, change):
            return seen
        if len(doubts) >= DOUBTS:
            raise doubts[-1]
        try:
            site.engine.update(name, change, etag=seen.etag)
        except LxgpuError as error:
            if error.code in _DOUBTFUL:
                settle(site, name)
                doubts.append(error)
            elif error.code != "conflict":
                raise
            else:
                site.clock.sleep(AGAIN_S * turn)
    raise LxgpuError(
        "conflict", f"{name} changes too fast to be written", why=f"{TRIES} writes met a newer state", fix="repeat it"
    )


def settle(site: Site, name: str) -> None:
    """Wait for what may still land.

    A barrier that LXD refuses has waited all the same: with a full disk LXD applies what it answers with an error.
    """
    try:
        site.engine.barrier(name)
    except LxgpuError as error:
        if error.code != "engine":
            raise


def insist(do: Callable[[], None]) -> None:
    """Do an idempotent thing, and once more when it is not known whether it was done: the second call finds out."""
    try:
        do()
    except LxgpuError as error:
        if error.code not in _DOUBTFUL:
            raise
        do()


def true_of(seen: Sighting, change: Change) -> bool:
    """Whether nothing is left to write."""
    config = all(seen.config.get(key) == value for key, value in change.config.items())
    devices = all(
        seen.devices.get(name) == (None if device is None else dict(device)) for name, device in change.devices.items()
    )
    return config and devices
