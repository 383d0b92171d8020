"""A program inside a container with this process's streams: pumped through named pipes, signals handed on."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from lxgpu.drivers import carriage
from lxgpu.drivers.interrupts import Interrupts
from lxgpu.drivers.namedpipes import Pipes, pipes_in
from lxgpu.drivers.onterminal import on_terminal
from lxgpu.ports import Call, Streams

GRACE_S = 10.0
"""How long a program may take to end after the first signal, or at the end of its time."""
_READ = 65536
_WRITE = 4096
"""So much a pipe takes without blocking when it says that it takes anything (PIPE_BUF)."""
OWN = Streams(0, 1, 2)

Client = Callable[[Call], tuple[Sequence[str], dict[str, str]]]
"""The words and the environment of the engine's own client, which runs a program on a terminal."""


class PipeRelay:
    """`ports.Relay`; use it as a context, in the main thread."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._interrupts = Interrupts()

    @property
    def heard(self) -> Sequence[int]:
        """The signals that asked this process to end, so far."""
        return self._interrupts.heard

    def __enter__(self) -> Self:
        self._interrupts.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._interrupts.__exit__(kind, error, trace)

    def breaking(self) -> AbstractContextManager[None]:
        """In here the first signal is a KeyboardInterrupt."""
        return self._interrupts.breaking()

    def packed(self, folder: str) -> AbstractContextManager[int]:
        """A folder as tar has it."""
        return carriage.packed(folder)

    def kept(self, path: str) -> AbstractContextManager[int]:
        """A new file with what is written there."""
        return carriage.kept(path)

    def unpacked(self, folder: str) -> AbstractContextManager[int]:
        """What tar writes there is put into the folder."""
        return carriage.unpacked(folder)

    def carry(self, call: Call, streams: Streams | None) -> int:
        """Run a program to its end; on a terminal when input and output of this process are one."""
        if streams is None and os.isatty(OWN.stdin) and os.isatty(OWN.stdout):
            argv, environment = self._client(call)
            return on_terminal(argv, environment, self._interrupts, limit_s=call.limit_s, over=call.over)
        with pipes_in(call.pipes) as pipes, _started(call) as running:
            return _Pump(call, pipes, streams or OWN, self._interrupts, running).run()


class _Running:
    """The program, as a thread that waits for its end; `fd` becomes readable then."""

    def __init__(self, call: Call) -> None:
        self.fd, self._bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.status = -1
        self.error: Exception | None = None
        self._call = call

    def wait(self) -> None:
        """In the thread: to the end."""
        try:
            self.status = self._call.start()
        except Exception as error:  # noqa: BLE001 -- a thread's boundary: it is raised where the end is heard of
            self.error = error
        os.close(self._bell)


@contextmanager
def _started(call: Call) -> Iterator[_Running]:
    running = _Running(call)
    threading.Thread(target=running.wait, daemon=True).start()  # one that is given up is waited for by nobody
    try:
        yield running
    finally:
        os.close(running.fd)


@dataclass(slots=True)
class _Outlet:
    """A pipe that the program writes to, and where that goes; `refused`: nobody takes it any more."""

    pipe: int
    target: int
    pending: bytes = b""
    refused: bool = False

    @property
    def waits_for(self) -> tuple[int, int]:
        """What has to be ready for the next piece."""
        return (self.target, select.POLLOUT) if self.pending else (self.pipe, select.POLLIN)

    def move(self, ready: Container[int]) -> bool:
        """One piece, if it can be moved now; whether it was."""
        if self.waits_for[0] not in ready:
            return False
        try:
            if self.pending:
                self.pending = self.pending[os.write(self.target, self.pending[:_WRITE]) :]
                return True
            self.pending = os.read(self.pipe, _READ)
        except BlockingIOError:
            return False
        except OSError:  # whoever read went away, or the disk is full: the program hears of it by its next write
            self.refused = True
        return bool(self.pending) or self.refused


class _Pump:
    """One program's streams, until its end."""

    def __init__(self, call: Call, pipes: Pipes, streams: Streams, interrupts: Interrupts, running: _Running) -> None:
        self._call, self._pipes, self._streams = call, pipes, streams
        self._interrupts, self._running = interrupts, running
        self._pid = 0
        self._sent: list[int] = []
        self._first = interrupts.answered
        self._told = b""
        self._input = b""
        self._input_open = streams.stdin >= 0
        self._outlets = [_Outlet(pipes.out, streams.stdout), _Outlet(pipes.err, streams.stderr)]
        self._limit = time.monotonic() + call.limit_s
        self._gives_up: float | None = None
        self._late = False

    def run(self) -> int:
        """The program's status, or that of who asked it to end in vain."""
        ended = False
        while True:
            ready = self._ready(ended=ended)
            self._interrupts.take()
            if self._signalled():
                return 128 + self._interrupts.heard[self._first]
            now = time.monotonic()
            if not self._late and now >= self._limit:
                self._late, self._gives_up = True, now + GRACE_S
                self._send(signal.SIGTERM)
            if self._gives_up is not None and now >= self._gives_up:
                if ended:  # what is left of its output, nobody takes
                    break
                return self._call.over if self._late else 128 + self._interrupts.heard[self._first]
            moved = self._move(ready)
            if ended and not moved and not self._pending:
                break
            ended = ended or self._running.fd in ready
        if self._running.error is not None:
            raise self._running.error
        return self._call.over if self._late else self._running.status

    @property
    def _pending(self) -> bool:
        """Whether anything that was read is still to be written."""
        return any(outlet.pending for outlet in self._outlets)

    def _ready(self, *, ended: bool) -> dict[int, int]:
        poll = select.poll()
        poll.register(self._interrupts.fd, select.POLLIN)
        if not ended:
            poll.register(self._running.fd, select.POLLIN)
        if not self._pid:
            poll.register(self._pipes.told, select.POLLIN)
        for outlet in self._outlets:
            poll.register(*outlet.waits_for)
        if self._pid and self._input:
            poll.register(self._pipes.stdin, select.POLLOUT)
        elif self._pid and self._input_open:
            poll.register(self._streams.stdin, select.POLLIN)
        ends = self._limit if self._gives_up is None else self._gives_up
        wait_s = 0.0 if ended and not self._pending else max(0.0, ends - time.monotonic())
        return dict(poll.poll(min(wait_s * 1000 + 1, 3_600_000)))

    def _move(self, ready: Container[int]) -> bool:
        """One piece of whatever can be moved; whether anything of the output was."""
        if not self._pid and self._pipes.told in ready:
            self._told += os.read(self._pipes.told, 64)
            if self._told.endswith(b"\n"):
                self._pid = int(self._told)
                for number in self._sent:
                    self._send(number)
        self._move_input(ready)
        moved = [outlet.move(ready) for outlet in self._outlets]
        for outlet in [one for one in self._outlets if one.refused]:
            self._pipes.close_output(outlet.pipe)
            self._outlets.remove(outlet)
        return any(moved)

    def _move_input(self, ready: Container[int]) -> None:
        if self._input and self._pipes.stdin in ready:
            with suppress(BlockingIOError):
                self._input = self._input[os.write(self._pipes.stdin, self._input) :]
        elif self._pid and self._input_open and self._streams.stdin in ready:
            try:
                self._input = os.read(self._streams.stdin, _READ)
            except BlockingIOError:
                return
            except OSError:
                self._input = b""
            self._input_open = bool(self._input)
        if self._pid and not self._input_open and not self._input:
            self._pipes.close_input()

    def _signalled(self) -> bool:
        """Hand new signals on; whether it is the second, so that the program is given up."""
        fresh = self._interrupts.heard[self._interrupts.answered :]
        self._interrupts.answered += len(fresh)
        for number in fresh:
            self._send(number)
        if fresh and self._gives_up is None:
            self._gives_up = time.monotonic() + GRACE_S
        return self._interrupts.answered - self._first > 1

    def _send(self, number: int) -> None:
        """Beside what is pumped; a program that has not told who it is gets it then."""
        if not self._pid:
            self._sent.append(number)
            return
        threading.Thread(target=self._send_quietly, args=(number,), daemon=True).start()

    def _send_quietly(self, number: int) -> None:
        with suppress(Exception):  # it has ended, or is given up in a moment
            self._call.send(self._pid, number)
