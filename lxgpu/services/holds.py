"""What an instance carries of its own assignments, brought in line when only their times changed."""

from __future__ import annotations

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import ATTACHED
from lxgpu.model.instance import Sighting
from lxgpu.model.snapshot import Records
from lxgpu.ports import Change
from lxgpu.services import instances
from lxgpu.services.site import Site
from lxgpu.services.wanted import KEY_HOLDS, holds_text


def mirror_holds(site: Site, name: str) -> None:
    """Write the times of what an instance holds into LXD, so that `inventory rebuild` has them.

    What does not work is said: the inventory has it, and the next change of the instance writes it anew. One that an
    operation is at work on is left to that.
    """
    records = site.inventory.read()
    if not records.held_by(name) or any(row.live and row.instance == name for row in records.operations):
        return

    def build(seen: Sighting) -> Change:
        del seen
        return Change(config={KEY_HOLDS: wanted_holds(records, name)})

    try:
        instances.put(site, name, build)
    except LxgpuError as error:
        site.say(f"the new times are not written into LXD yet: {error.brief}")


def wanted_holds(records: Records, name: str) -> str:
    """The text that an instance carries of what it holds while nothing is under way on it."""
    rows = records.held_by(name)
    return holds_text(rows, [row.slot for row in rows if row.state in ATTACHED])
