"""`lxgpu doctor`: what is wrong with the host, with a remedy each."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, cast

import click

from lxgpu.cli import params
from lxgpu.cli.render import Column, Output
from lxgpu.errors import LxgpuError
from lxgpu.model.plan import Plan, PlannedStep, Verdict

if TYPE_CHECKING:
    from lxgpu.services.checkup import Check


def _verdict(item: object) -> str:
    check = cast("Check", item)
    return "fixed" if check.fixed else check.verdict.value


COLUMNS = (
    Column("CHECK", "id"),
    Column("VERDICT", _verdict),
    Column("FINDING", "text"),
    Column("REMEDY", lambda item: cast("Check", item).remedy or None),
)


@click.command()
@click.option("--fix", "mend", is_flag=True, help="Mend what is safe: kernel parameters, modes, nodes, drift.")
@click.option("--all", "everything", is_flag=True, help="List what is right too.")
@params.change
@params.output
@click.pass_context
def doctor(ctx: click.Context, /, out: Output, *, mend: bool, everything: bool, dry_run: bool, yes: bool) -> None:
    """Look for what is wrong with the host; status 10 when something is.

    Works without LXD, without root and without settings, and says what it could not look at. In a lab, --fix leaves
    the host's own kernel parameters and nodes alone unless --yes is given. JSON, YAML and CSV carry
    every check.
    """
    lab = os.environ.get("LXGPU_LAB", "")
    host = yes or not lab  # what --fix mends costs nobody anything, but a lab's host is not the lab's
    from lxgpu import wiring  # noqa: PLC0415
    from lxgpu.services import doctor as service  # noqa: PLC0415

    ground = wiring.ground(out.screen.note)
    found = service.checks(ground)
    failed: tuple[str, ...] = ()
    if mend and not host:
        spared = [one.id for one in service.repairs(found) if one not in service.repairs(found, host=False)]
        if spared:
            what = f"left as they are, since they are the host's own and not lab {lab}'s: {', '.join(spared)}"
            out.screen.note(f"{what} (--yes mends them too)")
    if mend and dry_run:
        out.plan(_plan(service.repairs(found, host=host)))
        return
    if mend:
        failed = service.fix(ground, found, host=host)
        found = service.compare(found, service.checks(ground))
    shown = found if everything or out.form not in {"table", "wide"} else [one for one in found if _matters(one)]
    out.items("checks", shown, COLUMNS, title="" if not shown else _summary(found), empty="everything is right")
    if failed:
        raise LxgpuError("partly_failed", "not everything could be mended", why=failed, fix="follow the remedies")
    if any(one.verdict in service.BAD for one in found):
        ctx.exit(10)


def _matters(check: Check) -> bool:
    return check.fixed or check.verdict.value != "ok"


def _summary(found: tuple[Check, ...]) -> str:
    counts = Counter(check.verdict.value for check in found)
    return ", ".join(f"{counts[name]} {name}" for name in ("fail", "warn", "unknown", "ok") if counts[name])


def _plan(repairs: tuple[Check, ...]) -> Plan:
    steps = tuple(PlannedStep(_words(check), "", why=check.text) for check in repairs)
    return Plan(decision=Verdict.GRANTED, steps=steps)


def _words(check: Check) -> str:
    repair = check.repair
    if repair is None or repair.kind == "drift":
        return "end what is half done, take off cards nobody holds"
    if repair.kind == "nodes":
        return "make the driver's nodes"
    value = f"{repair.value:o}" if repair.kind == "mode" and repair.value is not None else repair.value
    return f"set {repair.subject} to {value}"
