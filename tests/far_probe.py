"""A probe at the other end of a connection within this process."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress

from lxgpu.drivers.probe_serve import ProbeServer
from lxgpu.drivers.remote import RemoteProbe


class Line:
    """One end of a pair of sockets, as a `Stream`."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self.settimeout, self.recv, self.sendall = end.settimeout, end.recv, end.sendall

    def close(self) -> None:
        """As a connection ends: whoever reads comes back."""
        with suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)


class FarHost:
    """Serves `probe` to whoever connects; `known` is what the last one remembered of the cards."""

    def __init__(self, probe):
        self.known = None
        self.connected = 0
        self._probe = probe
        self._ends = []
        self._threads = []

    def connect(self):
        """A connection with a server of its own."""
        ours, theirs = socket.socketpair()
        self.connected += 1
        self._ends += [ours, theirs]
        server = ProbeServer(theirs.fileno(), theirs.fileno(), self._made)
        self._threads.append(threading.Thread(target=server.serve, daemon=True))
        self._threads[-1].start()
        return Line(ours)

    def cut(self):
        """All connections break."""
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        """The same, and nothing is left."""
        self.cut()
        for thread in self._threads:
            thread.join(10)
        for end in self._ends:
            end.close()

    def _made(self, known):
        self.known = known
        return self._probe


@contextmanager
def far(probe):
    """`probe` as it is seen from another host."""
    host = FarHost(probe)
    seen = RemoteProbe("gpu2", host.connect)
    try:
        yield seen
    finally:
        seen.close()
        host.close()
