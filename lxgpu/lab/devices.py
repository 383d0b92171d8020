"""The pretend hardware: what LXD finds below /sys/bus/pci/devices, in /dev and from nvidia-container-cli."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from lxgpu.lab.spec import NVIDIA_MAJOR, Card, Node

if TYPE_CHECKING:
    from collections.abc import Iterable

DRIVER_VERSION, CUDA_VERSION = "550.54.15", "12.4"
REAL_PCI = Path("/sys/bus/pci/devices")
REAL_DRM = Path("/sys/class/drm")
DISPLAY = "0x03"  # PCI's class of graphics cards: the machine's own stay out of the lab
LOOP_MAJOR, LOOPS = 7, 256
CAPS_MAJOR = 511  # dynamic on real machines
# As the driver numbers the capabilities: two of its own, then for each GPU instance one, and one a compute instance.
FIRST_CAP, CAPS_OF_INSTANCE, MOST_INSTANCES = 3, 9, 15
# The driver's own nodes, which all cards share; uvm's major is dynamic on real machines too.
SHARED_NODES = (
    Node("/dev/nvidiactl", NVIDIA_MAJOR, 255),
    Node("/dev/nvidia-uvm", 510, 0),
    Node("/dev/nvidia-uvm-tools", 510, 1),
)


def real_addresses() -> set[str]:
    """The PCI addresses that this machine really has."""
    return {entry.name for entry in REAL_PCI.iterdir()} if REAL_PCI.is_dir() else set()


def write_hardware(host: Path, cards: Iterable[Card]) -> None:
    """Write pci/, driver/ and bin/ below `host`, for the cards, with links to the machine's real other devices."""
    cards = tuple(cards)
    for folder in ("pci", "driver", "bin"):
        shutil.rmtree(host / folder, ignore_errors=True)
    for folder in ("pci", "drm", "driver/nvidia/module", "bin", "dev", "sys"):
        (host / folder).mkdir(parents=True, exist_ok=True)
    (host / "driver/nvidia/module/version").write_text(f"{DRIVER_VERSION}\n")
    for address in real_addresses():
        if not (REAL_PCI / address / "class").read_text().startswith(DISPLAY):
            (host / "pci" / address).symlink_to((REAL_PCI / address).resolve())
    for card in cards:
        _write_card(host, card)
    _write_capabilities(host / "proc", cards)
    _write_container_cli(host / "bin" / "nvidia-container-cli", cards)


def _write_card(host: Path, card: Card) -> None:
    folder = host / "pci" / card.pci
    folder.mkdir()
    device = card.kind.pci_device
    facts = {
        "vendor": "0x10de",
        "device": f"0x{device:04x}",
        "class": "0x030000",
        "numa_node": "0",
        "uevent": f"DRIVER=nvidia\nPCI_CLASS=30000\nPCI_ID=10DE:{device:04X}\nPCI_SLOT_NAME={card.pci}",
    }
    for name, text in facts.items():
        (folder / name).write_text(f"{text}\n")
    (folder / "driver").symlink_to(host / "driver/nvidia")
    for node in card.nodes:
        path = Path(node.path)
        if path.parent.name == "dri":
            (folder / "drm" / path.name).mkdir(parents=True)
            (folder / "drm" / path.name / "dev").write_text(f"{node.major}:{node.minor}\n")


def cap_number(card: Card, instance: int, compute: int | None = None) -> int:
    """The number of the capability of a GPU instance, or of a compute instance in it."""
    first = FIRST_CAP + (card.minor * MOST_INSTANCES + instance) * CAPS_OF_INSTANCE
    return first if compute is None else first + 1 + compute


def _write_capabilities(proc: Path, cards: Iterable[Card]) -> None:
    """What the driver tells below /proc of the nodes by which MIG slices are reached."""
    lines = ["config 1", "monitor 2"]
    for card in (card for card in cards if card.kind.slices):
        for instance in range(MOST_INSTANCES):
            name = f"gpu{card.minor}/gi{instance}"
            lines.append(f"{name}/access {cap_number(card, instance)}")
            parts = range(CAPS_OF_INSTANCE - 1)
            lines += [f"{name}/ci{part}/access {cap_number(card, instance, part)}" for part in parts]
    (proc / "driver/nvidia-caps").mkdir(parents=True, exist_ok=True)
    (proc / "driver/nvidia-caps/mig-minors").write_text("".join(f"{line}\n" for line in lines))
    (proc / "devices").write_text(f"Character devices:\n{CAPS_MAJOR} nvidia-caps\n\nBlock devices:\n")


def _write_container_cli(program: Path, cards: Iterable[Card]) -> None:
    rows = [
        f"{card.index},{card.minor},{card.model},{card.kind.brand},{card.uuid},0000{card.pci},{card.kind.architecture}"
        for card in cards
    ]
    table = [
        "NVRM version,CUDA version",
        f"{DRIVER_VERSION},{CUDA_VERSION}",
        "Device Index,Device Minor,Model,Brand,GPU UUID,Bus Location,Architecture",
        *rows,
    ]
    program.write_text("\n".join(["#!/bin/sh", "cat <<'CSV'", *table, "CSV", ""]))
    program.chmod(0o755)


def fill_dev(target: Path, cards: Iterable[Card]) -> None:
    """Fill an empty folder with the machine's device nodes, less its GPUs, plus the pretend ones and loops."""
    _copy_nodes(Path("/dev"), target)
    for number in range(LOOPS):
        _make_node(target / f"loop{number}", stat.S_IFBLK | 0o660, os.makedev(LOOP_MAJOR, number))
    for node in (*SHARED_NODES, *(node for card in cards for node in card.nodes)):
        path = target / node.path.removeprefix("/dev/")
        path.parent.mkdir(exist_ok=True)
        _make_node(path, stat.S_IFCHR | 0o666, os.makedev(node.major, node.minor))


def _copy_nodes(source: Path, target: Path) -> None:
    device = source.stat().st_dev
    for entry in os.scandir(source):
        if entry.name.startswith("nvidia") or entry.name == "dri":
            continue
        facts = entry.stat(follow_symlinks=False)
        here = target / entry.name
        if stat.S_ISLNK(facts.st_mode):
            here.symlink_to(Path(entry.path).readlink())
        elif stat.S_ISDIR(facts.st_mode):
            here.mkdir(mode=stat.S_IMODE(facts.st_mode))
            if facts.st_dev == device:  # what is mounted below /dev is mounted anew, not copied
                _copy_nodes(Path(entry.path), here)
        elif stat.S_ISCHR(facts.st_mode) or stat.S_ISBLK(facts.st_mode):
            _make_node(here, facts.st_mode, facts.st_rdev)
            os.chown(here, facts.st_uid, facts.st_gid)


def _make_node(path: Path, mode: int, number: int) -> None:
    if not path.exists():
        os.mknod(path, mode, number)
        path.chmod(stat.S_IMODE(mode))
