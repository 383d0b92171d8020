"""`lxgpu lab`: a private real LXD with pretend GPUs, to rehearse and to test."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

NAME = click.option("--name", default="lab", show_default=True, help="Which lab; several live side by side.")


def _tell(line: str) -> None:
    click.echo(line, err=True)


@click.group()
def lab() -> None:
    """A private real LXD with pretend GPUs, to try everything."""


@lab.command("up")
@NAME
@click.option("--gpus", type=int, help="How many cards.  [default: 4]")
@click.option("--model", "models", multiple=True, help="A card's model; give it once for all cards or once a card.")
@click.option("--engine", default="lxd", show_default=True, help="lxd or incus.")
@click.option("--members", default=1, show_default=True, help="Hosts in one cluster.")
@click.option("--policy", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Another policy file.")
@click.option("--mappable/--no-mappable", default=None, help="Let the last card's render node be mapped into memory.")
def up_command(
    name: str,
    gpus: int | None,
    models: tuple[str, ...],
    engine: str,
    members: int,
    policy: Path | None,
    mappable: bool | None,  # noqa: FBT001
) -> None:
    """Bring a lab up, or what is missing of it."""
    from lxgpu.lab import LabSpec, up  # noqa: PLC0415 -- start-up time of the other commands

    made = up(
        LabSpec(name=name, gpus=gpus, models=models, engine=engine, members=members, policy=policy, mappable=mappable),
        progress=_tell,
    )
    option = "" if name == "lab" else f" --name {made.name}"
    _tell(f'enter it:  eval "$(lxgpu lab env{option})"')


@lab.command("down")
@NAME
@click.option("--purge-cache", is_flag=True, help="Remove the cached base images as well.")
def down_command(name: str, purge_cache: bool) -> None:  # noqa: FBT001 -- click's way
    """Take a lab away: processes, mounts, links, devices, files."""
    from lxgpu.lab import down  # noqa: PLC0415
    from lxgpu.lab.image_cache import purge_cache as purge  # noqa: PLC0415

    if not down(name, progress=_tell):
        _tell(f"there is no lab {name}")
    if purge_cache:
        purge()


@lab.command("env")
@NAME
def env_command(name: str) -> None:
    """Print the variables that point the following commands at the lab, for `eval`."""
    from lxgpu.lab.record import require  # noqa: PLC0415

    for variable, value in require(name).env().items():
        click.echo(f"export {variable}={shlex.quote(value)}")
