"""A card in and out of a running container, without starting a process each time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from benchmarks.containers import KEY
from benchmarks.measure import LXGPU, pairs, run, took
from benchmarks.table import Result


def attach_release(env: Mapping[str, str], *, runs: int = 10) -> Result:
    """Attach and release with decision, journal, verification and fence; two `lxc config device` calls.

    Ours runs in this process, as in the daemon; what `lxc` needs to start is taken off its time.
    """
    os.environ.update(env)
    from lxgpu import wiring  # noqa: PLC0415 - the settings are read from the environment just set
    from lxgpu.model.request import GpuRequest  # noqa: PLC0415 - the settings are read from the environment just set
    from lxgpu.services import lending  # noqa: PLC0415 - the settings are read from the environment just set

    run(*LXGPU, "create", "mover", "--ssh-key", "-", "-q", env=env, stdin=KEY)
    run("lxc", "launch", "base", "rival", env=env)
    site = wiring.site(lambda _text: None)
    pci = site.engine.gpus()[0].pci
    request = GpuRequest(instance="mover", owner="", more=0)

    def ours() -> None:
        lending.attach(site, "mover", number=1, more=True, request=request, lease_s=None)
        lending.release(site, "mover", count=None, busy=True)

    def theirs() -> None:
        run("lxc", "config", "device", "add", "rival", "card", "gpu", f"pci={pci}", env=env)
        run("lxc", "config", "device", "remove", "rival", "card", env=env)

    def both() -> Iterator[tuple[float, float]]:
        ours()
        for _ in range(runs):
            start_up = 2 * took(lambda: run("lxc", "version", "--help", env=env))
            yield took(ours), took(theirs) - start_up

    result = pairs("attach + release", "lxc config device add + remove, start-up taken off", 1.2, both())
    run(*LXGPU, "delete", "mover", "--purge", "--yes", "-q", env=env)
    run("lxc", "delete", "-f", "rival", env=env)
    return result
