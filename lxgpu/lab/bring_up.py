"""Bringing a lab up: each step looks what is there and makes what is missing, so an interrupted one goes on."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError
from lxgpu.lab import claims, daemon, devices, engine, image_cache, link, nvml, processes, record, settings, state
from lxgpu.lab.paths import LONGEST_DIRECTORY, paths_of
from lxgpu.lab.programs import check_programs
from lxgpu.lab.spec import LabSpec, check_spec, models_of, plan_cards

if TYPE_CHECKING:
    from collections.abc import Callable

    from lxgpu.lab.record import Lab

INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
INOTIFY_NEEDED = 1024
SUBORDINATE_IDS = "root:1000000:1000000000"


def up(spec: LabSpec, *, progress: Callable[[str], None] = lambda _: None) -> Lab:
    """Bring the lab up, or what is missing of it, and return it. Takes some seconds; a minute with a new image.

    Args:
        spec: what is wanted; a lab that exists with other cards is refused.
        progress: called with one line of text at a time.

    Raises:
        LxgpuError: `usage`, `bad_name`, `bad_file`, `exists`, `unavailable`, `not_allowed`, `no_capacity`, `lab_step`.
    """
    check_spec(spec)
    _check_policy(spec)
    check_programs(for_image=not image_cache.cached_image().exists())
    _check_length(paths_of(spec.name).directory)
    with record.locked(spec.name):
        known = record.load(spec.name)
        if known:
            _check_same(spec, known)
        _prepare_machine(progress)
        lab, started = _start(spec, known, progress)
        engine.set_up(lab, image=lambda: image_cache.ensure_image(progress), progress=progress)
        settings.write_settings(lab, policy=spec.policy)
        missing = engine.check_cards(lab)
        if missing:
            raise LxgpuError("lab_step", "LXD does not see all cards of the lab", why=missing, fix="lxgpu lab down")
        progress(f"lab {lab.name}: {'up' if started else 'already up'}, {len(lab.gpus)} cards, bridge {lab.bridge}")
        return lab


def _start(spec: LabSpec, known: Lab | None, progress: Callable[[str], None]) -> tuple[Lab, bool]:
    """Have namespace, lxcfs and LXD running; returns the lab and whether something had to be started."""
    lab = known
    fresh_namespace = lab is None or daemon.holder_of(lab) is None
    if lab is None or fresh_namespace:
        processes.end_all(paths_of(spec.name).directory)  # what an interrupted or killed lab left running
        lab = _make_namespace(spec, known, progress)
    nvml.build(lab)
    with state.editing(lab):
        pass
    if fresh_namespace or link.isolated(daemon.holder_pid(lab)):
        link.ensure_link(lab, daemon.holder_pid(lab))
    daemon.start_lxcfs(lab)
    fresh_daemon = daemon.start_lxd(lab)
    if fresh_daemon:
        progress(f"LXD: answers on {lab.socket}")
    return lab, fresh_namespace or fresh_daemon


def _make_namespace(spec: LabSpec, known: Lab | None, progress: Callable[[str], None]) -> Lab:
    count = len(known.gpus) if known else len(models_of(spec))
    before = known.consoles if known else ()
    with closing(
        claims.take(spec.name, consoles=count, preferred=before, subnet=known.subnet if known else "")
    ) as held:
        lab = _chosen(spec, known, held)
        lab.paths.make()
        record.save(lab)
        devices.write_hardware(lab.paths.host, lab.gpus)
        progress(f"cards: {', '.join(f'{card.pci} {card.model}' for card in lab.gpus)}")
        return daemon.start_holder(lab, held)


def _chosen(spec: LabSpec, known: Lab | None, held: claims.Claims) -> Lab:
    """The lab with its claims: what was chosen before stays, but for consoles that went to somebody else."""
    if known:
        cards = tuple(replace(card, console=n) for card, n in zip(known.gpus, held.consoles, strict=True))
        consoles = tuple(sorted({*known.consoles, *held.consoles}))
        return replace(known, gpus=cards, consoles=consoles, subnet=held.subnet, holder=None)
    return record.Lab(
        name=spec.name,
        directory=paths_of(spec.name).directory,
        gpus=plan_cards(spec, consoles=held.consoles, taken_pci=devices.real_addresses()),
        bridge=claims.bridge_name(spec.name),
        subnet=held.subnet,
        consoles=held.consoles,
    )


def _check_same(spec: LabSpec, known: Lab) -> None:
    """A lab's cards do not change while it exists."""
    wanted = [model.name for model in models_of(spec)] if spec.gpus or spec.models else None
    present = [card.model for card in known.gpus]
    mappable = any(card.mappable for card in known.gpus)
    if (wanted is not None and wanted != present) or (spec.mappable is not None and spec.mappable != mappable):
        raise LxgpuError(
            "exists",
            f"the lab {spec.name!r} exists with other cards",
            why=f"it has {len(present)}: {', '.join(present)}",
            fix=f"`lxgpu lab down --name {spec.name}` first, or choose another --name",
        )


def _check_policy(spec: LabSpec) -> None:
    if spec.policy is not None:
        from lxgpu.config.policy import read_policy  # noqa: PLC0415 -- pydantic, for this one check

        read_policy(spec.policy, cards=len(models_of(spec)))


def _check_length(directory: Path) -> None:
    if len(str(directory)) > LONGEST_DIRECTORY:
        raise LxgpuError(
            "usage",
            f"the lab's directory has too long a name: {directory}",
            why=f"unix sockets below it allow {LONGEST_DIRECTORY} characters, it has {len(str(directory))}",
            fix="set LXGPU_LAB_ROOT to a shorter folder",
        )


def _prepare_machine(progress: Callable[[str], None]) -> None:
    """What the kernel and the account files must allow; it stays so, for other labs may need it too."""
    present = int(INOTIFY.read_text())
    if present < INOTIFY_NEEDED:
        INOTIFY.write_text(str(INOTIFY_NEEDED))
        progress(f"machine: raised fs.inotify.max_user_instances from {present} to {INOTIFY_NEEDED}; it stays raised")
    for path in (Path("/etc/subuid"), Path("/etc/subgid")):
        text = path.read_text() if path.exists() else ""
        if not any(line.startswith("root:") for line in text.splitlines()):
            separator = "" if not text or text.endswith("\n") else "\n"
            path.write_text(f"{text}{separator}{SUBORDINATE_IDS}\n")
            progress(f"machine: gave root subordinate ids in {path}; they stay")
