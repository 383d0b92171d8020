"""The text file that the stand-in NVML library answers from: written by rename, under a lock."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lxgpu.lab.devices import CUDA_VERSION, DRIVER_VERSION
from lxgpu.lab.processes import started_at
from lxgpu.lab.record import Lab, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_FAULT = "-"
JOB_COMM = "lxgpu-job"


@dataclass(slots=True)
class NvmlState:
    """What the library is to say beyond the cards themselves.

    Attributes:
        faults: fault word by card UUID; a card that is not named has none.
        jobs: lines `proc …` and `kids …`, as nvml_stub.c describes them.
        extra: lines `init …` and `fail …`.
    """

    faults: dict[str, str] = field(default_factory=dict)
    jobs: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)


@contextmanager
def editing(lab: Lab) -> Iterator[NvmlState]:
    """Read the state, let the caller change it, write it; others wait meanwhile. Ended jobs are dropped."""
    with (lab.paths.nvml / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = read(lab)
        yield state
        state.jobs = [line for line in state.jobs if _runs(line)]
        write_atomically(lab.paths.nvml_state, render(lab, state))


def forget_slices(lab: Lab) -> None:
    """What a restart of the machine does to MIG: slices are gone, and a mode that waited holds. Inside `editing`."""
    path = lab.paths.nvml / "slices"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    modes = [line.split() for line in lines if line.startswith("mode ")]
    write_atomically(path, "".join(f"mode {card} {after} {after}\n" for _, card, _, after in modes))


def read(lab: Lab) -> NvmlState:
    """The state as it is on disk; empty when there is none yet."""
    state = NvmlState()
    if not lab.paths.nvml_state.exists():
        return state
    for line in lab.paths.nvml_state.read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words[0] == "gpu" and words[9] != NO_FAULT:
            state.faults[words[2]] = words[9]
        elif words[0] in {"proc", "kids"}:
            state.jobs.append(line)
        elif words[0] in {"init", "fail"}:
            state.extra.append(line)
    return state


def render(lab: Lab, state: NvmlState) -> str:
    """The file's text."""
    major, _, minor = CUDA_VERSION.partition(".")
    lines = [f"driver {DRIVER_VERSION} {int(major) * 1000 + int(minor) * 10}"]
    for card in lab.gpus:
        fault = state.faults.get(card.uuid, NO_FAULT)
        kind = card.kind
        lines.append(
            f"gpu {card.index} {card.uuid} {card.minor} {card.pci} {kind.memory_mib}"
            f" {kind.pci_device:x} {kind.power_limit_w} 0 {fault} {card.model}"
        )
        lines += [
            f"slice {card.index} {one.number} {one.profile} {one.slices} {one.multiprocessors} {one.memory_mib}"
            f" {one.size} {','.join(map(str, one.starts))} {one.name}"
            for one in kind.slices
        ]
    return "\n".join([*lines, *state.jobs, *state.extra, ""])


def _runs(line: str) -> bool:
    words = line.split()
    return started_at(int(words[2])) == int(words[3])
