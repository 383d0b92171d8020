"""The probe of another host: its `lxgpu probe` at the other end of a connection that stays (see `wire`).

Whoever asks hears in time, and what cannot be asked is `unavailable`: never free, never idle, never empty. After an
answer that did not come the connection is given up, so that no late one is taken for another's. While a host is away it
is tried again after 1, 2, 4 … 60 seconds, and in between the answer is there at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol

from lxgpu.drivers.wire import LONGEST_LINE, PROTOCOL, Line, error_from, line_of, methods, parsed, read, written
from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import DeviceNode, Gpu, Readings
from lxgpu.model.instance import Limits
from lxgpu.ports import Holders, Process

ANSWER_S = 30.0
"""Longer than the probe takes at the worst: a look at a container that hangs, twice, and one at NVML that does."""
HELLO_S = 10.0
_SEND_S = 5.0
_REST_S = 60.0
_PART = 1 << 16


class Stream(Protocol):
    """The two directions of a connection: a socket's, or an SSH channel's, which has the same words."""

    def settimeout(self, timeout: float | None, /) -> None:
        """How long `recv` and `sendall` wait before they raise TimeoutError."""

    def recv(self, size: int, /) -> bytes:
        """What has come, at least one byte; nothing when the other side has closed."""

    def sendall(self, data: bytes, /) -> object:
        """Send all of it."""

    def close(self) -> None:
        """Let the other side know that this was all; whoever waits in `recv` comes back."""


class Connection:
    """One connection, greeted. `host` is what the errors call the other side.

    Raises:
        LxgpuError: `unavailable`: the other side is no probe, or one of another version, or says nothing in time.
    """

    def __init__(self, stream: Stream, host: str, known: Mapping[str, str], *, hello_s: float) -> None:
        self._stream = stream
        self._host = host
        self._answers: dict[int, Line] = {}
        self._asked = 0
        self._over = ""
        self._first: list[bytes] = []
        self._hello: Line = {}
        self._clock = self._clock_at = 0.0
        self._news = threading.Condition()
        self._sending = threading.Lock()
        stream.settimeout(_SEND_S)
        threading.Thread(target=self._listen, name=f"lxgpu-probe-{host}", daemon=True).start()
        try:
            self._greet(hello_s, known)
        except LxgpuError:
            self.close("it was no probe")
            raise

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return not self._over

    def close(self, why: str) -> None:
        """Give it up; who waits for an answer hears `why`."""
        with self._news:
            self._over = self._over or why
            self._news.notify_all()
        self._stream.close()

    def ask(self, name: str, given: Mapping[str, object], within_s: float) -> Any:  # noqa: ANN401 -- as the method's
        """The answer to one question.

        Raises:
            LxgpuError: `unavailable`: there was none within `within_s`, and the connection has been given up;
                and what the other side raised.
        """
        ends = time.monotonic() + within_s
        with self._news:
            self._asked += 1
            number = self._asked
        before = self._clock + (ends - self._clock_at)
        self._send({"id": number, "do": name, "with": written(given), "before": before})
        if not self._wait(lambda: number in self._answers, ends):
            self.close(f"it did not answer within {within_s:g} s")
        with self._news:
            answer = self._answers.pop(number, None)
        if answer is None:
            raise unreachable(self._host, self._over)
        if "error" in answer:
            raise error_from(answer["error"])
        try:
            return read(methods()[name]["return"], answer.get("is"))
        except ValueError as error:
            raise unreachable(self._host, f"its answer to {name} is not understood: {error}") from error

    def _greet(self, hello_s: float, known: Mapping[str, str]) -> None:
        ends = time.monotonic() + hello_s
        if not self._wait(lambda: bool(self._hello), ends):
            said = b" ".join(self._first).decode(errors="replace").strip()[:200]
            raise unreachable(self._host, f"no probe answers there{f', but: {said}' if said else ''}", self._over)
        if self._hello["hello"] != PROTOCOL:
            theirs = f"lxgpu {self._hello.get('version')} with {self._hello['hello']}"
            raise unreachable(
                self._host,
                f"there is {theirs}, which does not fit {PROTOCOL} here",
                fix=f"install the same version of lxgpu on {self._host} and here",
            )
        # The other clock as it was when the hello was written: so what is asked is given up there a little before here.
        self._clock, self._clock_at = float(self._hello["clock"]), time.monotonic()
        self._send({"known": written(known)})

    def _send(self, line: Line) -> None:
        try:
            with self._sending:
                self._stream.sendall(line_of(line))
        except OSError as error:
            late = isinstance(error, TimeoutError)
            self.close("it takes no questions" if late else f"the connection broke: {error}")
            raise unreachable(self._host, self._over) from error

    def _wait(self, there: Callable[[], bool], ends: float) -> bool:
        with self._news:
            while not there():
                if self._over or not self._news.wait(ends - time.monotonic()):
                    return there()
        return True

    def _listen(self) -> None:
        rest = b""
        while not self._over and len(rest) < LONGEST_LINE:
            try:
                part = self._stream.recv(_PART)
            except TimeoutError:
                continue
            except OSError as error:
                self.close(f"the connection broke: {error}")
                return
            if not part:
                break
            *whole, rest = (rest + part).split(b"\n")
            for line in whole:
                self._take(line)
        self.close("the connection was closed")

    def _take(self, line: bytes) -> None:
        """Keep an answer; what a login prints before the probe begins is none."""
        found = parsed(line)
        with self._news:
            if not self._hello and (found is None or "hello" not in found):
                self._first = [*self._first, line][-3:]
            elif found is not None and not self._hello:
                self._hello = found
            elif found is not None and isinstance(found.get("id"), int):
                self._answers[found["id"]] = found
            self._news.notify_all()


class RemoteProbe:
    """`ports.HostProbe` of the host that `connect` leads to. `known` gives the cards remembered, UUID by PCI address.

    `answer_s` is how long one answer may take, the connecting not counted, which has times of its own.
    """

    def __init__(
        self,
        host: str,
        connect: Callable[[], Stream],
        *,
        known: Callable[[], Mapping[str, str]] = dict,
        answer_s: float = ANSWER_S,
        hello_s: float = HELLO_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._connect = connect
        self._known = known
        self._answer_s = answer_s
        self._hello_s = hello_s
        self._monotonic = monotonic
        self._connection: Connection | None = None
        self._opening = threading.Lock()
        self._failed = 0
        self._rest_until = 0.0
        self._cause = ""

    def close(self) -> None:
        """Let the connection go; the next question opens another."""
        found, self._connection = self._connection, None
        if found is not None:
            found.close("it was let go")

    def boot_id(self) -> str:
        """Changes at every boot of the host."""
        return str(self._ask("boot_id"))

    def card_stamp(self) -> str:
        """Another text whenever the host has gained or lost a card or a driver of cards, and at every boot."""
        return str(self._ask("card_stamp"))

    def listening_ports(self) -> frozenset[int]:
        """TCP ports on which anything of the host listens."""
        return frozenset(self._ask("listening_ports"))

    def readings(self) -> Readings:
        """One NVML sample of all cards; of a host that does not answer, why there is none."""
        try:
            found: Readings = self._ask("readings")
        except LxgpuError as error:
            return Readings(error=": ".join([error.brief, *error.why]))
        return found

    def nodes_inside(self, init: int, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
        """Which of the nodes exist under the instance's /dev, by device number."""
        return frozenset(self._ask("nodes_inside", init=init, nodes=nodes))

    def openable(self, init: int, nodes: Iterable[DeviceNode]) -> frozenset[DeviceNode]:
        """Which of the nodes a process of the instance may open."""
        return frozenset(self._ask("openable", init=init, nodes=nodes))

    def read_file(self, init: int, path: str, *, most: int) -> bytes | None:
        """The first `most` bytes of a regular file inside the instance."""
        found: bytes | None = self._ask("read_file", init=init, path=path, most=most)
        return found

    def set_rule(self, init: int, *, denied: Iterable[DeviceNode], allowed: Iterable[DeviceNode]) -> None:
        """Set the device rule of a running instance."""
        self._ask("set_rule", init=init, denied=denied, allowed=allowed)

    def deny(self, init: int, nodes: Iterable[DeviceNode]) -> None:
        """Let nothing in a running instance open these nodes either."""
        self._ask("deny", init=init, nodes=nodes)

    def holders(
        self,
        inits: Collection[int] | None,
        cards: Iterable[Gpu],
        *,
        but: Collection[int] = (),
        still: bool = True,
        at_once: bool = False,
        readings: Readings | None = None,
    ) -> Mapping[str, Holders]:
        """Who has each of the cards, by UUID; see `ports.HostProbe`."""
        asked = {"inits": inits, "cards": cards, "but": but, "still": still, "at_once": at_once, "readings": readings}
        found: Mapping[str, Holders] = self._ask("holders", **asked)
        return found

    def signal(self, process: Process, number: int) -> bool:
        """Send a signal to exactly this process; False when it is gone."""
        return bool(self._ask("signal", process=process, number=int(number)))

    def limits(self, init: int) -> Limits:
        """CPU, memory and process limits as the host's cgroups have them."""
        found: Limits = self._ask("limits", init=init)
        return found

    def logins(self, init: int) -> int:
        """How many SSH sessions of people are open in the instance."""
        return int(self._ask("logins", init=init))

    def tell(self, init: int, text: str) -> tuple[int, int]:
        """Write to every terminal of the instance without ever blocking: (delivered, missed)."""
        delivered, missed = self._ask("tell", init=init, text=text)
        return delivered, missed

    def _ask(self, name: str, **given: object) -> Any:  # noqa: ANN401 -- as the method's
        connection = self._opened()
        try:
            answer = connection.ask(name, given, self._answer_s)
        except LxgpuError as error:
            if not connection.alive:
                self._rest(error)
            raise
        self._failed = 0
        return answer

    def _opened(self) -> Connection:
        """The connection, made anew if it has ended and it is time to try."""
        with self._opening:
            if self._connection is not None and self._connection.alive:
                return self._connection
            left = self._rest_until - self._monotonic()
            if left > 0:
                raise unreachable(self._host, self._cause, f"it is tried again in {left:.0f} s")
            try:
                self._connection = Connection(self._connect(), self._host, self._known(), hello_s=self._hello_s)
            except LxgpuError as error:
                self._rest(error)
                raise
            return self._connection

    def _rest(self, error: LxgpuError) -> None:
        """After a failure, leave the host in peace for a while."""
        self._cause = "; ".join(error.why) or error.brief
        self._rest_until = self._monotonic() + min(_REST_S, 2.0**self._failed)
        self._failed += 1


def unreachable(host: str, *why: str, fix: str = "") -> LxgpuError:
    """The error for a host whose probe cannot be asked."""
    usual = f"see that {host} runs and can be reached; its cards count as unknown until then"
    return LxgpuError(
        "unavailable", f"the host {host} does not answer", why=[one for one in why if one], fix=fix or usual
    )
