"""Threads that are none: what is handed to the pool is done at once, so that a run can be repeated and shrunk."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Self

import pytest


class InlinePool:
    """As much of `ThreadPoolExecutor` as services use."""

    def __init__(self, max_workers: int | None = None) -> None:
        del max_workers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def submit(self, do: Callable[..., Any], *args: Any, **more: Any) -> Future[Any]:
        """Do it now; what it raises is raised by whoever asks for the result."""
        part: Future[Any] = Future()
        try:
            part.set_result(do(*args, **more))
        except BaseException as error:  # noqa: BLE001 -- a killed process, too, is for whoever asks for the result
            part.set_exception(error)
        return part

    def map(self, do: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """One after another."""
        return iter([do(item) for item in items])

    def shutdown(self, *, wait: bool = True, cancel_futures: bool = False) -> None:
        """Nothing runs."""


@contextmanager
def without_threads() -> Iterator[None]:
    """Every use case does one thing after another."""
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith("lxgpu.") and getattr(module, "ThreadPoolExecutor", None) is ThreadPoolExecutor:
                patch.setattr(module, "ThreadPoolExecutor", InlinePool)
        yield
