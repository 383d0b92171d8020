"""NVML's view of all cards, taken in a child process with a deadline.

A card that hangs or kills the child is the only one lost: the child is ended and another goes on with
the cards after it. A child that did well waits for the next pass, since its start is most of the cost;
it lets go of NVML meanwhile, so a reset or a driver upgrade finds no client of ours in its way.
Sources: NVIDIA's NVML API reference, nvidia-ml-py, the kernel driver's /proc files.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lxgpu.model.gpu import normal_pci

_CHILD = Path(__file__).with_name("nvml_child.py")
_PROC = Path("/proc/driver/nvidia")
_KERNEL_VERSION = re.compile(r"Kernel Module\s+(?:for \S+\s+)?(\d+\.[\d.]+)")


@dataclass(frozen=True, slots=True)
class RawCard:
    """One card as NVML told: sizes in bytes, None is "not known". `processes` are (pid, bytes, kind).

    `slices` are its MIG slices, each with no more than UUID, memory and processes; None: it is not in MIG mode.
    """

    index: int
    uuid: str = ""
    pci: str = ""
    utilization_percent: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    processes: tuple[tuple[int, int | None, str], ...] | None = None
    fault: str | None = None
    slices: tuple[RawCard, ...] | None = None


@dataclass(slots=True)
class Pass:
    """One pass over all cards; `error` says why there are none."""

    cards: dict[int, RawCard] = field(default_factory=dict)
    count: int | None = None
    driver: str | None = None
    error: str | None = None


class Nvml:
    """Takes samples. `known` gives what is remembered of this host's cards, UUID by PCI address.

    A pass takes at most `pass_s`, and a card at most `card_s` (cards wake up one by one when no
    persistence daemon keeps the driver loaded, which takes a second each).
    """

    def __init__(
        self,
        *,
        known: Callable[[], Mapping[str, str]] = dict,
        pass_s: float = 10.0,
        card_s: float = 3.0,
        proc: Path = _PROC,
    ) -> None:
        self._known = known
        self._pass_s = pass_s
        self._card_s = card_s
        self._proc = proc
        self._remembered: dict[str, str] = {}
        # Children that not even KILL could end, each with the card it hangs at (None: at the start).
        self._stuck: list[tuple[int | None, subprocess.Popen[bytes]]] = []
        self._waiting: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let the waiting child go."""
        child, self._waiting = self._waiting, None
        if child is not None:
            _put_down(child)

    def __del__(self) -> None:
        self.close()

    def sample(self) -> Pass:
        """All cards; never raises for a sick card, library or driver. One pass at a time."""
        with self._lock:
            return self._sample()

    def _sample(self) -> Pass:
        self._stuck = [(at, child) for at, child in self._stuck if child.poll() is None]
        hanging = {at for at, _ in self._stuck}
        if None in hanging:
            return Pass(error="NVML hangs: an earlier call into it has not come back")
        ends = time.monotonic() + self._pass_s
        # A card that still holds a child is not touched again meanwhile.
        found = Pass(cards={at: RawCard(index=at, fault="timeout") for at in hanging if at is not None})
        while self._go_on(found, ends):
            pass
        if found.error is None:
            missing = set(range(found.count or 0)) - set(found.cards)
            found.cards |= {index: RawCard(index=index, fault="timeout") for index in missing}
            self._name_the_silent(found)
        return found

    def _go_on(self, found: Pass, ends: float) -> bool:
        """Run a child over the cards not yet read; True when another one should go on from here."""
        waited = self._waiting
        child = self._child(found.cards)
        at, ending = self._follow(child, found, ends)
        if at is None and not ending and found.error is None:
            self._waiting = child
        elif _put_down(child) is None:
            self._stuck.append((at, child))
        if at is not None:
            found.cards[at] = RawCard(index=at, fault=ending)
            return time.monotonic() < ends
        if found.count is None and found.error is None:
            if child is waited and ending == "unknown":
                return True  # it was ended while it waited, which says nothing about NVML
            late = f"it did not answer within {self._pass_s:g} s"
            found.error = f"NVML cannot be used: {late if ending == 'timeout' else _crash(child)}"
        return False

    def _follow(self, child: subprocess.Popen[bytes], found: Pass, ends: float) -> tuple[int | None, str]:
        """Take in what the child says: the card it was at when it fell silent, and the fault that this is."""
        at: int | None = None
        for line in self._lines(child, ends):
            match line:
                case {"error": error} if found.count is None:
                    found.error = self._explained(str(error), line.get("library"))
                case {"count": count}:
                    found.count, found.driver = count, line.get("driver")
                case {"at": index}:
                    at = index
                case {"card": card}:
                    found.cards[card["index"]], at = _raw(card), None
                case {"end": _}:
                    return None, ""
                case {"died": _}:
                    return at, "unknown"
        return at, "timeout"

    def _child(self, left_out: Mapping[int, object]) -> subprocess.Popen[bytes]:
        """A child that is told to begin a pass: the one that waits, or a new one."""
        order = (" ".join(map(str, sorted(left_out))) + "\n").encode()
        child, self._waiting = self._waiting, None
        if child is not None:
            if _told(child, order):
                return child
            _put_down(child)
        argv = [sys.executable, "-P", "-W", "ignore", str(_CHILD)]
        child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        _told(child, order)
        return child

    def _lines(self, child: subprocess.Popen[bytes], ends: float) -> Iterator[dict[str, Any]]:
        """The child's lines, until one is late; `died` when it ended without its last line."""
        if child.stdout is None:  # never: it is a pipe
            return
        handle, rest, started = child.stdout.fileno(), b"", False
        with selectors.DefaultSelector() as selector:
            selector.register(handle, selectors.EVENT_READ)
            while True:
                left = ends - time.monotonic()
                if not selector.select(max(0.0, min(self._card_s, left) if started else left)):
                    return
                part = os.read(handle, 1 << 16)
                if not part:
                    yield {"died": True}
                    return
                *whole, rest = (rest + part).split(b"\n")
                started = started or bool(whole)
                yield from (json.loads(line) for line in whole if line.startswith(b"{"))

    def _explained(self, error: str, library: str | None) -> str:
        """NVML's words, with both versions where a driver was upgraded under the running kernel."""
        try:
            kernel = _KERNEL_VERSION.search((self._proc / "version").read_text())
        except OSError:
            kernel = None
        words = f"NVML cannot be used: {error}"
        if kernel is not None:
            words += f"; kernel module {kernel[1]}"
        return f"{words}, library {library}" if library else words

    def _name_the_silent(self, found: Pass) -> None:
        """Find out who the cards are that did not tell: those of the known ones that nobody else is, in PCI order."""
        self._remembered |= {card.pci: card.uuid for card in found.cards.values() if card.uuid and card.pci}
        told = {card.uuid for card in found.cards.values() if card.uuid}
        known = {**self._known(), **self._remembered, **self._listed()}
        unseen = [(pci, uuid) for pci, uuid in sorted(known.items()) if uuid not in told]
        silent = [index for index, card in sorted(found.cards.items()) if not card.uuid]
        if len(unseen) == len(silent):
            for index, (pci, uuid) in zip(silent, unseen, strict=True):
                found.cards[index] = RawCard(index=index, uuid=uuid, pci=pci, fault=found.cards[index].fault)

    def _listed(self) -> dict[str, str]:
        """The kernel driver's own list, which needs no NVML: UUID by PCI address."""
        found = {}
        for path in sorted(self._proc.glob("gpus/*/information")):
            try:
                uuid = re.search(r"GPU UUID:\s*(GPU-[0-9a-fA-F-]+)", path.read_text())
            except OSError:
                continue
            if uuid is not None:
                found[normal_pci(path.parent.name)] = uuid[1]
        return found


def _raw(card: Mapping[str, Any]) -> RawCard:
    used, total = card.get("memory") or (None, None)
    milliwatts, processes, pci = card.get("milliwatts"), card.get("processes"), card.get("pci")
    slices = card.get("slices")
    return RawCard(
        index=card.get("index", -1),
        uuid=card.get("uuid") or "",
        pci=normal_pci(pci) if pci else "",
        utilization_percent=card.get("utilization"),
        memory_used_bytes=used,
        memory_total_bytes=total,
        temperature_c=card.get("temperature"),
        power_w=None if milliwatts is None else milliwatts / 1000,
        processes=None if processes is None else tuple((pid, size, kind) for pid, size, kind in processes),
        fault=card.get("fault"),
        slices=None if slices is None else tuple(map(_raw, slices)),
    )


def _told(child: subprocess.Popen[bytes], order: bytes) -> bool:
    """Write an order to a child; False when it is gone."""
    if child.poll() is not None or child.stdin is None:
        return False
    try:
        child.stdin.write(order)
        child.stdin.flush()
    except OSError:
        return False
    return True


def _put_down(child: subprocess.Popen[bytes]) -> int | None:
    """End the child; None when not even KILL ends it (it waits inside the driver)."""
    child.kill()
    try:
        return child.wait(timeout=0.2)
    except subprocess.TimeoutExpired:
        return None
    finally:
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def _crash(child: subprocess.Popen[bytes]) -> str:
    return f"it ended its process before it told anything (status {child.returncode})"
