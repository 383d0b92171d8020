"""`lxgpu daemon`: the program that stays, takes back, gives back, and publishes what it sees."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from lxgpu.cli import params
from lxgpu.cli.render import Column, Output
from lxgpu.cli.screen import Screen
from lxgpu.errors import Exit, LxgpuError
from lxgpu.model.plan import Plan, PlannedStep, Verdict

if TYPE_CHECKING:
    from lxgpu.model.operation import Event
    from lxgpu.services.ticked import Ticked

NOT_RUNNING = 8
TICKS = (
    Column("AT", "at"),
    Column("DID", "did"),
    Column("NEXT", "next_at"),
    Column("TROUBLES", "troubles", "; ".join),
)
DAEMON = (
    Column("RUNNING", "running"),
    Column("PID", "pid"),
    Column("SINCE", "started_at"),
    Column("LAST TICK", "ticked_at"),
    Column("NEXT TICK", "next_at"),
    Column("PAUSED", "paused.why"),
    Column("POLICY", "policy.error"),
    Column("TROUBLES", "troubles", "; ".join),
)


@click.group()
def daemon() -> None:
    """The program that watches: it takes back after a warning, gives back, mends, and tells people."""


@daemon.command()
@click.option("--once", is_flag=True, help="One tick in this process, then end; says what it did.")
@params.output
@click.pass_context
def run(ctx: click.Context, /, out: Output, *, once: bool) -> None:
    """Run until SIGTERM or Ctrl-C; a second one ends at once. SIGHUP reads the policy file anew.

    There is one daemon a host. systemd starts it with the unit that comes with lxgpu. With --once, status 10 when
    something is in trouble.
    """
    from lxgpu import resident  # noqa: PLC0415 -- not for --help

    if once:
        if _once(out).troubles:
            ctx.exit(Exit.FINDINGS)
        return
    say = _log(out.screen)
    resident.run(say, lambda event: say(_line(event)))


def _once(out: Output) -> Ticked:
    """One tick: for people what it did, a line each, and when the next thing is due."""
    from lxgpu import resident  # noqa: PLC0415
    from lxgpu.cli.times import lab_times  # noqa: PLC0415

    events: list[Event] = []
    ticked = resident.once(out.screen.note, events.append)
    if out.form not in {"table", "wide"}:
        out.items("ticks", [ticked], TICKS)
        return ticked
    times, _ = lab_times(out.screen)
    for event in events:
        out.screen.data(f"{times.moment(event.at)} {_line(event).removeprefix('event: ')}")
    if not events:
        out.screen.data("nothing was due")
    columns = (Column("NEXT", "next_at", times.show), Column("TROUBLES", "troubles", "; ".join))
    out.item("ticks", ticked, columns)
    return ticked


@daemon.command()
@params.output
@click.pass_context
def status(ctx: click.Context, /, out: Output) -> None:
    """Whether the daemon runs and how it goes; status 8 when it does not run."""
    from lxgpu import resident  # noqa: PLC0415
    from lxgpu.cli.sheets import daemon_sheet  # noqa: PLC0415
    from lxgpu.cli.times import lab_times  # noqa: PLC0415

    view = resident.status()
    out.sheet("daemon", view, DAEMON, lambda: daemon_sheet(view, lab_times(out.screen)[0]))
    if not view.running:
        ctx.exit(NOT_RUNNING)


@daemon.command()
@click.option("--reason", required=True, help="Why; everybody who looks reads it.")
@params.change
@params.output
def pause(out: Output, reason: str, *, dry_run: bool, yes: bool) -> None:
    """Let the daemon take nothing new from anybody; what is begun it finishes, and it goes on watching.

    Holds across restarts of the daemon, until `daemon resume` or the next boot.
    """
    del yes  # nobody loses anything by it
    from lxgpu import resident  # noqa: PLC0415

    reason = reason.strip()
    if not reason:
        raise LxgpuError("usage", "--reason says why", why="everybody who looks reads it", fix="--reason 'new driver'")
    if dry_run:
        out.plan(_plan("pause", reason))
        return
    view = resident.pause(reason)
    resident.note(out.screen.warn, "paused", {"reason": reason})
    out.screen.note(f"paused by {view.who}: {view.why}; lxgpu daemon resume lets it go on")


@daemon.command()
@params.change
@params.output
def resume(out: Output, *, dry_run: bool, yes: bool) -> None:
    """Let a paused daemon go on."""
    del yes  # nobody loses anything by it
    from lxgpu import resident  # noqa: PLC0415

    if dry_run:
        out.plan(_plan("resume", ""))
        return
    ended = resident.resume()
    if ended is None:
        out.screen.note("it was not paused")
        return
    resident.note(out.screen.warn, "resumed", {"paused_by": ended.who, "reason": ended.why})
    out.screen.note(f"goes on; it was paused by {ended.who}: {ended.why}")


def _plan(do: str, why: str) -> Plan:
    return Plan(decision=Verdict.GRANTED, steps=(PlannedStep(do, "", why=why),))


def _log(screen: Screen) -> Callable[[str], None]:
    """Lines for the journal, which has its own times; elsewhere each begins with the time, in UTC."""
    if "JOURNAL_STREAM" in os.environ:
        return screen.note
    from datetime import UTC, datetime  # noqa: PLC0415

    return lambda text: screen.note(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {text}")


def _line(event: Event) -> str:
    """One line of history for a log."""
    from lxgpu.cli.history import told  # noqa: PLC0415
    from lxgpu.cli.plain import cell  # noqa: PLC0415

    rule = [f"rule {event.rule}"] if event.rule else []
    detail = [f"{name} {cell(value)}" for name, value in told(event.detail).items()]
    rest = f" ({'; '.join([*rule, *detail])})" if rule or detail else ""
    return f"event: {event.kind} {event.subject} by {event.actor}{rest}"
