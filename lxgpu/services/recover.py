"""What a crash left half done is ended by the next command: forward where it can, back where it must."""

from __future__ import annotations

from lxgpu.errors import LxgpuError
from lxgpu.services import observe
from lxgpu.services.adopting import ADOPT
from lxgpu.services.keys import KEYS
from lxgpu.services.leaving import DELETE, EMPTY, RESUME, SUSPEND
from lxgpu.services.lending import ATTACH, RELEASE
from lxgpu.services.making import CREATE
from lxgpu.services.mend import MEND, mend
from lxgpu.services.operations import advance, finish
from lxgpu.services.power import RESTART, START, STOP
from lxgpu.services.recipes import Recipe
from lxgpu.services.renaming import RENAME
from lxgpu.services.renewal import REBUILD
from lxgpu.services.reshape import RESIZE
from lxgpu.services.running import RUN
from lxgpu.services.runs import end_abandoned
from lxgpu.services.site import Site
from lxgpu.services.snapshots import RESTORE, SNAPSHOT, UNSNAPSHOT
from lxgpu.services.untrash import UNTRASH

RECIPES: dict[str, Recipe] = {
    recipe.kind: recipe
    for recipe in (
        CREATE,
        DELETE,
        SUSPEND,
        RESUME,
        ATTACH,
        RELEASE,
        START,
        STOP,
        RESTART,
        MEND,
        EMPTY,
        KEYS,
        REBUILD,
        RENAME,
        RESIZE,
        SNAPSHOT,
        UNSNAPSHOT,
        RESTORE,
        ADOPT,
        UNTRASH,
        RUN,
    )
}


def recover(site: Site) -> None:
    """Take every abandoned operation and run to its end; what is in another process's hand is left to it.

    An operation that fails again stays in the journal and is said; it stops nobody else. Cards that our containers
    show and do not hold (a snapshot restored, devices edited by hand) are taken off.
    """
    end_abandoned(site)
    _end_operations(site)
    mend(site, observe.look(site))


def _end_operations(site: Site) -> None:
    for operation in site.inventory.read().operations:
        if not operation.live:
            continue
        with site.locks.hold(operation.instance, wait_s=0) as free:
            pass
        if not free:
            continue
        site.say(f"going on with {operation.kind} of {operation.instance}, begun by {operation.actor}")
        recipe = RECIPES[operation.kind]
        try:
            if operation.args.get("rule"):  # a tick took it, and ticks go on with it: nobody needs to wait for that
                advance(site, recipe, operation.id)
            else:
                finish(site, recipe, operation.id)
        except LxgpuError as error:
            site.say(f"{operation.kind} of {operation.instance}: {error.brief}")
