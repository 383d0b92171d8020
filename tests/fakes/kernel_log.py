"""A kernel's log in memory."""

from __future__ import annotations

from fakes.system import FakeClock

from lxgpu.errors import LxgpuError
from lxgpu.ports import Xid


class FakeKernelLog:
    """`ports.KernelLog`: `tell` writes a line, `error` makes it unreadable."""

    def __init__(self, clock: FakeClock) -> None:
        self.error = ""
        self._clock = clock
        self._lines: list[Xid] = []
        self._given = 0
        self._acted = 0

    def tell(self, pci: str, number: int, text: str = "an error of the card") -> Xid:
        """The driver tells of a fault now."""
        self._lines.append(Xid(self._clock.now(), pci, number, text, f"fake:{len(self._lines) + 1}"))
        return self._lines[-1]

    def forget(self) -> None:
        """What was acted upon is forgotten, as after a crash before `seen`."""
        self._acted = 0

    def fresh(self) -> tuple[Xid, ...]:
        """The faults told since those acted upon."""
        if self.error:
            raise LxgpuError("unavailable", "the kernel's log cannot be read", why=self.error)
        self._given = len(self._lines)
        return tuple(self._lines[self._acted :])

    def seen(self) -> None:
        """What was given is acted upon."""
        self._acted = self._given
