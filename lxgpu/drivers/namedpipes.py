"""Named pipes in a folder that a container sees: bytes in both directions, whatever the engine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lxgpu.errors import cannot_write

NAMES = ("in", "out", "err", "told")
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(slots=True)
class Pipes:
    """This side of four pipes; nothing blocks. `told` is what the program says of itself.

    Both ends of each are open here, so that neither side sees an end before it is meant: `close_input` is the end of
    the program's input, and what was written when it ended is all there is to read.
    """

    stdin: int
    out: int
    err: int
    told: int
    kept: list[int]

    def close_input(self) -> None:
        """The program's input ends with what was written."""
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def close_output(self, handle: int) -> None:
        """Nobody reads any more what the program writes there: its next write tells it so."""
        os.close(handle)
        self.out, self.err = (-1 if one == handle else one for one in (self.out, self.err))


@contextmanager
def pipes_in(folder: str) -> Iterator[Pipes]:
    """Make the pipes in a folder of their own, which goes with them.

    Raises:
        LxgpuError: `inventory_storage`, `not_allowed`: they cannot be made.
    """
    place = Path(folder)
    opened: list[int] = []
    try:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        place.chmod(0o755)
        for name in NAMES:
            os.mkfifo(place / name)
            (place / name).chmod(0o666)  # root inside is nobody here
        readers = {name: os.open(place / name, os.O_RDONLY | _FLAGS) for name in NAMES}
        opened += readers.values()
        writers = {name: os.open(place / name, os.O_WRONLY | _FLAGS) for name in NAMES}
        opened += writers.values()
    except OSError as error:
        _close(opened)
        raise cannot_write(place, error) from error
    kept = [readers["in"], writers["out"], writers["err"], writers["told"]]
    pipes = Pipes(writers["in"], readers["out"], readers["err"], readers["told"], kept)
    try:
        yield pipes
    finally:
        _close([handle for handle in (pipes.stdin, pipes.out, pipes.err, pipes.told, *kept) if handle >= 0])
        shutil.rmtree(place, ignore_errors=True)


def _close(handles: list[int]) -> None:
    for handle in handles:
        with suppress(OSError):
            os.close(handle)
