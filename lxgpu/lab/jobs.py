"""Pretend jobs: real processes in a container that hold a card's nodes and show in NVML while they live."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lxgpu.errors import LxgpuError
from lxgpu.lab import engine, processes, state
from lxgpu.lab.devices import MOST_INSTANCES, cap_number
from lxgpu.lab.programs import run

if TYPE_CHECKING:
    from lxgpu.lab.record import Lab
    from lxgpu.lab.spec import Card

HOLDS = ("open", "map", "fd-passed")
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What a job does.

    Attributes:
        instance: the container.
        gpu: a card's UUID, its beginning, PCI address or index; None takes the first card inside.
        util_percent: how busy the card is while the job lives.
        memory_bytes: how much of the card's memory it takes.
        hold: `open` keeps the nodes open, `map` keeps only a mapping, `fd-passed` parks the descriptors in a socket.
        ignore_term: SIGTERM does nothing.
        respawn: a parent that holds nothing starts the job again when it is killed.
        seconds: how long, or None for as long as it lives.
        user: the account inside, or root.
    """

    instance: str
    gpu: str | None = None
    util_percent: int = 90
    memory_bytes: int = 1024 * MIB
    hold: str = "open"
    ignore_term: bool = False
    respawn: bool = False
    seconds: int | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A job that runs: pids as the host sees them; the supervisor is the parent of a respawning one."""

    pid: int
    instance: str
    uuid: str
    hold: str
    supervisor: int | None = None


def find_card(lab: Lab, text: str) -> Card:
    """The card meant by a UUID, the beginning of one, a PCI address or an index.

    Raises:
        LxgpuError: `not_found`.
    """
    wanted = text.casefold().strip()
    found = [card for card in lab.gpus if card.uuid.casefold() == wanted or str(card.index) == wanted]
    found = found or [card for card in lab.gpus if wanted in {card.pci, f"0000{card.pci}"}]
    if not found and wanted.startswith("gpu-"):
        found = [card for card in lab.gpus if card.uuid.casefold().startswith(wanted)]
    if len(found) == 1:
        return found[0]
    raise LxgpuError(
        "not_found",
        f"{text!r} means {'several cards' if found else 'no card'} of the lab {lab.name!r}",
        why=[f"{card.index}  {card.pci}  {card.uuid}" for card in lab.gpus],
        fix="name a card by its index, PCI address or UUID",
    )


def start_job(lab: Lab, spec: JobSpec) -> Job:
    """Start a job and return it once it holds the card and shows in NVML.

    Raises:
        LxgpuError: `not_found` for a container that does not run or has no card, `lab_step` when the job cannot
            take the card.
    """
    if spec.hold not in HOLDS:
        raise LxgpuError("usage", f"a job cannot hold a card by {spec.hold!r}", why=f"it can by {', '.join(HOLDS)}")
    init = _init_pid(lab, spec.instance)
    card = find_card(lab, spec.gpu) if spec.gpu else _first_card(lab, spec.instance, init)
    instance = _slice_inside(card, init)
    told = _launch(lab, spec, card, instance)
    pids = _host_pids(init)
    pid, supervisor = pids.get(told["pid"]), pids.get(told["supervisor"])
    if pid is None:
        raise LxgpuError("lab_step", f"the job in {spec.instance} ended at once", fix="look at what ended it")
    listed = supervisor or pid
    kind, comm = ("kids", f" {state.JOB_COMM}") if supervisor else ("proc", "")
    on_slice = "" if instance is None else f" {instance}"
    with state.editing(lab) as nvml:
        mib = spec.memory_bytes // MIB
        started = processes.started_at(listed)
        nvml.jobs.append(f"{kind} {card.index} {listed} {started or 0} {mib} C {spec.util_percent}{comm}{on_slice}")
    return Job(pid=pid, instance=spec.instance, uuid=card.uuid, hold=spec.hold, supervisor=supervisor)


def _init_pid(lab: Lab, instance: str) -> int:
    known = engine.query(lab, "/1.0/instances?recursion=2")
    for entry in known:
        if entry["name"] == instance and entry["state"]["pid"] > 0:
            return int(entry["state"]["pid"])
    running = [entry["name"] for entry in known if entry["state"]["pid"] > 0]
    raise LxgpuError(
        "not_found",
        f"no container {instance!r} runs in the lab {lab.name!r}",
        why=f"running: {', '.join(running) or 'none'}",
        fix="start it first",
    )


def _first_card(lab: Lab, instance: str, init: int) -> Card:
    root = Path(f"/proc/{init}/root")
    for card in lab.gpus:
        if (root / f"dev/nvidia{card.minor}").exists():
            return card
    raise LxgpuError(
        "not_found",
        f"the container {instance!r} has no card",
        why="there is no /dev/nvidiaN inside",
        fix=f"lend it one (`lxgpu attach {instance} --gpus 1`), or name one with --gpu to see it refused",
    )


def _slice_inside(card: Card, init: int) -> int | None:
    """The GPU instance of the card's MIG slice that the container has; None: it has the card itself, or a share."""
    folder = Path(f"/proc/{init}/root/dev/nvidia-caps")
    return next(
        (one for one in range(MOST_INSTANCES) if (folder / f"nvidia-cap{cap_number(card, one)}").exists()), None
    )


def _launch(lab: Lab, spec: JobSpec, card: Card, instance: int | None) -> dict[str, Any]:
    caps = [] if instance is None else [cap_number(card, instance), cap_number(card, instance, 0)]
    own = [node.path for node in card.nodes if instance is None or "dri" not in node.path]
    job = {
        "nodes": [*own, *(f"/dev/nvidia-caps/nvidia-cap{number}" for number in caps)],
        "slice": instance is not None,
        "hold": spec.hold,
        "ignore_term": spec.ignore_term,
        "respawn": spec.respawn,
        "seconds": spec.seconds,
        "comm": state.JOB_COMM,
    }
    body = (files("lxgpu.lab") / "job_body.py").read_text(encoding="utf-8")
    become = ["runuser", "-u", spec.user, "--"] if spec.user else []
    command = ["lxc", "exec", spec.instance, "--cwd=/", "-T", "--", *become, "python3", "-", json.dumps(job)]
    answer = run(command, text=body, env=engine.client_env(lab), limit=30).strip()
    told: dict[str, Any] = json.loads(answer) if answer else {"error": "it ended without a word"}
    if "error" in told:
        hint = "bring the lab up with --mappable and take its last card" if spec.hold == "map" else ""
        raise LxgpuError(
            "lab_step",
            f"the job in {spec.instance} cannot take {card.uuid}: {told['error']}",
            why="it opens the card's nodes below /dev/dri, as its user",
            fix=hint or "lend the card first; the nodes' modes decide which users may open them",
        )
    return told


def _host_pids(init: int) -> dict[int | None, int]:
    """The host's pids of all processes in a container, by their pids inside."""
    space = Path(f"/proc/{init}/ns/pid").readlink()
    found: dict[int | None, int] = {}
    for process in processes.all_pids():
        try:
            if Path(f"/proc/{process}/ns/pid").readlink() == space:
                status = Path(f"/proc/{process}/status").read_text(encoding="utf-8", errors="replace")
                line = next(line for line in status.splitlines() if line.startswith("NSpid:"))
                found[int(line.split()[-1])] = process
        except OSError:  # it has ended meanwhile, or the machine hides it, as it may its own first process
            continue
    return found
