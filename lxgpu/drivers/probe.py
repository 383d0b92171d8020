"""The probe of the host that lxgpu itself runs on: NVML, /proc, cgroups and signals behind one port.

It needs root. What looks into a container has a deadline (see `deadline`), so no user can hold it up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from lxgpu.drivers.attribution import Owner, owner_of
from lxgpu.drivers.cardstamp import card_stamp
from lxgpu.drivers.cgroups import Cgroups
from lxgpu.drivers.deadline import Patience, TooLateError
from lxgpu.drivers.device_rule import deny, set_rule
from lxgpu.drivers.holders import Findings, scan
from lxgpu.drivers.limits import read_limits
from lxgpu.drivers.listening import listening_ports
from lxgpu.drivers.nvml import Nvml, RawCard
from lxgpu.drivers.openable import Trials
from lxgpu.drivers.processes import command_line, pid_namespace, read_stat, send, spaces_of
from lxgpu.drivers.rooted import find_nodes, read_regular
from lxgpu.drivers.sessions import open_sessions
from lxgpu.drivers.stillness import held_still
from lxgpu.drivers.terminals import tell_terminals
from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import DeviceNode, Gpu, GpuProcess, Reading, Readings
from lxgpu.model.instance import Limits
from lxgpu.ports import Holders, Process

Value = TypeVar("Value")


class LocalProbe:
    """`ports.HostProbe` for this very host.

    `device_rule` is the setting of that name (`auto`, `v1`, `bpf`, `off`). `known` gives the cards remembered,
    UUID by PCI address, so that one that no longer tells its UUID can be named. `look_s` is how long looking
    into a container may take.
    """

    def __init__(
        self,
        *,
        known: Callable[[], Mapping[str, str]] = dict,
        device_rule: str = "auto",
        look_s: float = 5.0,
        nvml: Nvml | None = None,
        cgroups: Cgroups | None = None,
    ) -> None:
        self._device_rule = device_rule
        self._look_s = look_s
        self._nvml = nvml or Nvml(known=known)
        self._cgroups = cgroups or Cgroups()
        self._patience = Patience()
        self._trials = Trials()

    def boot_id(self) -> str:
        """Changes at every boot of the host."""
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    def card_stamp(self) -> str:
        """Another text whenever the kernel has gained or lost a card or a driver of cards; see `cardstamp`."""
        return f"{self.boot_id()} {card_stamp()}"

    def listening_ports(self) -> frozenset[int]:
        """TCP ports on which anything of the host listens."""
        return listening_ports()

    def readings(self) -> Readings:
        """One NVML sample of all cards, with each process's container; never raises for a sick card."""
        found = self._nvml.sample()
        if found.error is not None:
            return Readings(error=found.error, driver=found.driver)
        now = datetime.now(UTC)
        cards = [found.cards[index] for index in sorted(found.cards)]
        return Readings(items=tuple(self._reading(card, now) for card in cards), driver=found.driver)

    def nodes_inside(self, init: int, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
        """Which of the nodes exist under the instance's /dev, by device number."""
        wanted = list(nodes)
        return self._look("nodes", init, lambda: find_nodes(init, wanted))

    def read_file(self, init: int, path: str, *, most: int) -> bytes | None:
        """The first `most` bytes of a regular file inside the instance; see `ports.HostProbe`."""
        return self._look(f"file {path}", init, lambda: read_regular(init, path, most=most))

    def openable(self, init: int, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
        """Which of the nodes a process of the instance may open (asked from within its cgroups)."""
        return self._trials.openable(self._cgroups, init, nodes)

    def set_rule(self, init: int, *, denied: Iterable[DeviceNode], allowed: Iterable[DeviceNode]) -> None:
        """Set the device rule of a running instance: `denied` cannot be opened, `allowed` can."""
        set_rule(self._cgroups, init, denied=denied, allowed=allowed, mode=self._device_rule)

    def deny(self, init: int, nodes: Iterable[DeviceNode]) -> None:
        """Let nothing in a running instance open these nodes either; the rest of its rule stays as it is."""
        deny(self._cgroups, init, nodes, mode=self._device_rule)

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
        """Processes with the cards open or mapped, or on NVML's list; see `ports.HostProbe`."""
        wanted = list(cards)
        nodes = [node for card in wanted for node in card.nodes]
        pids = partial(self._outside, but) if inits is None else partial(self._inside, inits)
        findings = Findings() if still and inits and at_once else self._scan(inits, pids, nodes)
        if still and inits and findings.holders(nodes).free:
            with held_still(self._cgroups, *inits):
                findings = self._scan(inits, pids, nodes)
        if inits is None:
            # The rule keeps them from ever opening it, so what one of them hides is no reason to doubt: else
            # a single user with a descriptor in flight could keep every card of the host from everybody.
            findings.doubts.clear()
        sample = readings or self.readings()
        return {card.uuid: self._judged(inits, pids, card, findings, sample) for card in wanted}

    def _scan(
        self, inits: Collection[int] | None, pids: Callable[[], frozenset[int]], nodes: list[DeviceNode]
    ) -> Findings:
        findings = Findings()
        work = partial(scan, pids, nodes, findings)
        key = ("holders", None if inits is None else tuple(sorted(inits)))
        try:
            return self._patience.run(key, work, timeout_s=self._look_s)
        except TooLateError:
            findings.doubts.append(f"process {findings.at} did not let itself be looked into within {self._look_s:g} s")
            return findings

    def signal(self, process: Process, number: int) -> bool:
        """Send a signal to exactly this process; False when it is gone."""
        return send(process, number, self._cgroups)

    def limits(self, init: int) -> Limits:
        """CPU, memory and process limits as the host's cgroups have them."""
        return read_limits(self._cgroups, init)

    def logins(self, init: int) -> int:
        """How many SSH sessions of people are open in the instance."""
        return self._look("logins", init, lambda: open_sessions(self._cgroups.members(init)))

    def tell(self, init: int, text: str) -> tuple[int, int]:
        """Write to every terminal of the instance without ever blocking: (delivered, missed)."""
        return self._look("tell", init, lambda: tell_terminals(init, text))

    def _look(self, what: str, init: int, work: Callable[[], Value]) -> Value:
        """Look into a container's files within the deadline."""
        try:
            return self._patience.run((what, init), work, timeout_s=self._look_s)
        except TooLateError as error:
            raise _cannot_look(init, f"it did not answer within {self._look_s:g} s") from error
        except OSError as error:
            raise _cannot_look(init, error.strerror or str(error)) from error

    def _inside(self, inits: Collection[int]) -> frozenset[int]:
        """The processes of the instances."""
        return frozenset(pid for init in inits for pid in self._cgroups.members(init))

    def _outside(self, but: Collection[int]) -> frozenset[int]:
        """The processes of all instances but some; one of those that has just ended takes nobody away."""
        every = self._cgroups.contained()
        for init in but:
            with suppress(LxgpuError):
                every -= self._cgroups.members(init)
        return every

    def _judged(
        self,
        inits: Collection[int] | None,
        pids: Callable[[], frozenset[int]],
        card: Gpu,
        findings: Findings,
        readings: Readings,
    ) -> Holders:
        """What the scan says of one card, with NVML's processes on it, or why its list is not to be had."""
        processes, doubts = findings.of(card.nodes), list(findings.doubts)
        reading = readings.lent(card)
        if reading is None or reading.processes is None:
            doubts.append(_no_list(card.uuid, readings.error, reading))
        else:
            told = {process.pid for process in processes}
            mine = pids() if reading.processes else frozenset()
            for item in reading.processes:
                counts = item.pid in mine or (item.kind == "compute" if inits is None else _entered(item.pid, inits))
                seen = read_stat(item.pid) if counts and item.pid not in told else None
                if seen is not None:
                    how = f"on NVML's {item.kind} list"
                    processes.append(Process(item.pid, seen.start_time, command=seen.command, how=how))
        return Holders(processes=tuple(sorted(processes)), unknown="; ".join(doubts))

    def _reading(self, card: RawCard, now: datetime) -> Reading:
        return Reading(
            uuid=card.uuid,
            sampled_at=now,
            index=card.index,
            utilization_percent=card.utilization_percent,
            memory_used_bytes=card.memory_used_bytes,
            memory_total_bytes=card.memory_total_bytes,
            temperature_c=card.temperature_c,
            power_w=card.power_w,
            processes=None if card.processes is None else tuple(self._process(*one) for one in card.processes),
            fault=card.fault,
            pci=card.pci,
            slices=None if card.slices is None else tuple(self._reading(one, now) for one in card.slices),
        )

    def _process(self, pid: int, memory_bytes: int | None, kind: str) -> GpuProcess:
        try:
            look = lambda: (owner_of(pid, self._cgroups), command_line(pid))  # noqa: E731 -- one look, one deadline
            owner, command = self._patience.run(("owner", pid), look, timeout_s=1.0)
        except TooLateError:
            owner, command = Owner(instance=self._cgroups.part(pid)), None
        return GpuProcess(pid, memory_bytes, kind, owner.instance, owner.user, command)


def _entered(pid: int, inits: Collection[int]) -> bool:
    """Whether a process runs in one of the containers' pid namespaces, whatever its cgroup; the host's is nobody's."""
    spaces = frozenset(spaces_of(pid))
    return bool(spaces) and any(pid_namespace(init) in spaces for init in inits)


def _no_list(uuid: str, error: str | None, card: Reading | None) -> str:
    if error is not None:
        return error
    if card is None:
        return f"NVML does not show the card {uuid}"
    return f"NVML has no process list of the card {uuid} ({card.fault or 'not supported'})"


def _cannot_look(init: int, why: str) -> LxgpuError:
    return LxgpuError(
        "unavailable",
        f"the container of process {init} cannot be looked into",
        why=why,
        fix="look again: the container may have stopped",
    )
