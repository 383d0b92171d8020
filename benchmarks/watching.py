"""What the daemon does all day: a card from hand to hand, and a turn in which there is nothing to do."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks.containers import KEY, delete_all
from benchmarks.measure import LXGPU, pairs, run, took
from benchmarks.table import Result


def move(env: Mapping[str, str], *, runs: int = 10) -> Result:
    """A card from one running container to another, fenced between; two `lxc config device` calls.

    Ours runs in this process, as in the daemon; what `lxc` needs to start is taken off its time.
    """
    os.environ.update(env)
    from lxgpu import wiring  # noqa: PLC0415 - the settings are read from the environment just set
    from lxgpu.model.request import GpuRequest  # noqa: PLC0415 - as above
    from lxgpu.services import lending  # noqa: PLC0415 - as above

    for name in ("here", "there"):
        run(*LXGPU, "create", name, "--ssh-key", "-", "-q", env=env, stdin=KEY)
        run("lxc", "launch", "base", f"rival-{name}", env=env)
    site = wiring.site(lambda _text: None)
    pci = site.engine.gpus()[0].pci

    def give(name: str) -> None:
        request = GpuRequest(instance=name, owner="", more=0)
        lending.attach(site, name, number=1, more=True, request=request, lease_s=None)

    def ours(source: str, target: str) -> None:
        lending.release(site, source, count=None, busy=True)
        give(target)

    def theirs(source: str, target: str) -> None:
        run("lxc", "config", "device", "remove", f"rival-{source}", "card", env=env)
        run("lxc", "config", "device", "add", f"rival-{target}", "card", "gpu", f"pci={pci}", env=env)

    def both() -> Iterator[tuple[float, float]]:
        give("here")
        run("lxc", "config", "device", "add", "rival-here", "card", "gpu", f"pci={pci}", env=env)
        way = ("here", "there")
        for number in range(runs + 1):
            start_up = 2 * took(lambda: run("lxc", "version", "--help", env=env))
            mine, other = took(ours, *way), took(theirs, *way) - start_up
            way = (way[1], way[0])
            if number:
                yield mine, other

    result = pairs("a card from one to another", "lxc config device remove + add, start-up taken off", 1.2, both())
    run("lxc", "delete", "-f", "rival-here", "rival-there", env=env)
    delete_all(env, ["here", "there"])
    return result


def tick(env: Mapping[str, str], *, people: int = 60, runs: int = 15) -> Result:
    """CPU of one turn with sixty containers and nothing to do, its children's included; one `gpustat --json`."""
    os.environ.update(env)
    from lxgpu import wiring  # noqa: PLC0415 - the settings are read from the environment just set
    from lxgpu.services.tick import tick as turn  # noqa: PLC0415 - as above

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "class.csv"
        file.write_text("name,key\n" + "".join(f"pupil{number},{KEY}\n" for number in range(people)))
        run(*LXGPU, "create", "--from", str(file), "-q", env=env)
    site = wiring.site(lambda _text: None)
    gpustat = str(Path(sys.executable).with_name("gpustat"))

    def both() -> Iterator[tuple[float, float]]:
        for number in range(runs + 1):
            mine = _cpu(lambda: turn(site))
            other = _cpu(lambda: run(gpustat, "--json", env=env))
            if number:
                yield mine, other

    result = pairs(f"CPU of a turn, {people} containers", "CPU of gpustat --json", 0.3, both())
    delete_all(env, [f"pupil{number}" for number in range(people)])
    return result


def _cpu(action: Callable[[], object]) -> float:
    """Seconds of CPU of this process and the children that have ended."""
    before = os.times()
    action()
    after = os.times()
    return sum(after[:4]) - sum(before[:4])
