"""The seam between a program inside a container and the process that started it: its streams, signals and time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Streams:
    """File descriptors that a program reads and writes; -1 in the place of its input: there is none."""

    stdin: int
    stdout: int
    stderr: int


@dataclass(frozen=True, slots=True)
class Call:
    """One program inside.

    `start` runs it to its end and gives its exit status: it opens `in`, `out` and `err` among the pipes of the folder
    `pipes`, and writes its process id to `told`. `send` gives that process a signal. After `limit_s` it is asked to
    end, and `over` is the status. `name`, `words`, `environment` and `folder` are for who starts it on a terminal.
    """

    name: str
    words: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    pipes: str
    start: Callable[[], int]
    send: Callable[[int, int], None]
    limit_s: float
    over: int


class Relay(Protocol):
    """This process's own streams and signals, lent to programs inside a container."""

    @property
    def heard(self) -> Sequence[int]:
        """The signals that asked this process to end, so far."""

    def breaking(self) -> AbstractContextManager[None]:
        """In here the first signal that asks to end is a KeyboardInterrupt; elsewhere it is only heard."""

    def carry(self, call: Call, streams: Streams | None) -> int:
        """Run a program to its end; its exit status.

        A signal is handed on to it. Ten seconds after the first, or at the second, it is given up: the status is 128
        and the signal's number. Raises what `start` raises.
        """

    def packed(self, folder: str) -> AbstractContextManager[int]:
        """A folder as tar has it, to read from a descriptor, with the rights of the person behind sudo.

        Error `usage`: it cannot be read, whole or at all.
        """

    def kept(self, path: str) -> AbstractContextManager[int]:
        """A descriptor; the packed tar that is written there is a new file at the end, or none is. Error `usage`."""

    def unpacked(self, folder: str) -> AbstractContextManager[int]:
        """A descriptor; what tar writes to it is put into the folder with the same rights. Error `usage`."""
