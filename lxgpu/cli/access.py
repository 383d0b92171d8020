"""`lxgpu ssh`, `ssh-config`, `exec`: ways into a container."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from lxgpu.cli import params
from lxgpu.cli.screen import Screen
from lxgpu.errors import LxgpuError

if TYPE_CHECKING:
    from lxgpu.model.profile import Service
    from lxgpu.services.access import Door


@click.command()
@click.option("-t", "--tty", is_flag=True, help="A terminal for the program, as ssh -t.")
@click.argument("name", type=params.INSTANCE)
@click.argument("words", nargs=-1, metavar="[-- CMD…]", type=click.UNPROCESSED)
@params.pass_screen
def ssh(screen: Screen, *, name: str, words: tuple[str, ...], tty: bool) -> None:
    """Log in to NAME as its person, with the host's ssh program; or run CMD there, as ssh does.

    The container's host key is known beforehand, so ssh asks nothing, and fails should something else answer. It
    logs in with the keys of who calls it, and with the one that lxgpu made while that lies here. An admin without a
    key of the person takes `lxgpu exec`.
    """
    del screen
    way = _door(name)
    argv = [
        "ssh",
        *(["-t"] if tty else []),
        *_options(way),
        f"{way.user}@{way.here}",
        *(["--", *words] if words else []),
    ]
    _hand_over(argv, dict(os.environ), missing="install openssh-client")


@click.command("ssh-config")
@click.argument("name", type=params.INSTANCE, required=False)
@click.option("--known-hosts", "hosts_only", is_flag=True, help="Only the lines for ~/.ssh/known_hosts.")
@params.pass_screen
def ssh_config(screen: Screen, *, name: str | None, hosts_only: bool) -> None:
    """Print the lines for ~/.ssh/config (of NAME, or of all that run), with those for known_hosts as comments.

    What its profile serves inside (JupyterLab, say) has a name of its own, behind which its ports are forwarded.
    """
    from lxgpu import wiring  # noqa: PLC0415 -- not for --help
    from lxgpu.services import access  # noqa: PLC0415

    texts = None if hosts_only else wiring.texts()
    for way in [_door(name)] if name else _doors(screen):
        known = access.known_hosts(way)
        if texts is None:
            screen.data(known.rstrip("\n"))
        else:
            commented = "".join(f"# known_hosts: {line}\n" for line in known.splitlines())
            services = _services(screen, way)
            screen.data(access.stanza(texts, way) + access.tunnels(texts, way, services) + commented)


@click.command("exec")
@click.option("-i", "--stdin", "with_input", is_flag=True, help="Hand standard input over, read to its end first.")
@click.option("--timeout", "timeout_s", type=params.DURATION, default="1h", show_default=True, help="When to end it.")
@click.argument("name", type=params.INSTANCE)
@click.argument("words", nargs=-1, required=True, metavar="-- CMD…", type=click.UNPROCESSED)
@params.pass_screen
@click.pass_context
def exec_(
    ctx: click.Context, screen: Screen, *, name: str, words: tuple[str, ...], with_input: bool, timeout_s: int
) -> None:
    """Run CMD inside NAME as root; its exit status is lxgpu's.

    On a terminal the engine's own client (lxc or incus) runs it, so that editors and shells work. Else the output
    comes when CMD has ended, errors and all on stdout.
    """
    from lxgpu import hosts, wiring  # noqa: PLC0415 -- not for --help
    from lxgpu.cli import looks  # noqa: PLC0415
    from lxgpu.services import access  # noqa: PLC0415

    records = looks.records()
    row = access.known(records, name)
    engine = hosts.engine_of(row)
    if sys.stdin.isatty() and sys.stdout.isatty() and not with_input:
        access.running(engine, row)
        client = wiring.client(engine.server().kind, name, words, host=hosts.settings_of(row))
        _hand_over(*client, missing="install lxd-client, or use lxgpu ssh")
    given = sys.stdin.buffer.read() if with_input else b""
    ran = access.run(engine, records, name, words, stdin=given, timeout_s=timeout_s)
    if ran.output:
        screen.data(ran.output.removesuffix("\n"))
    ctx.exit(ran.status)


def _door(name: str) -> Door:
    from lxgpu import hosts  # noqa: PLC0415
    from lxgpu.cli import looks  # noqa: PLC0415
    from lxgpu.services import access  # noqa: PLC0415

    records = looks.records()
    row = records.instance(name)
    place = hosts.place_of(row) if row else hosts.places()[0]
    return access.door(place.engine, place.probe, records, place.settings, name)


def _doors(screen: Screen) -> list[Door]:
    """Those of all containers that run; of the others it is said why they are left out."""
    from lxgpu.cli import looks  # noqa: PLC0415

    found = []
    for row in looks.records().instances:
        try:
            found.append(_door(row.name))
        except LxgpuError as error:
            if error.code not in {"not_ready", "missing", "not_found", "throw_away"}:
                raise
            screen.note(f"left out: {error.brief}")
    return found


def _services(screen: Screen, way: Door) -> tuple[Service, ...]:
    """What the container's profile serves inside; nothing, which is said, where the profile cannot be read."""
    from lxgpu import wiring  # noqa: PLC0415

    try:
        return wiring.profile(way.profile).services
    except LxgpuError as error:
        screen.note(f"without the services of {way.name}: {error.brief}")
        return ()


def _options(way: Door) -> list[str]:
    """What makes ssh take this container for itself and for no other."""
    from lxgpu import wiring  # noqa: PLC0415
    from lxgpu.services import access  # noqa: PLC0415
    from lxgpu.services.keyring import MADE  # noqa: PLC0415

    settings = wiring.settings()
    known = _write(settings.run_dir / "known_hosts" / way.name, access.known_hosts(way))
    options = ["-p", str(way.port), "-o", f"HostKeyAlias={way.alias}"]
    for setting in (f"UserKnownHostsFile={known}", "GlobalKnownHostsFile=/dev/null", "StrictHostKeyChecking=yes"):
        options += ["-o", setting]
    made = settings.state_dir / MADE / way.user
    return options + (["-i", str(made)] if os.access(made, os.R_OK) else [])


def _write(path: Path, text: str) -> Path:
    """Put a file into place whole."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        aside.write_text(text, encoding="utf-8")
        aside.replace(path)
    except OSError as error:
        raise LxgpuError("not_allowed", f"{path} cannot be written: {error.strerror}", fix="use sudo") from error
    return path


def _hand_over(argv: list[str], environment: dict[str, str], *, missing: str) -> NoReturn:
    """Become another program."""
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(argv[0], argv, environment)  # noqa: S606 -- no shell, on purpose
    except FileNotFoundError:
        raise LxgpuError("unavailable", f"there is no program {argv[0]}", fix=missing) from None
