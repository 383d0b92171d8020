"""Looking into a container without being held up by it.

Its root can put a file system of their own (FUSE) or a stuck one (NFS) below any path, and a process
can keep its memory map locked: reading /proc or opening a file there may then never return. Such
work runs in a thread of its own; when that does not come back in time the caller goes on without it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import TypeVar

Value = TypeVar("Value")


class TooLateError(Exception):
    """The work did not end in time; its thread may still wait inside the kernel."""


class Patience:
    """Runs work with a deadline, and never a second time for the same thing while the first still hangs."""

    def __init__(self) -> None:
        self._stuck: dict[Hashable, threading.Thread] = {}
        self._lock = threading.Lock()

    def run(self, key: Hashable, work: Callable[[], Value], *, timeout_s: float) -> Value:
        """The result of `work`, or what it raised.

        Raises:
            TooLateError: it did not end within `timeout_s`, or an earlier one of this `key` never ended.
        """
        with self._lock:
            stuck = self._stuck.get(key)
            if stuck is not None and stuck.is_alive():
                raise TooLateError
            self._stuck.pop(key, None)
        values: list[Value] = []
        errors: list[BaseException] = []

        def body() -> None:
            try:
                values.append(work())
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                errors.append(error)

        thread = threading.Thread(target=body, name=f"lxgpu-look-{key}", daemon=True)
        thread.start()
        thread.join(timeout_s)
        if thread.is_alive():
            with self._lock:
                self._stuck[key] = thread
            raise TooLateError
        if errors:
            raise errors[0]
        return values[0]
