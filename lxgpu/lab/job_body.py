"""The pretend job. It runs inside a container, from standard input, with nothing but Python's own library.

Its one argument is JSON: nodes, hold, ignore_term, respawn, seconds, comm, and slice where it has a MIG slice.
It answers with one line of JSON, `{"pid": …, "supervisor": …}` or `{"error": …}`, and goes on in the background without
a terminal.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any

PAGE = 4096
PROT_READ, MAP_PRIVATE = 1, 2
RESPAWN_PAUSE = 0.05
KEPT: list[object] = []  # what must not be collected while the job lives


def open_nodes(paths: list[str], *, slice_: bool) -> list[int]:
    """Open each node; those of the missing driver answer ENXIO, and only those may. A slice has no others."""
    descriptors = []
    for path in paths:
        try:
            descriptors.append(os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK))
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
    if not descriptors and not slice_:
        raise OSError(errno.ENXIO, "none of the card's nodes can be opened", " ".join(paths))
    return descriptors


def hold(paths: list[str], how: str, *, slice_: bool) -> None:
    """Hold the card: by open descriptors, by a mapping alone, or by descriptors parked in a socket."""
    descriptors = open_nodes(paths, slice_=slice_)
    if how == "open":
        return
    if how == "map":
        render = next(fd for fd, path in zip(descriptors, paths, strict=False) if "render" in path)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        if libc.mmap(None, PAGE, PROT_READ, MAP_PRIVATE, render, 0) == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), "the node cannot be mapped")
    else:
        here, there = socket.socketpair()
        socket.send_fds(here, [b"x"], descriptors)
        KEPT.extend((here, there))
    for descriptor in descriptors:
        os.close(descriptor)


def work(job: dict[str, Any], report: int, supervisor: int | None) -> None:
    """Take the card, say so, and stay until the time is over."""
    if job["ignore_term"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        hold(job["nodes"], job["hold"], slice_=job.get("slice", False))
    except OSError as error:
        answer(report, {"error": f"{error.strerror}: {error.filename or ''}".rstrip(": ")})
        os._exit(1)
    with open("/proc/self/comm", "w", encoding="ascii") as comm:  # noqa: PTH123 -- this file is a script of its own
        comm.write(job["comm"])
    answer(report, {"pid": os.getpid(), "supervisor": supervisor})
    end = time.monotonic() + job["seconds"] if job["seconds"] else None
    while end is None or time.monotonic() < end:
        time.sleep(min(3600.0, end - time.monotonic()) if end else 3600.0)
    os._exit(0)


def supervise(job: dict[str, Any], report: int) -> None:
    """Start the work again whenever it is killed, as a user's `while true` would."""
    end = time.monotonic() + job["seconds"] if job["seconds"] else None
    first = True
    while end is None or time.monotonic() < end:
        started = time.monotonic()
        child = os.fork()
        if child == 0:
            work({**job, "seconds": end - started if end else None}, report, os.getppid())
        _, status = os.waitpid(child, 0)
        if first and os.waitstatus_to_exitcode(status) == 1:
            os._exit(1)  # it could never take the card: that is an error, not a loop
        first = False
        time.sleep(RESPAWN_PAUSE)
    os._exit(0)


def answer(report: int, words: dict[str, Any]) -> None:
    """Tell the starter, if it still listens: a job that was started again has nobody to tell."""
    with suppress(OSError):
        os.write(report, json.dumps(words).encode() + b"\n")


def main() -> int:
    """Start the job in the background and print what became of it."""
    job = json.loads(sys.argv[1])
    read, write = os.pipe()
    if os.fork() == 0:
        os.close(read)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        os.setsid()
        quiet = os.open("/dev/null", os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        if job["respawn"]:
            supervise(job, write)
        work(job, write, None)
    os.close(write)
    with os.fdopen(read) as reports:
        sys.stdout.write(reports.readline())
    return 0


if __name__ == "__main__":
    sys.exit(main())
