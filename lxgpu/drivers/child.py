"""A program of this host as the other end of a connection: for a host whose probe needs no network."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress

from lxgpu.errors import LxgpuError

_ENDS_S = 30.0
"""How long it may take to bring to an end what it has begun; then it is killed."""


class Child:
    """A program whose stdin and stdout are one socket, as a `remote.Stream`; its stderr is this process's.

    Raises:
        LxgpuError: `unavailable`: it cannot be started.
    """

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str] | None = None) -> None:
        self._socket, theirs = socket.socketpair()
        try:
            with theirs:
                self.process = subprocess.Popen(list(argv), stdin=theirs.fileno(), stdout=theirs.fileno(), env=environ)
        except OSError as error:
            self._socket.close()
            raise LxgpuError("unavailable", f"{argv[0]} cannot be started", why=error.strerror or str(error)) from error
        self._closed = threading.Event()

    def settimeout(self, timeout: float | None, /) -> None:
        """How long `recv` and `sendall` wait before they raise TimeoutError."""
        self._socket.settimeout(timeout)

    def recv(self, size: int, /) -> bytes:
        """What it wrote."""
        return self._socket.recv(size)

    def sendall(self, data: bytes, /) -> None:
        """Send all of it."""
        self._socket.sendall(data)

    def close(self) -> None:
        """End its input; it goes by itself."""
        if self._closed.is_set():
            return
        self._closed.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        threading.Thread(target=self._see_off, name="lxgpu-probe-end", daemon=True).start()

    def _see_off(self) -> None:
        try:
            self.process.wait(_ENDS_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._socket.close()
