"""Uses of a container's socket without a site: who asked for what is written down, and answered from a few values."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from lxgpu.errors import LxgpuError
from lxgpu.services.explain import ReasonView
from lxgpu.services.guestreasons import GuestReasons
from lxgpu.services.guestviews import (
    GuestAnswer,
    GuestGpu,
    GuestLink,
    GuestReservation,
    GuestStatus,
)

NOW = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)


class FakeGuests:
    """As `services.guest.Guests`. `held` are the cards of each container, `bookings` whose a reservation is."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.held: dict[str, list[GuestGpu]] = {}
        self.bookings: dict[str, str] = {}
        self.sizes: dict[str, int] = {}
        self.ahead: set[str] = set()
        self.faults: list[tuple[str, Exception]] = []
        self.busy: set[str] = set()
        self.broken = False
        self.hold = threading.Event()
        self.hold.set()
        self.inside: dict[str, int] = {}
        self.most: dict[str, int] = {}

    def give(self, name: str, *slots: str, since: int = 0) -> None:
        """A container holds exactly these slots, attached `since` seconds after the beginning."""
        at = NOW + timedelta(seconds=since)
        self.held[name] = [GuestGpu(slot, slot, None, "RTX 3090", "active", at, None) for slot in slots]

    def book(self, name: str, gpus: int, *, ahead: bool = True) -> str:
        """A booking of a container, or a request for as soon as it can be; gives its id."""
        key = f"r{len(self.bookings) + 1}"
        self.bookings[key], self.sizes[key] = name, gpus
        self.ahead |= {key} if ahead else set()
        return key

    def _row(self, key: str) -> GuestReservation:
        kind = "booking" if key in self.ahead else "request"
        ends = NOW + timedelta(hours=1)
        return GuestReservation(key, kind, self.sizes.get(key, 1), "*", "scheduled", NOW, 3600, NOW, ends, None)

    def status(self, name: str) -> GuestStatus:
        """What it holds."""
        self.inside[name] = self.inside.get(name, 0) + 1
        self.most[name] = max(self.most.get(name, 0), self.inside[name])
        assert self.hold.wait(60)
        self.inside[name] -= 1
        self.asked.append(("status", name))
        if self.broken:
            raise RuntimeError("/secret/path")
        gpus = tuple(self.held.get(name, ()))
        mine = tuple(self._row(key) for key, whose in self.bookings.items() if whose == name)
        lines = (
            "1 of 2 GPUs free",
            f"{name} holds {len(gpus)} GPUs",
            "a \x1b[31mred\x1b[0m line",
            *(f"{row.id}: {row.gpus} GPUs, scheduled" for row in mine),
        )
        return GuestStatus(name, NOW, lines[0], 2, 1, None, gpus, mine, (), (), lines)

    def why(self, name: str) -> GuestReasons:
        """One reason."""
        return GuestReasons((ReasonView(name, "running", "it runs"),), ("it runs",))

    def release(self, name: str, *, gpus: int | None, busy: bool) -> GuestAnswer:
        """Give back the newest ones at once."""
        self.asked.append(("release", name, gpus, busy))
        if name in self.busy and not busy:
            raise LxgpuError("busy", "in use now: GPU-1", fix="name the card")
        held = self.held.get(name, [])
        gone = held[-gpus:] if gpus else held
        self.held[name] = [gpu for gpu in held if gpu not in gone]
        return GuestAnswer("accepted", f"{len(gone)} on the way back", slots=tuple(gpu.slot for gpu in gone))

    def extend(self, name: str, *, seconds: int) -> GuestAnswer:
        """Always granted."""
        self.asked.append(("extend", name, seconds))
        return GuestAnswer("done", f"yours until {NOW + timedelta(seconds=seconds):%H:%M}")

    def keep(self, name: str, *, seconds: int, reason: str) -> GuestAnswer:
        """Always granted."""
        self.asked.append(("keep", name, seconds, reason))
        return GuestAnswer("done", "kept")

    def reserve(
        self, name: str, *, gpus: int, seconds: int | None, at: str | None, model: str, **more: object
    ) -> GuestAnswer:
        """A booking of its own; more than two are over the limit."""
        self.asked.append(
            ("reserve", name, gpus, seconds, at, model, *sorted(item for item in more.items() if item[1]))
        )
        self._check(name, gpus)
        key = self.book(name, gpus, ahead=at is not None)
        return GuestAnswer("done", f"{key}: booked", reservations=(self._row(key),))

    def may(self, name: str, *, gpus: int) -> GuestAnswer:
        """More than two are over the limit."""
        self._check(name, gpus)
        return GuestAnswer("done", "so many may be held")

    @staticmethod
    def _check(name: str, gpus: int) -> None:
        if gpus > 2:
            raise LxgpuError("over_limit", f"{name} may hold 2 GPUs", why="it is policy", fix="ask for less")

    def cancel(self, name: str, identifier: str) -> GuestAnswer:
        """One's own."""
        self.asked.append(("cancel", name, identifier))
        if self.bookings.get(identifier) != name:
            raise LxgpuError("not_found", f"{name} has no reservation {identifier}")
        del self.bookings[identifier]
        return GuestAnswer("done", "cancelled")

    def edit(self, name: str, identifier: str, **changes: object) -> GuestAnswer:
        """One's own: so many cards."""
        self.asked.append(("edit", name, identifier, *sorted(item for item in changes.items() if item[1] is not None)))
        if self.bookings.get(identifier) != name:
            raise LxgpuError("not_found", f"{name} has no reservation {identifier}")
        gpus = changes["gpus"]
        if isinstance(gpus, int):
            self._check(name, gpus)
            self.sizes[identifier] = gpus
        return GuestAnswer("done", f"changed: {identifier}", reservations=(self._row(identifier),))

    def web(self, name: str) -> GuestLink:
        """Always the same."""
        self.asked.append(("web", name))
        return GuestLink(f"https://gpu.example/in#{name}", NOW)

    def leave(self, name: str) -> GuestAnswer:
        """Always one."""
        self.asked.append(("leave", name))
        return GuestAnswer("done", "1 session and links of the page are over")

    def fault(self, name: str, error: Exception) -> None:
        """Remembered."""
        self.faults.append((name, error))
