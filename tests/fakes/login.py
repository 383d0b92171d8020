"""An SSH client without a network: doors that take some keys."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Collection
from itertools import count

from fakes.system import FakeClock

from lxgpu.errors import LxgpuError
from lxgpu.ports import Ran

Door = Callable[[str, int, str], Collection[str] | None]
"""(host, port, user) → the authorized_keys lines there; None where nobody listens."""


class FakeLogin:
    """`ports.Login`. `door` says who may enter; `answers` what a command ends with, others end well and silent."""

    def __init__(self, clock: FakeClock, door: Door) -> None:
        self.answers: dict[str, Ran] = {}
        self.checked: list[tuple[str, int, str]] = []
        self._clock = clock
        self._door = door
        self._numbers = count(1)

    def check(self, *, host: str, port: int, user: str, private_key: str, timeout_s: float, command: str) -> Ran:
        """Log in, run a command, return its end."""
        self.checked.append((host, port, user))
        lines = self._door(host, port, user)
        if lines is None:
            self._clock.sleep(timeout_s)
            raise LxgpuError("unavailable", f"SSH login as {user}@{host}:{port} failed", why="connection refused")
        if not private_key.startswith(_HEAD):
            raise LxgpuError("bad_key", "the private key cannot be read")
        blob = private_key.removeprefix(_HEAD).strip()
        if not any(blob in line.split() for line in lines):
            raise LxgpuError("unavailable", f"SSH login as {user}@{host}:{port} was refused", why="key not accepted")
        return self.answers.get(command, Ran(status=0, output=""))

    def new_key(self, comment: str) -> tuple[str, str]:
        """A pair of its own each time; the public line is well formed."""
        kind = b"ssh-ed25519"
        point = struct.pack(">I", next(self._numbers)).rjust(32, b"\0")
        wire = struct.pack(">I", len(kind)) + kind + struct.pack(">I", len(point)) + point
        blob = base64.b64encode(wire).decode()
        return f"{_HEAD}{blob}\n", f"ssh-ed25519 {blob} {comment}".rstrip()


_HEAD = "-----BEGIN OPENSSH PRIVATE KEY-----\n"
