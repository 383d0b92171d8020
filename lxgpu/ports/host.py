"""The seam to the host an engine runs on: NVML, /proc, cgroups, signals."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from lxgpu.model.gpu import DeviceNode, Gpu, Readings
from lxgpu.model.instance import Limits


@dataclass(frozen=True, slots=True, order=True)
class Process:
    """A process that cannot be confused with a later one of the same pid."""

    pid: int
    start_time: int
    command: str = ""
    how: str = ""


@dataclass(frozen=True, slots=True)
class Holders:
    """Who holds a card's nodes. `unknown` says why the list may be incomplete, empty when it is whole."""

    processes: tuple[Process, ...] = ()
    unknown: str = ""

    @property
    def free(self) -> bool:
        """Proven: nobody holds it and nothing was hidden."""
        return not self.processes and not self.unknown


class HostProbe(Protocol):
    """What is asked of the host an engine runs on. `init` is the host pid of an instance's init."""

    def boot_id(self) -> str:
        """Changes at every boot of the host."""

    def card_stamp(self) -> str:
        """Another text whenever the kernel has gained or lost a card or loaded a driver of cards, and at every boot."""

    def listening_ports(self) -> frozenset[int]:
        """TCP ports on which anything of the host listens."""

    def readings(self) -> Readings:
        """One NVML sample of all cards, in a child with a deadline; never raises for a sick card."""

    def nodes_inside(self, init: int, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
        """Which of the nodes exist under the instance's /dev, by device number."""

    def openable(self, init: int, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
        """Which of the nodes a process of the instance may open (tried, from within its cgroups)."""

    def read_file(self, init: int, path: str, *, most: int) -> bytes | None:
        """The first `most` bytes of a regular file inside the instance; None if there is none, or something else.

        Unlike `Engine.pull` it cannot be held up, or made to read without end, by what a user puts there.
        """

    def set_rule(self, init: int, *, denied: Iterable[DeviceNode], allowed: Iterable[DeviceNode]) -> None:
        """Set the device rule of a running instance: `denied` cannot be opened, `allowed` can. Both whole lists."""

    def deny(self, init: int, nodes: Iterable[DeviceNode]) -> None:
        """Let nothing in a running instance open these nodes either; the rest of its rule stays as it is."""

    def holders(
        self,
        inits: Collection[int] | None,
        cards: Iterable[Gpu],
        *,
        but: Collection[int] = (),
        still: bool = True,
        at_once: bool = False,
        readings: Readings | None = None,
    ) -> Mapping[str, Holders]:
        """Who has each of the cards open or mapped, or is on NVML's list, by UUID; one look for all of them.

        With `inits`, the processes of those instances, and `unknown` when one of them hides something. With `still`,
        all the instances stand still together for the look that finds nobody: else what they hand round escapes it.
        They are looked at in motion first, to hold nobody up in vain, but not with `at_once`: a look just found nobody.
        With None, those of every container (those of the inits `but` left out) and every compute process of the host;
        a display server's or a monitor's open node does not count, and what a container hides that never had the card
        is no doubt. `readings` is a sample taken just now.
        """

    def signal(self, process: Process, number: int) -> bool:
        """Send a signal by pidfd after checking the start time; a frozen process is thawed for KILL.

        False when the process is gone.
        """

    def limits(self, init: int) -> Limits:
        """CPU, memory and process limits as the host's cgroups have them (disk is the pool's)."""

    def logins(self, init: int) -> int:
        """How many SSH sessions of people are open in the instance."""

    def tell(self, init: int, text: str) -> tuple[int, int]:
        """Write to every terminal of the instance without ever blocking: (delivered, missed)."""
