"""`lxgpu lab`: a private real LXD with pretend GPUs, to rehearse and to test."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from lxgpu.cli import params
from lxgpu.cli.render import Column, Output
from lxgpu.cli.screen import Screen

NAME = click.option(
    "--name",
    default="lab",
    show_default="$LXGPU_LAB, else lab",
    envvar="LXGPU_LAB",
    help="Which lab; several live side by side.",
)


@click.group()
def lab() -> None:
    """A private real LXD with pretend GPUs, to try everything."""


@lab.command("up")
@NAME
@click.option("--gpus", type=int, help="How many cards.  [default: 4]")
@click.option("--model", "models", multiple=True, help="A card's model; once for all cards, or once for each.")
@click.option("--engine", default="lxd", show_default=True, help="lxd or incus.")
@click.option("--members", default=1, show_default=True, help="Hosts in one cluster.")
@click.option("--policy", type=params.FilePath(path_type=Path), help="Another policy file.")
@click.option("--mappable/--no-mappable", default=None, help="Let the last card's render node be mapped into memory.")
@params.pass_screen
def up_command(
    screen: Screen,
    *,
    name: str,
    gpus: int | None,
    models: tuple[str, ...],
    engine: str,
    members: int,
    policy: Path | None,
    mappable: bool | None,
) -> None:
    """Bring a lab up, or what is missing of it."""
    from lxgpu.lab import LabSpec, up  # noqa: PLC0415 -- not for --help

    spec = LabSpec(
        name=name, gpus=gpus, models=models, engine=engine, members=members, policy=policy, mappable=mappable
    )
    made = up(spec, progress=screen.note)
    option = "" if made.name == "lab" else f" --name {made.name}"
    screen.note(f'enter it:  eval "$(lxgpu lab env{option})"')


@lab.command("down")
@NAME
@click.option("--purge-cache", is_flag=True, help="Remove the cached base images as well.")
@params.pass_screen
def down_command(screen: Screen, *, name: str, purge_cache: bool) -> None:
    """Take a lab away: processes, mounts, links, devices, files."""
    from lxgpu.lab import down  # noqa: PLC0415
    from lxgpu.lab.image_cache import purge_cache as purge  # noqa: PLC0415

    if not down(name, progress=screen.note):
        screen.note(f"there is no lab {name}")
    if purge_cache:
        purge()


@lab.command("env")
@NAME
@params.pass_screen
def env_command(screen: Screen, *, name: str) -> None:
    """Print the variables that point the following commands at the lab, for `eval`."""
    from lxgpu.lab.record import require  # noqa: PLC0415

    for variable, value in require(name).env().items():
        screen.data(f"export {variable}={shlex.quote(value)}")


STATUS_COLUMNS = (
    Column("LAB", "name"),
    Column("STATE", "state"),
    Column("GPUS", lambda item: len(item.gpus)),
    Column("CONTAINERS", "instances"),
    Column("BRIDGE", "bridge"),
    Column("SUBNET", "subnet"),
    Column("SOCKET", "socket", wide=True),
)


@lab.command("status")
@click.option("--name", help="Only this lab.  [default: all]")
@params.output
def status_command(out: Output, *, name: str | None) -> None:
    """Show the labs of this machine."""
    from lxgpu.lab.status import status  # noqa: PLC0415

    out.items("labs", status(name), STATUS_COLUMNS, empty="no labs; `lxgpu lab up` makes one")


@lab.command("job")
@click.argument("container")
@NAME
@click.option("--gpu", help="Index, PCI address or UUID.  [default: the first card inside]")
@click.option("--util", type=click.IntRange(0, 100), default=90, show_default=True, help="Per cent busy.")
@click.option("--memory", type=params.SIZE, default="1GiB", show_default=True, help="Memory taken on the card.")
@click.option("--ignore-term", is_flag=True, help="SIGTERM does nothing.")
@click.option("--respawn", is_flag=True, help="Killed, it starts again.")
@click.option("--for", "seconds", type=params.DURATION, help="How long.  [default: until it is ended]")
@click.option("--user", help="The account inside.  [default: root]")
@click.option(
    "--hold", default="open", show_default=True, help="open, map (a mapping alone) or fd-passed (in a socket)."
)
@params.pass_screen
def job_command(
    screen: Screen,
    *,
    container: str,
    name: str,
    gpu: str | None,
    util: int,
    memory: int,
    ignore_term: bool,
    respawn: bool,
    seconds: int | None,
    user: str | None,
    hold: str,
) -> None:
    """Start a process in a container that holds a card; prints its pid on the host."""
    from lxgpu.lab.jobs import JobSpec, start_job  # noqa: PLC0415
    from lxgpu.lab.record import require  # noqa: PLC0415

    job = JobSpec(
        instance=container,
        gpu=gpu,
        util_percent=util,
        memory_bytes=memory,
        hold=hold,
        ignore_term=ignore_term,
        respawn=respawn,
        seconds=seconds,
        user=user,
    )
    screen.data(str(start_job(require(name), job).pid))


@lab.command("fault")
@click.argument("gpu")
@click.argument("fault")
@NAME
@params.pass_screen
def fault_command(screen: Screen, *, gpu: str, fault: str, name: str) -> None:
    """Bring a fault about on a card (or `all`): lost, unknown, hang, noutil, noproc, xid:N; `clear` ends it.

    fail:CALL:CODE lets one NVML call fail; mismatch and nodriver (with `all`) keep NVML from starting,
    reboot (with `all`) takes MIG slices away as a restart of the machine does.
    """
    from lxgpu.lab.faults import set_fault  # noqa: PLC0415
    from lxgpu.lab.record import require  # noqa: PLC0415

    set_fault(require(name), gpu, fault)
    screen.note(f"{gpu}: {fault}")
