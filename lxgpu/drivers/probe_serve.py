"""`lxgpu probe`: this host's probe for somebody elsewhere, who asks in lines of JSON (see `wire`).

Questions are answered side by side, each as soon as it is ready, so that none waits for a slow one. It ends with its
input; what was begun is brought to an end before, so that nothing stays frozen.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from lxgpu import __version__
from lxgpu.drivers.wire import LONGEST_LINE, PROTOCOL, Line, failure, line_of, methods, parsed, read, written
from lxgpu.errors import LxgpuError
from lxgpu.ports import HostProbe

AT_ONCE = 8
"""As many questions are in hand at a time; one more waits, until nobody wants its answer any more."""
_PART = 1 << 16


def now() -> float:
    """The clock that `before` counts by: seconds since this host's boot, those asleep too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class ProbeServer:
    """Answers what comes in on the file `source`, on the file `sink`, until the first ends.

    `make` gives the probe, with the cards that the other side remembers (UUID by PCI address).
    """

    def __init__(self, source: int, sink: int, make: Callable[[Mapping[str, str]], HostProbe]) -> None:
        self._source = source
        self._sink = sink
        self._make = make
        self._writing = threading.Lock()

    def serve(self) -> None:
        """Say hello and answer; returns when nobody asks any more."""
        self._say({"hello": PROTOCOL, "version": __version__, "host": os.uname().nodename, "clock": now()})
        lines = self._lines()
        opening = next(lines, None)
        if opening is None:
            return
        probe = self._make(read(Mapping[str, str], opening.get("known", {})))
        with ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="lxgpu-answer") as pool:
            for request in lines:
                pool.submit(self._answer, probe, request)
            pool.shutdown(cancel_futures=True)  # what is begun is waited for

    def _lines(self) -> Iterator[Line]:
        rest = b""
        while len(rest) < LONGEST_LINE and (part := os.read(self._source, _PART)):
            *whole, rest = (rest + part).split(b"\n")
            yield from (found for line in whole if (found := parsed(line)) is not None)

    def _say(self, line: Line) -> None:
        left = memoryview(line_of(line))
        with self._writing:
            while left:
                try:
                    left = left[os.write(self._sink, left) :]
                except OSError:  # nobody reads any more; the input's end, which follows, ends the work
                    return

    def _answer(self, probe: HostProbe, request: Line) -> None:
        """Do what is asked and say what came of it, whatever that is."""
        try:
            answer = {"is": written(_done(probe, request))}
        except LxgpuError as error:
            answer = {"error": failure(error)}
        except Exception as error:  # noqa: BLE001 -- the boundary: the other side hears of it and has to go on
            brief = f"the probe failed at {request.get('do')}: {type(error).__name__}: {error}"
            answer = {"error": failure(LxgpuError("internal", brief))}
        self._say({"id": request.get("id"), **answer})


def _done(probe: HostProbe, request: Line) -> object:
    name, given = request["do"], request["with"]
    kinds = methods()[name]
    values = {key: read(kinds[key], value) for key, value in given.items()}
    if now() > request["before"]:
        raise LxgpuError("unavailable", f"{name} came too late and was not begun")
    return getattr(probe, name)(**values)
