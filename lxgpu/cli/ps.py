"""`lxgpu ps`: the processes on the cards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from lxgpu.cli import params
from lxgpu.cli.render import Column, Output
from lxgpu.figures import short_size

if TYPE_CHECKING:
    from lxgpu.services.looking import Look

FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """A process on a card: the fields of `lxgpu.processes/v1`.

    `pid` is the host's. `instance` is None for the host's own processes, which are nobody's. `kind` is compute or
    graphics (a display server).
    """

    gpu: str
    index: int | None
    pid: int
    instance: str | None
    user: str | None
    kind: str
    memory_bytes: int | None
    command: str | None


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@params.output
def ps(out: Output, name: str | None) -> None:
    """List the processes on the cards: whose they are, what they take, what they run.

    With NAME only those of one container. A process of the host itself is shown as foreign.
    """
    from lxgpu.cli import looks  # noqa: PLC0415 -- not for --help

    scene = looks.scene(out.screen)
    assert scene.look is not None  # noqa: S101 -- a scene of now has one
    rows = [row for row in process_rows(scene.look) if name in {None, row.instance}]
    if name is not None and not rows:
        looks.check_known(name, scene.records)
    for uuid in silent(scene.look):
        out.screen.warn(f"NVML does not list the processes of {uuid}")
    out.items("processes", rows, process_columns([view.uuid for view in scene.cards.views], form=out.form))
    if not rows:
        out.screen.note("no processes on the cards" if name is None else f"{name} has no process on a card")


def process_rows(look: Look) -> tuple[ProcessRow, ...]:
    """The processes that NVML lists, by card and pid."""
    return tuple(
        ProcessRow(
            gpu=reading.uuid,
            index=reading.index,
            pid=one.pid,
            instance=one.instance,
            user=one.user,
            kind=one.kind,
            memory_bytes=one.memory_bytes,
            command=one.command,
        )
        for reading in look.readings.items
        for one in sorted(reading.processes or (), key=lambda one: one.pid)
    )


def silent(look: Look) -> tuple[str, ...]:
    """The cards of which NVML does not list processes: not known is not none."""
    return tuple(reading.uuid for reading in look.readings.items if reading.processes is None and reading.uuid)


def process_columns(uuids: list[str], *, form: str) -> tuple[Column, ...]:
    """One process a line; tables for people write UUIDs as short as tells them apart."""
    from lxgpu.model.cardnames import short_uuids  # noqa: PLC0415

    names = short_uuids(uuids) if form in {"table", "wide"} else {}
    return (
        Column("PID", "pid"),
        Column("GPU", "gpu", text=lambda uuid: names.get(uuid, str(uuid))),
        Column("CONTAINER", lambda item: item.instance or (FOREIGN if form in {"table", "wide"} else None)),
        Column("USER", "user"),
        Column("MEMORY", "memory_bytes", text=short_size),
        Column("KIND", "kind", wide=True),
        Column("IDX", "index", wide=True),
        Column("COMMAND", "command"),
    )
