"""The small seams: time, locks, logins, templates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from lxgpu.ports.engine import Ran
from lxgpu.ports.host import Process

Progress = Callable[[str], None]
"""Hears what is being done, in a few words."""


@dataclass(frozen=True, slots=True)
class Registries:
    """How this host reaches package registries: variables for pip and apt, and the certificates it trusts (PEM)."""

    environment: Mapping[str, str] = field(default_factory=dict)
    certificates: bytes = b""


class Clock(Protocol):
    """Time, so that tests and the simulator can have their own."""

    def now(self) -> datetime:
        """The time, in UTC."""

    def monotonic(self) -> float:
        """Seconds that never jump."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class Locks(Protocol):
    """One lock an instance, held by whoever runs its steps, gone with its process."""

    def hold(self, name: str, *, wait_s: float, once: bool = False) -> AbstractContextManager[bool]:
        """Hold the lock; gives False when another process had it all the while.

        `once`: nobody wants a lock of this name after its holder, so nothing of it is left.
        """


class Login(Protocol):
    """An SSH client, to prove that a container can be used."""

    def check(self, *, host: str, port: int, user: str, private_key: str, timeout_s: float, command: str) -> Ran:
        """Log in, run a command, return its end. Errors: `unavailable` with the real cause."""

    def new_key(self, comment: str) -> tuple[str, str]:
        """A fresh ed25519 pair: (private key in OpenSSH form, public line)."""


class Texts(Protocol):
    """The templates: what is written into containers and to people."""

    def render(self, template: str, **values: object) -> str:
        """A template filled in. Error `bad_file`: the template is missing or broken."""


class Notifier(Protocol):
    """Ways to reach people outside of their containers: mail, webhooks, programs."""

    def send(self, subject: str, text: str, *, mail: str | None) -> Mapping[str, str]:
        """Hand a message to the channels set, and to mail addresses (with commas between them) if any are known.

        Returns each way's outcome: `sent`, or why not. Bounded in time, and raises nothing.
        """


class Board(Protocol):
    """Files that a container sees in /var/lib/lxgpu, written on the host whatever the container is doing.

    Error `unavailable`: the host cannot write them (its own disk is full).
    """

    def read(self, instance: str, file: str) -> str:
        """What stands in a file; empty when there is none."""

    def write(self, instance: str, file: str, text: str) -> bool:
        """Put a text in the file's place in one go; False when it stood there already.

        The file's time is that of the last write either way, so that whoever reads it knows how old it is.
        """

    def move(self, instance: str, new: str) -> None:
        """All files go with an instance to its new name, in the place of what was there; nothing to do without any."""

    def remove(self, instance: str) -> None:
        """An instance is gone for good, and its files with it."""


class Brake(Protocol):
    """Makes processes stand still, in a place that their container cannot reach. `key` names whose they are."""

    def hold(self, key: str, init: int, pids: Iterable[int]) -> None:
        """Let these processes of the container of `init` run no more. Who was killed meanwhile is let out to end.

        Where the host has no freezer for single processes the whole container stands still.
        Error `unavailable`: they cannot be stopped.
        """

    def held(self, key: str) -> tuple[Process, ...]:
        """Who stands still under that key; of a whole container nobody is named."""

    def free(self, key: str, init: int) -> None:
        """Let all of them go on, and keep nothing of the key; nothing to do without any."""


class Parker(Protocol):
    """Moves what a program has on its cards to main memory and back, where the driver can.

    Both begin it and do not wait: whether it worked is seen by whether the process holds the card.
    """

    def park(self, process: Process, *, need_bytes: int) -> str:
        """Begin to move it away; empty, or why that cannot be. `need_bytes` is what it has on the cards."""

    def unpark(self, process: Process) -> str:
        """Begin to move it back; empty, or why that cannot be."""
