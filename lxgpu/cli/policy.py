"""`lxgpu policy`: is the policy file right, and what does it give to whom."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lxgpu.cli import params
from lxgpu.cli.render import Column, Output
from lxgpu.cli.screen import Screen
from lxgpu.units import format_duration, format_size

if TYPE_CHECKING:
    from lxgpu.model.quota import Entitlement, Policy
    from lxgpu.services.site import Site

FILE = click.argument("file", required=False, type=click.Path(path_type=Path))
EVERYBODY_ELSE = "(everybody else)"

CHECK_COLUMNS = (
    Column("FILE", "file"),
    Column("CLASSES", "classes"),
    Column("GROUPS", "groups"),
    Column("USERS", "users"),
    Column("OVERRIDES", "overrides"),
    Column("CARDS", "cards"),
)
SHOW_COLUMNS = (
    Column("PERSON", "person"),
    Column("CLASS", "class_name"),
    Column("GUARANTEED", "guaranteed"),
    Column("LIMIT", "limit"),
    Column("LEASE", "lease_s", format_duration),
    Column("CPU", "cpu"),
    Column("MEMORY", "memory_bytes", format_size),
    Column("DISK", "disk_bytes", format_size),
    Column("PROCESSES", "processes", wide=True),
    Column("CPU/GPU", "per_gpu_cpu", wide=True),
    Column("MEMORY/GPU", "per_gpu_memory_bytes", format_size, wide=True),
    Column("WEIGHT", "weight", wide=True),
    Column("GROUPS", "groups", ", ".join),
    Column("UNTIL", "until"),
)


@click.group()
def policy() -> None:
    """Check and show who may have what."""


@policy.command()
@FILE
@click.option("--gpus", type=click.IntRange(min=0), help="How many cards there are.  [default: those in the inventory]")
@params.output
def check(out: Output, file: Path | None, gpus: int | None) -> None:
    """Check a policy FILE, or the one in use: every mistake at once, with its line.

    Exit status 2 if there is any. Guarantees are held against the number of cards.
    """
    from lxgpu.config.policy import load_policy  # noqa: PLC0415 -- not for --help
    from lxgpu.wiring import settings, unix_groups  # noqa: PLC0415

    path = file or settings().policy
    cards = _known_cards() if gpus is None else gpus
    found = load_policy(path, cards=cards, unix_groups=unix_groups)
    summary = {
        "file": str(path),
        "classes": list(found.classes),
        "groups": list(found.groups),
        "users": len(found.users),
        "overrides": len(found.overrides),
        "cards": cards,
    }
    out.item("policies", summary, CHECK_COLUMNS)
    if cards is None:
        out.screen.note("no card is known yet, so guarantees were not summed; give --gpus N")
    out.screen.note(f"{path} is right")


@policy.command()
@click.argument("file", metavar="[FILE|NAME]", required=False, type=click.Path(path_type=Path))
@click.option("--person", metavar="NAME", help="One person, named in the file or not.")
@params.output
def show(out: Output, file: Path | None, person: str | None) -> None:
    """Show what each person may have now, all levels of the file merged.

    A word that is no file is a person: `policy show alice` tells of alice alone, with her classes and groups.
    """
    from datetime import UTC, datetime  # noqa: PLC0415 -- not for --help

    from lxgpu.config.policy import load_policy  # noqa: PLC0415
    from lxgpu.wiring import settings, unix_groups  # noqa: PLC0415

    if file is not None and not person and _is_person(file):
        file, person = None, str(file)
    found, now = load_policy(file or settings().policy), datetime.now(tz=UTC)
    if person:
        from lxgpu.cli.entitled import person_sheet  # noqa: PLC0415 -- for one person

        mine = unix_groups(person)
        row = found.entitlement(person, found.groups_of(person, mine), now)
        out.sheet("entitlements", row, SHOW_COLUMNS, lambda: person_sheet(found, row, mine, now))
        return
    rows: list[Entitlement] = [
        found.entitlement(name, found.groups_of(name, unix_groups(name)), now) for name in _named(found)
    ]
    rows.append(found.entitlement(EVERYBODY_ELSE, found.groups_of(EVERYBODY_ELSE, ()), now))
    out.items("entitlements", rows, SHOW_COLUMNS)


@policy.command()
@FILE
@params.output
@click.pass_context
def plan(ctx: click.Context, /, out: Output, file: Path | None) -> None:
    """Rehearse an edit: what the policy in FILE would do to those who have cards, bookings and requests now.

    Status 10 when it would do something, 0 when nobody would notice, 2 when the file has mistakes. Without FILE: what
    people have that the policy in force would not give them.
    """
    from lxgpu import wiring  # noqa: PLC0415 -- not for --help
    from lxgpu.cli.times import lab_times  # noqa: PLC0415
    from lxgpu.config.policy import load_policy  # noqa: PLC0415
    from lxgpu.services.policyplan import plan_policy  # noqa: PLC0415

    new = load_policy(file, cards=_known_cards(), unix_groups=wiring.unix_groups) if file else None
    times, _ = lab_times(out.screen)
    found = plan_policy(_site_to_look_at(out.screen), new)
    columns = (
        Column("AT", "at", times.show),
        Column("WHO", "subject"),
        Column("GPUS", "gpus"),
        Column("WHAT", "text"),
        Column("CODE", "code", wide=True),
    )
    out.items("effects", found, columns, empty="nobody who has something now would notice")
    if found:
        ctx.exit(10)


def _site_to_look_at(screen: Screen) -> Site:
    """The site as it is; over an empty inventory where there is none yet, which is not made by looking."""
    from lxgpu import wiring  # noqa: PLC0415

    if not (wiring.settings().state_dir / wiring.INVENTORY).exists():
        return wiring.empty_site(screen.note)
    return wiring.site(screen.note, read_only=True)


@policy.command()
@params.pass_screen
def schema(screen: Screen) -> None:
    """Print the JSON Schema of policy.yaml, for editors.

    An editor completes and checks a file whose first line is `# yaml-language-server: $schema=policy.schema.json`.
    """
    from lxgpu.cli.documents import json_text  # noqa: PLC0415 -- not for --help
    from lxgpu.config.schema import policy_schema  # noqa: PLC0415

    screen.data(json_text(policy_schema()))


def _is_person(word: Path) -> bool:
    """Whether a word is meant as a name: there is no file of it, and a person may be called like that."""
    from lxgpu.model.names import person_fault  # noqa: PLC0415

    return not word.exists() and not person_fault(str(word))


def _named(found: Policy) -> list[str]:
    members = {member for group in found.groups.values() for member in group.members if member[0] not in "@*"}
    return sorted(members | set(found.users))


def _known_cards() -> int | None:
    """The cards in service as the inventory remembers them; None where there is no inventory yet."""
    from lxgpu.wiring import INVENTORY, inventory, settings  # noqa: PLC0415 -- not for --help

    if not (settings().state_dir / INVENTORY).exists():
        return None
    return sum(not card.closed for card in inventory(read_only=True).read().cards) or None
