"""One loop in one thread serves many sockets, as those of all containers; who calls is known by the socket alone."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from lxgpu.api.doors import Mark, close_door, is_there, open_door
from lxgpu.api.gate import LIFE_S, READ_S, App, Guarded, gate
from lxgpu.errors import LxgpuError

MakeApp = Callable[[str], App]

CONNECTIONS = 8
PACE_S = 0.02
THREADS = 4
_HEAD_BYTES = 16 * 1024
_ANSWER_S = 30.0
_AGAIN_S = 1.0
_SWITCH_S = 0.001
"""So long a thread that computes keeps others waiting (Python's own is five times that): an answer takes several."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one socket may take, and what all together have; the defaults are those of containers.

    A socket has so many `connections` at once, and its further callers wait in the kernel; after each it is not
    listened to for `pace_s`, so that a loop of calls costs the daemon little. A request's lines come within `read_s`,
    and no connection lives longer than `life_s`.
    """

    connections: int = CONNECTIONS
    pace_s: float = PACE_S
    read_s: float = READ_S
    life_s: float = LIFE_S
    threads: int = THREADS
    thread_name: str = "guests"


@dataclass(slots=True)
class _Door:
    """One socket, and who is in it."""

    name: str
    folder: str
    listening: socket.socket
    mark: Mark
    task: asyncio.Task[None] | None = None
    inside: set[Guarded] = field(default_factory=set)


class Sockets:
    """Sockets by name, each at `folder(name)`/api.sock, answered by `make_app(name)`: those of the containers, say.

    `make_app` is called in the loop, at a socket's first call. Its calls may use threads (`asyncio.to_thread`).
    """

    def __init__(self, make_app: MakeApp, folder: Callable[[str], str], bounds: Bounds | None = None) -> None:
        self._make_app, self._folder = make_app, folder
        self._bounds = bounds or Bounds()
        self._doors: dict[str, _Door] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def follow(self, names: Iterable[str]) -> Mapping[str, str]:
        """Serve exactly these from now on; those that could not be served, with the reason."""
        wanted, troubles = {}, {}
        for name in dict.fromkeys(names):
            try:
                wanted[name] = self._folder(name)
            except (OSError, LxgpuError) as error:
                troubles[name] = str(error)
        loop = self._running()
        return troubles | asyncio.run_coroutine_threadsafe(self._follow(wanted), loop).result(_ANSWER_S)

    def close(self) -> None:
        """Close all sockets and end the thread."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._follow({}), loop).result(_ANSWER_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_ANSWER_S)
        self._loop = self._thread = None

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            bounds = self._bounds
            sys.setswitchinterval(_SWITCH_S)
            self._loop = asyncio.new_event_loop()
            self._loop.set_default_executor(ThreadPoolExecutor(bounds.threads, bounds.thread_name))
            self._thread = threading.Thread(target=_run, args=(self._loop,), name=bounds.thread_name, daemon=True)
            self._thread.start()
        return self._loop

    async def _follow(self, wanted: Mapping[str, str]) -> dict[str, str]:
        troubles = {}
        for name, door in list(self._doors.items()):
            if door.task is not None and door.task.done() and not door.task.cancelled():
                troubles[name] = f"nobody listened any more: {door.task.exception()}"
            if name in troubles or wanted.get(name) != door.folder or not is_there(door.folder, door.mark):
                await _shut(self._doors.pop(name))
        for name, folder in wanted.items():
            if name not in self._doors:
                try:
                    listening, mark = open_door(folder)
                except OSError as error:
                    troubles[name] = f"its socket cannot be made: {error}"
                    continue
                door = self._doors[name] = _Door(name, folder, listening, mark)
                door.task = asyncio.create_task(self._serve(door))
        return troubles

    async def _serve(self, door: _Door) -> None:
        """Take callers in, one by one, as long as there is room."""
        loop, room = asyncio.get_running_loop(), asyncio.Semaphore(self._bounds.connections)
        config: uvicorn.Config | None = None
        while True:
            await room.acquire()
            try:
                caller, _ = await loop.sock_accept(door.listening)
            except OSError:  # out of descriptors, or the caller has gone already
                room.release()
                await asyncio.sleep(_AGAIN_S)
                continue
            try:
                config = config or self._config(door.name)
                state = ServerState()
                guarded = self._guarded(door, room, H11Protocol(config, state, {}, loop), state.tasks)
                await loop.connect_accepted_socket(partial(_given, guarded), caller)
            except BaseException:
                caller.close()
                raise
            await asyncio.sleep(self._bounds.pace_s)

    def _guarded(
        self, door: _Door, room: asyncio.Semaphore, inner: asyncio.Protocol, asked: set[asyncio.Task[None]]
    ) -> Guarded:
        """A caller. The room it takes is free again when the connection and all that was `asked` over it have ended."""

        def ended() -> None:
            door.inside.discard(guarded)
            left = list(asked)
            for task in left:
                task.cancel()  # nobody hears the answer; a change that still waits is not made
            if left:
                asyncio.gather(*left, return_exceptions=True).add_done_callback(lambda _: room.release())
            else:
                room.release()

        guarded = Guarded(inner, ended, read_s=self._bounds.read_s, life_s=self._bounds.life_s)
        door.inside.add(guarded)
        return guarded

    def _config(self, name: str) -> uvicorn.Config:
        """How HTTP is spoken: plainly, without a word in the log, since callers decide how much of that there is."""
        config = uvicorn.Config(
            gate(self._make_app(name), read_s=self._bounds.read_s),
            http="h11",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            h11_max_incomplete_event_size=_HEAD_BYTES,
        )
        config.load()
        return config


async def _shut(door: _Door) -> None:
    """No new callers; those inside are cut off, since what they ask is of a container that is no more."""
    if door.task is not None:
        door.task.cancel()
        await asyncio.gather(door.task, return_exceptions=True)
    close_door(door.folder, door.listening, door.mark)
    for guarded in list(door.inside):
        guarded.abort()
    await asyncio.sleep(0)


def _given(guarded: Guarded) -> Guarded:
    return guarded


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()
