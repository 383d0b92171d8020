"""What is done for people, in memory: a notifier that remembers, the files that containers see, a checkpoint tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fakes.probe import FakeProbe

from lxgpu.errors import LxgpuError
from lxgpu.ports import Process


class FakeNotifier:
    """`ports.Notifier` that remembers in `sent` (subject, text, mail); `ways` is what it answers."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, str | None]] = []
        self.ways: dict[str, str] = {}

    def send(self, subject: str, text: str, *, mail: str | None) -> Mapping[str, str]:
        """Remember."""
        self.sent.append((subject, text, mail))
        return dict(self.ways)


class FakeBoard:
    """`ports.Board`: `files` by (instance, file); the folder of an instance in `full` takes nothing."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str], str] = {}
        self.full: set[str] = set()
        self.writes = 0

    def read(self, instance: str, file: str) -> str:
        """What stands there."""
        return self.files.get((instance, file), "")

    def write(self, instance: str, file: str, text: str) -> bool:
        """Put it there, unless it is there already."""
        if self.files.get((instance, file)) == text:
            return False
        if instance in self.full:
            raise LxgpuError("unavailable", f"the folder of {instance} cannot be used", why="No space left on device")
        self.writes += 1
        self.files[instance, file] = text
        return True

    def move(self, instance: str, new: str) -> None:
        """All of one to another, in the place of what was there."""
        mine = {file: text for (name, file), text in dict(self.files).items() if name == instance}
        if mine:
            self.remove(instance)
            self.remove(new)
            self.files |= {(new, file): text for file, text in mine.items()}

    def remove(self, instance: str) -> None:
        """All of one."""
        self.files = {key: text for key, text in dict(self.files).items() if key[0] != instance}


class FakeParker:
    """`ports.Parker` over a fake host: what is parked lets go of its cards, unless `refuses` or `stuck` says no."""

    def __init__(self, probe: FakeProbe) -> None:
        self.refuses = ""
        self.stuck = False
        self.parked: list[Process] = []
        self.back: list[Process] = []
        self._probe = probe

    def park(self, process: Process, *, need_bytes: int) -> str:
        """It holds no card any more."""
        if self.refuses:
            return self.refuses
        assert need_bytes >= 0
        self.parked.append(process)
        for one in self._probe.processes:
            if one.process.pid == process.pid and not self.stuck:
                one.nodes, one.kind = frozenset(), None
        return ""

    def unpark(self, process: Process) -> str:
        """It would hold them again."""
        self.back.append(process)
        return self.refuses


class FakeBrake:
    """`ports.Brake` over a fake host; `step_out` is what root inside a container can do."""

    def __init__(self, probe: FakeProbe) -> None:
        self._probe = probe
        self._held: dict[str, list[Process]] = {}

    def hold(self, key: str, init: int, pids: Iterable[int]) -> None:
        """They stand still, those of the container."""
        wanted, mine = set(pids), self._held.setdefault(key, [])
        there = [one for one in self._probe.processes if one.init == init]
        mine += [one.process for one in there if one.process.pid in wanted and one.process not in mine]

    def held(self, key: str) -> tuple[Process, ...]:
        """Those of them that are alive."""
        return tuple(one for one in self._held.get(key, ()) if self._probe.alive(one))

    def free(self, key: str, init: int) -> None:
        """They go on."""
        del init
        self._held.pop(key, None)

    @property
    def empty(self) -> bool:
        """Whether nothing is kept of anybody."""
        return not self._held

    def step_out(self, process: Process) -> None:
        """It runs again."""
        for held in self._held.values():
            if process in held:
                held.remove(process)
