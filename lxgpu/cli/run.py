"""`lxgpu run`: a program in a throw-away container, for CI and for one job."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import click

from lxgpu.cli import mig, params
from lxgpu.cli.render import Output
from lxgpu.cli.screen import Screen
from lxgpu.errors import LxgpuError

if TYPE_CHECKING:
    from lxgpu.model.request import CreateRequest
    from lxgpu.services.runs import Job
    from lxgpu.services.site import Site


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--gpus", "count", type=params.GPUS, help="How many cards; none unless said.")
@mig.option
@click.option("--model", default="*", metavar="GLOB", help="Only cards whose model matches, as 'A100*'.")
@click.option("--class", "class_name", default="", help="Priority class of the cards; the person's own unless said.")
@click.option("--image", default="", help="Image alias or fingerprint; that of the settings unless said.")
@click.option("--profile", default="", help="What kind of container; that of the settings unless said.")
@click.option("--owner", type=params.PERSON, help="On whose quota; the caller's unless said.")
@click.option("--cpu", type=click.IntRange(min=1), help="Cores; the policy's number unless said.")
@click.option("--memory", "memory_bytes", type=params.MEMORY, help="Memory, as 64GiB.")
@click.option("--disk", "disk_bytes", type=params.DISK, help="Disk.")
@click.option("--for", "limit_s", type=params.DURATION, help="The longest that CMD may run; a lease unless said.")
@click.option("-e", "--env", "variables", multiple=True, metavar="NAME[=VALUE]", help="A variable for CMD; repeatable.")
@click.option("--copy", metavar="DIR", default="", help="Copy DIR to /work inside, and start CMD there.")
@click.option(
    "--fetch", "fetched", multiple=True, metavar="PATH", help="Copy /work/PATH back into DIR afterwards; repeatable."
)
@click.argument("words", nargs=-1, required=True, metavar="-- CMD…", type=click.UNPROCESSED)
@params.change
@params.output
@click.pass_context
def run(
    ctx: click.Context,
    out: Output,
    /,
    *,
    words: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    **options: Any,  # noqa: ANN401 - click's options, named above
) -> None:
    """Run CMD as root in a container that is made for it, and goes with it, whatever happens.

    Input, output, errors and exit status are CMD's (127: not found, 128 + N: ended by signal N, 124: its time was
    over). Ctrl-C and TERM are handed to CMD, which has ten seconds to end; a second one ends it at once. Cards are
    proven free afterwards. With none free the command ends with status 7, and nothing is left.

    The container has no home of its owner's and no login. After kill -9 of lxgpu the daemon takes it away.
    """
    del yes  # it takes nothing from anybody
    from lxgpu import wiring  # noqa: PLC0415 -- not for --help
    from lxgpu.services import runs  # noqa: PLC0415
    from lxgpu.services.provision import plan_all  # noqa: PLC0415
    from lxgpu.services.recover import recover  # noqa: PLC0415
    from lxgpu.services.refusal import Asked, recording  # noqa: PLC0415

    wiring.warm()
    site = wiring.site(_progress(out.screen))
    owner = runs.whose(site, options["owner"] or "", wiring.caller())
    limit_s = options["limit_s"] or runs.longest_s(site, owner)
    job, request = _job(words, options, limit_s), _request(site, owner, options, limit_s)
    if dry_run:
        from lxgpu.cli.rehearsal import rehearsed  # noqa: PLC0415

        (plan,) = plan_all(site, [request])
        rehearsed(out, site.policy(), (f"run for {owner}", plan))
        return
    recover(site)
    with wiring.relay() as relay, recording(site, owner, Asked(request.gpus.more, limit_s)):
        try:
            status = runs.run(site, request, job, relay, out.screen.warn)
        except KeyboardInterrupt:
            out.screen.note(f"{request.name}: stopped before it began; nothing of it is left")
            status = 128 + relay.heard[0] if relay.heard else 130
    ctx.exit(status)


def _progress(screen: Screen) -> Callable[[str], None]:
    """What is being done, for people who watch; a log has CMD's own lines alone, unless it asks for more."""
    return screen.note if screen.verbosity or sys.stderr.isatty() else lambda _text: None


def _request(site: Site, owner: str, options: Mapping[str, Any], limit_s: int) -> CreateRequest:
    from lxgpu.cli.wishes import one_wish  # noqa: PLC0415
    from lxgpu.model.instance import InstanceKind  # noqa: PLC0415
    from lxgpu.model.names import run_name  # noqa: PLC0415

    usual: dict[str, Any] = {"cards": (), "key_files": (), "processes": None, "lease_s": limit_s, "expires_s": limit_s}
    return replace(one_wish(site, run_name(owner), {**options, **usual, "owner": owner}), kind=InstanceKind.RUN)


def _job(words: tuple[str, ...], options: Mapping[str, Any], limit_s: int) -> Job:
    from lxgpu.services.runs import Job  # noqa: PLC0415

    copy, fetched = options["copy"], options["fetched"]
    if copy and not Path(copy).is_dir():
        raise LxgpuError("usage", f"{copy} is no folder", fix="--copy takes the folder to hand in, as --copy .")
    if fetched and not copy:
        raise LxgpuError(
            "usage", "--fetch goes with --copy", why="what is fetched goes into the folder that was copied"
        )
    for path in fetched:
        if path.startswith("/") or ".." in PurePosixPath(path).parts or not path:
            raise LxgpuError("usage", f"{path!r} is no path below /work", fix="as --fetch report.xml")
    return Job(words, float(limit_s), environment=dict(map(_variable, options["variables"])), copy=copy, fetch=fetched)


def _variable(text: str) -> tuple[str, str]:
    name, given, value = text.partition("=")
    if not name.isidentifier():
        raise LxgpuError("usage", f"{text!r} is no variable", fix="as --env TOKEN=1234, or --env TOKEN for one's own")
    return name, value if given else os.environ.get(name, "")
