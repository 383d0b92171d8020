"""Two hosts with a container on each: one in memory, one of real processes and cgroups. They answer alike."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
import termios
from dataclasses import replace
from pathlib import Path

from fakes.probe import FakeProbe, Inside
from fakes.system import FakeClock
from plain_instance import PlainInstance

from lxgpu.drivers.probe import LocalProbe
from lxgpu.model.gpu import DeviceNode, Gpu
from lxgpu.model.instance import Limits

# /dev/zero and /dev/full stand for cards: anybody may open them, zero can be mapped, and nobody in a test does.
CARD = Gpu(uuid="GPU-a", pci="0000:11:00.0", model="m", host="h", nodes=(DeviceNode("zero", 1, 5),), index=0)
OTHER = Gpu(uuid="GPU-b", pci="0000:12:00.0", model="m", host="h", nodes=(DeviceNode("dri/full", 1, 7),), index=1)
ABSENT = DeviceNode("nvidia7", 195, 7)
UNLOCK_TERMINAL = 0x40045431
"""TIOCSPTLCK of ioctl_tty(2); what unlockpt(3) does."""


class FakeWorld:
    """A fake host with one container."""

    def __init__(self):
        self.init = 41
        self.inside = {41: Inside("c1", frozenset(CARD.nodes + OTHER.nodes)), 42: Inside("c2", frozenset(CARD.nodes))}
        self.probe = FakeProbe(FakeClock(), lambda: (CARD, OTHER), self.inside.get)

    def hold(self, **how):
        """Start a process that has the card open."""
        return self.probe.run(self.init, CARD.nodes, **how)

    def hold_elsewhere(self):
        """Start one in another container."""
        return self.probe.run(42, CARD.nodes)

    def hold_stubbornly(self):
        """Start one that does not obey TERM."""
        return self.hold(ignores_term=True)

    def hold_again_and_again(self):
        """Start one that is started again whenever it ends."""
        return self.hold(respawns=True)

    def hide(self):
        """Hold the card in a way that is in nobody's list of descriptors."""
        self.probe.hidden[self.init] = "a descriptor is in flight"

    def freeze(self):
        """A frozen process of the fake takes KILL like any other."""

    def opens(self):
        """Whether a process of the container gets the card open now."""
        return self.probe.run(self.init, CARD.nodes) and bool(self.probe.processes[-1].nodes)

    def gone(self, process):
        """Whether a process ends."""
        return not self.probe.alive(process)

    def killed(self, process):
        """Somebody inside sends KILL."""
        self.probe.signal(process, signal.SIGKILL)

    def sits_down(self):
        """Somebody has a terminal open."""
        self.probe.terminals[self.init] = [True]

    def sits_down_and_stops_output(self):
        """Somebody has pressed Ctrl-S."""
        self.probe.terminals[self.init] = [False]

    def bound(self):
        """Set limits."""
        self.inside[self.init] = replace(self.inside[self.init], limits=Limits(cpu=1, memory_bytes=2**28, processes=64))

    def nvml(self, *, lost=None, error=False, busy=None):
        """What NVML says from now on."""
        self.probe.faults = {lost.uuid: "lost"} if lost else {}
        self.probe.error = "NVML cannot be used" if error else None
        self.probe.utilization = {busy.uuid: 90} if busy else {}

    def computes_on_the_host(self):
        """Start a process of the host that is on NVML's compute list."""
        return self.probe.run(None, CARD.nodes)

    def leaves(self, path, content):
        """Leave a file in the container."""
        one = self.inside[self.init]
        self.inside[self.init] = replace(one, files={**one.files, path: content})

    def leaves_a_pipe(self, path):
        """Leave something that hangs whoever reads it; the fake has files only."""

    def listens(self):
        """Listen on a port, which is returned."""
        self.probe.listening.add(2201)
        return 2201


class RealWorld:
    """This machine with two pretend containers, and a stand-in for libnvidia-ml."""

    def __init__(self, library, device_rule, stack):
        self.probe = LocalProbe(device_rule=device_rule)
        self._library = library
        self._stack = stack
        self._one = self._container()
        self.init = self._one.init

    def _container(self):
        made = PlainInstance(CARD.nodes + OTHER.nodes)
        self._stack.callback(made.close)
        return made

    def hold(self):
        """Start a process that has the card open."""
        return self._one.start("open", CARD.nodes[0])

    def hold_elsewhere(self):
        """Start one in another container."""
        return self._container().start("open", CARD.nodes[0])

    def hold_stubbornly(self):
        """Start one that does not obey TERM."""
        return self._one.start("stubborn", CARD.nodes[0])

    def hold_again_and_again(self):
        """Start one that is started again whenever it ends."""
        return self._one.start("respawn", CARD.nodes[0])

    def hide(self):
        """Hold the card in a way that is in nobody's list of descriptors."""
        self._one.start("parked", CARD.nodes[0])

    def freeze(self):
        """Freeze the container."""
        self._one.freeze()

    def opens(self):
        """Whether a process of the container gets the card open now."""
        return self._one.attempt(CARD.nodes[0]) == "ok"

    def gone(self, process):
        """Whether a process ends."""
        return self._one.wait_gone(process)

    def killed(self, process):
        """Somebody inside sends KILL."""
        os.kill(process.pid, signal.SIGKILL)

    def sits_down(self):
        """Open a terminal of the container, as a login does; returns its inner end."""
        ends = []
        for name in ("ptmx", "0"):
            ends.append(os.open(f"/proc/{self.init}/root/dev/pts/{name}", os.O_RDWR | os.O_NOCTTY))
            self._stack.callback(os.close, ends[-1])
            if name == "ptmx":
                fcntl.ioctl(ends[0], UNLOCK_TERMINAL, struct.pack("i", 0))
        return ends[1]

    def sits_down_and_stops_output(self):
        """Somebody has pressed Ctrl-S."""
        termios.tcflow(self.sits_down(), termios.TCOOFF)  # what Ctrl-S does

    def bound(self):
        """Set limits."""
        (self._one.place("cpuset") / "cpuset.cpus").write_text("0")
        (self._one.place("memory") / "memory.limit_in_bytes").write_text(str(2**28))
        (self._one.place("pids") / "pids.max").write_text("64")

    def nvml(self, *, lost=None, error=False, busy=None):
        """What NVML says from now on."""
        self._library.write(
            ["init nodriver"] if error else [],
            faults={lost.uuid: "lost"} if lost else {},
            busy={busy.uuid: 90} if busy else {},
        )

    def computes_on_the_host(self):
        """Start a process of the host that is on NVML's compute list."""
        mine = self._one.process(os.getpid())
        self._library.write([f"proc 0 {mine.pid} {mine.start_time} 100 C 50"])
        return mine

    def leaves(self, path, content):
        """Leave a file in the container; its /dev is its own."""
        Path(f"/proc/{self.init}/root{path}").write_bytes(content)

    def leaves_a_pipe(self, path):
        """Leave something that hangs whoever reads it."""
        os.mkfifo(f"/proc/{self.init}/root{path}")

    def listens(self):
        """Listen on a port, which is returned."""
        server = self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        return server.getsockname()[1]
