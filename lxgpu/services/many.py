"""Several containers at once: bounded workers, one outcome a row, the failures collected and never hidden."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Instance
from lxgpu.model.request import CreateRequest
from lxgpu.services.provision import create
from lxgpu.services.refusal import Asked, recording
from lxgpu.services.site import Site


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one row ended: the container, or the error."""

    request: CreateRequest
    instance: Instance | None = None
    error: LxgpuError | None = None


def each(work: Callable[[str], None], names: Sequence[str], *, workers: int) -> dict[str, LxgpuError]:
    """Do it for every name, several at once; the errors by name, in the order of the names."""

    def one(name: str) -> LxgpuError | None:
        try:
            work(name)
        except LxgpuError as error:
            return error
        return None

    if len(names) == 1:  # in this thread, so that Ctrl-C reaches it
        error = one(names[0])
        return {} if error is None else {names[0]: error}
    with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        found = zip(names, pool.map(one, names), strict=True)
        return {name: error for name, error in found if error is not None}


def create_many(
    sites: Callable[[CreateRequest], Site],
    requests: Sequence[CreateRequest],
    *,
    workers: int,
    ended: Callable[[Outcome], None],
) -> list[Outcome]:
    """Create them all, in the order given as far as workers are free; `ended` hears of each as it ends."""

    def one(request: CreateRequest) -> Outcome:
        site = sites(request)
        try:
            with recording(site, request.name, Asked(request.gpus.more or len(request.gpus.uuids), request.lease_s)):
                outcome = Outcome(request, instance=create(site, request))
        except LxgpuError as error:
            outcome = Outcome(request, error=error)
        ended(outcome)
        return outcome

    with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        return list(pool.map(one, requests))
