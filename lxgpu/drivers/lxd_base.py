"""How a change is sent to LXD and waited for: operations, busy instances, deadlines."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import BinaryIO

from lxgpu.drivers.lxd_errors import NOT_FOUND, STALE, is_busy, outcome_unknown, refusal
from lxgpu.drivers.lxd_http import LxdSession
from lxgpu.drivers.lxd_inits import Inits
from lxgpu.drivers.lxd_read import table
from lxgpu.drivers.lxd_wire import Answer, Deadline
from lxgpu.errors import LxgpuError

_FIRST_ERROR = 400
_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.5
_SLOW = 20
_DONE = 200
_RUNNING = range(100, 200)


class LxdBase:
    """The session and the verbs that all parts of the driver are written in."""

    def __init__(
        self, socket: str | None, *, timeout_s: float = 30, project: str = "default", hasty: bool = False
    ) -> None:
        self._session = LxdSession(socket, project=project)
        self._timeout_s = timeout_s
        self._project = project
        self._hasty = hasty
        self._silence: tuple[LxgpuError, Deadline] | None = None
        self._inits = Inits()
        self._bodies: dict[str, Answer] = {}

    @property
    def requests(self) -> int:
        """How many requests were sent so far."""
        return self._session.requests

    def _deadline(self) -> Deadline:
        return Deadline(self._timeout_s)

    def _slow(self) -> Deadline:
        """For what copies, unpacks or re-owns whole file systems."""
        return Deadline(self._timeout_s * _SLOW)

    def _get(self, path: str, what: str, *, deadline: Deadline | None = None, **params: object) -> Answer:
        """Reads; any refusal is raised."""
        answer = self._ask(path, what, deadline or self._deadline(), **params)
        if answer.status >= _FIRST_ERROR:
            raise refusal(what, status=answer.status, text=answer.error)
        return answer

    def _ask(self, path: str, what: str, deadline: Deadline, **params: object) -> Answer:
        """Reads; a server that was silent until a deadline is asked nothing for as long again by a hasty engine."""
        if self._silence is not None and not self._silence[1].over:
            raise self._silence[0]
        try:
            return self._session.get(path, deadline=deadline, what=what, **params)
        except LxgpuError as error:
            if self._hasty and deadline.over:
                self._silence = error, self._deadline()
            raise

    def _find(self, path: str, what: str, **params: object) -> Answer | None:
        """Reads; None when there is no such thing."""
        answer = self._ask(path, what, self._deadline(), **params)
        if answer.status == NOT_FOUND:
            return None
        if answer.status >= _FIRST_ERROR:
            raise refusal(what, status=answer.status, text=answer.error)
        return answer

    def _do(
        self,
        method: str,
        path: str,
        what: str,
        *,
        deadline: Deadline,
        body: object = None,
        raw: bytes | BinaryIO | None = None,
        params: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Sends one change and waits for its end; a busy instance is tried again until the deadline.

        Only "busy" is repeated, since LXD then has begun nothing.
        """

        def once() -> Answer:
            answer = self._session.send(
                method, path, deadline=deadline, what=what, body=body, raw=raw, params=params, headers=headers
            )
            return self._ended(answer, what, deadline)

        return self._patiently(once, deadline)

    def _patiently(self, once: Callable[[], Answer], deadline: Deadline, *, also_stale: bool = False) -> Answer:
        """Calls until the answer is not "busy" (nor, if asked for, "changed in between")."""
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return once()
            except LxgpuError as error:
                words = " ".join(error.why)
                again = error.code == "conflict" and (is_busy(words) or also_stale)
                if not again or deadline.left <= pause:
                    raise
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def _ended(self, answer: Answer, what: str, deadline: Deadline) -> Answer:
        """Follows the operation an answer names, until it has ended."""
        if answer.status >= _FIRST_ERROR:
            raise refusal(what, status=answer.status, text=answer.error)
        if answer.json.get("type") != "async":
            return answer
        operation = str(answer.json.get("operation")).removeprefix("/1.0/").partition("?")[0]
        while True:
            found = self._wait(operation, what, deadline)
            if found.status == NOT_FOUND:  # LXD forgets an operation seconds after its end: whoever called reads back
                return answer
            state = table(found.metadata)
            code = state.get("status_code")
            if code == _DONE:
                return found
            if not isinstance(code, int) or code not in _RUNNING:
                text = str(state.get("err") or state.get("status"))
                status = STALE if "ETag doesn't match" in text else 0
                raise refusal(what, status=status, text=text, details={"operation": state})
            if deadline.over:
                raise outcome_unknown(what, "LXD is still at it", deadline.seconds)

    def _wait(self, operation: str, what: str, deadline: Deadline) -> Answer:
        """What became of the operation. Incus answers the wait for a failed one with an error and no details."""
        seconds = max(1, math.ceil(deadline.left))
        try:
            found = self._session.get(f"{operation}/wait", deadline=deadline, what=what, timeout=seconds)
            if found.status < _FIRST_ERROR and found.json.get("type") == "error":
                found = self._session.get(operation, deadline=deadline, what=what)
        except LxgpuError as error:  # the question got no answer, but the change before it was sent
            raise outcome_unknown(what, "; ".join(error.why), deadline.seconds) from None
        if found.status >= _FIRST_ERROR and found.status != NOT_FOUND:
            raise outcome_unknown(what, f"LXD does not tell how it ended: {found.error}", deadline.seconds)
        return found
