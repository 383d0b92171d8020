"""A program inside a container with this process's own streams: bytes, signals and exit status pass through.

LXD's own way for that, its websockets, now and then hands over nothing of what was written (ran, 5.0.2 with its own
client). So the bytes go through named pipes in the folder that the container sees as /var/lib/lxgpu, and LXD only
starts the program and tells how it ended.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field

from lxgpu.errors import LxgpuError
from lxgpu.ports import Call, Relay, Streams
from lxgpu.services.site import Site
from lxgpu.services.wanted import GUEST_PATH

WORK = "/work"
PIPES = "relay"
"""The folder of the pipes, in that of the container."""
KILL_S = 20.0
MARGIN_S = 60.0
"""So much later than the limit LXD itself ends the program: the limit is kept here, which is TERM first."""
TIME_OVER = 124
"""As timeout(1) has it."""

# $0 the pipes, $1 where to start, then the program: in a session of its own, so that a signal finds all of it.
_START = (
    'd=$0; cd "$1" || exit 126; shift; exec <"$d/in" >"$d/out" 2>"$d/err"; echo $$ >"$d/told";'
    ' if command -v setsid >/dev/null; then exec setsid -w "$@"; fi; exec "$@"'
)
_KILL = 'kill -s "$0" -- "-$1" 2>/dev/null || kill -s "$0" -- "$1"'


@dataclass(frozen=True, slots=True)
class Program:
    """Words and environment of a program, the folder it starts in, and for how long it may run."""

    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = "/root"
    limit_s: float = 3600.0


def run_inside(site: Site, name: str, program: Program, relay: Relay, streams: Streams | None = None) -> int:
    """Run a program as root inside and carry its bytes; its exit status.

    126 and 127 are those of a program that cannot be run or found, 128 + N is an end by a signal, 124 the end of its
    time: TERM, and ten seconds later the container's end. `streams` are this process's own unless given.
    """
    here, inside = f"{site.guest(name)}/{PIPES}", f"{GUEST_PATH}/{PIPES}"
    environment = {"HOME": "/root", "USER": "root", "LOGNAME": "root", **program.environment}

    def start() -> int:
        argv = ["sh", "-c", _START, inside, program.folder, *program.words]
        return site.engine.run(name, argv, environment=environment, timeout_s=program.limit_s + MARGIN_S).status

    def send(pid: int, number: int) -> None:
        word = signal.Signals(number).name.removeprefix("SIG")
        site.engine.run(name, ["sh", "-c", _KILL, word, str(pid)], environment={}, timeout_s=KILL_S)

    call = Call(
        name=name,
        words=program.words,
        environment=environment,
        folder=program.folder,
        pipes=here,
        start=start,
        send=send,
        limit_s=program.limit_s,
        over=TIME_OVER,
    )
    return relay.carry(call, streams)


def hand_in(site: Site, name: str, folder: str, relay: Relay) -> int:
    """Copy a folder of this host, as far as the caller may read it, to /work inside; 0, or how it was interrupted.

    Errors: `usage`: it cannot be read; `bootstrap_failed`: it cannot be written inside.
    """
    site.engine.run(name, ["mkdir", "-p", WORK], environment={}, timeout_s=KILL_S)
    words = ("tar", "-x", "-f", "-", "-C", WORK, "--no-same-owner")
    with relay.packed(folder) as source:
        status = run_inside(site, name, Program(words), relay, Streams(source, 2, 2))
    if status in {0, *_interruptions()}:
        return status
    raise LxgpuError(
        "bootstrap_failed",
        f"{folder} could not be copied into {name}",
        why=f"tar inside ended with status {status}",
        fix="see that its disk has room (--disk), and its image has tar",
    )


def hand_out(site: Site, name: str, path: str, folder: str, relay: Relay) -> str:
    """Copy a path below /work back into the folder, as the caller; why that failed, or nothing."""
    words = ("tar", "-c", "-f", "-", "-C", WORK, "--", path)
    try:
        with relay.unpacked(folder) as target:
            status = run_inside(site, name, Program(words), relay, Streams(-1, target, 2))
    except LxgpuError as error:
        return f"{path} was not handed back: {error.brief}"
    return f"{path} was not handed back: tar inside ended with status {status}" if status else ""


def _interruptions() -> set[int]:
    return {128 + number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)}
