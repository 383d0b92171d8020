"""A program on this process's own terminal, run by the engine's client, which knows windows, keys and sizes."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

from lxgpu.drivers.interrupts import Interrupts
from lxgpu.errors import LxgpuError

GRACE_S = 10.0


def on_terminal(
    argv: Sequence[str], environment: Mapping[str, str], interrupts: Interrupts, *, limit_s: float, over: int
) -> int:
    """Run the client to its end; its status, which is the program's. Ctrl-C is a key there, and no signal here.

    Raises:
        LxgpuError: `unavailable`: there is no such client.
    """
    try:
        client = subprocess.Popen(argv, env=dict(environment))
    except FileNotFoundError:
        raise LxgpuError("unavailable", f"there is no program {argv[0]}", fix="install lxd-client") from None
    first, ends, late = interrupts.answered, time.monotonic() + limit_s, False
    watched = os.pidfd_open(client.pid)
    poll = select.poll()
    poll.register(watched, select.POLLIN)
    poll.register(interrupts.fd, select.POLLIN)
    try:
        while True:
            ready = dict(poll.poll(min(max(0.0, ends - time.monotonic()) * 1000 + 1, 3_600_000)))
            if watched in ready:
                status = client.wait()
                return over if late else status if status >= 0 else 128 - status
            if interrupts.fd in ready:
                interrupts.take()
                interrupts.answered = len(interrupts.heard)
                client.send_signal(interrupts.heard[-1])
                ends = time.monotonic() + (GRACE_S if interrupts.answered - first == 1 else 0.0)
            elif time.monotonic() >= ends:
                if late or interrupts.answered > first:
                    client.kill()
                    client.wait()
                    return over if late else 128 + interrupts.heard[first]
                client.send_signal(signal.SIGTERM)
                late, ends = True, time.monotonic() + GRACE_S
    finally:
        os.close(watched)
