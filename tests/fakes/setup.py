"""A host's set-up in memory, and a check-up's ground over a site of fakes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lxgpu.config.inforce import InForce
from lxgpu.errors import LxgpuError
from lxgpu.ports.facts import FileMode, HostFacts, IdRange, Places
from lxgpu.services.checks_host import SYSCTLS
from lxgpu.services.doctor import Ground
from lxgpu.services.site import Site

SOUND = HostFacts(
    packages={"pylxd": "2.4.2", "pynvml": None, "nvidia-ml-py": "13.615.71"},
    socket="/var/lib/lxd/unix.socket",
    driver="550.54.15",
    library="550.54.15",
    nodes={"nvidiactl": True, "nvidia-uvm": True, "nvidia-uvm-tools": True},
    cgroups="v2",
    rules={"bpf": ""},
    subuid=(IdRange(1_000_000, 1_000_000_000),),
    subgid=(IdRange(1_000_000, 1_000_000_000),),
    sysctls={name: least for name, (least, _) in SYSCTLS.items()},
    local_ports=(32768, 60999),
    listen="198.51.100.7",
    state_kind="ext4",
    state_free=10 * 2**30,
    state_size=100 * 2**30,
)
"""A GPU server on which nothing is wrong."""


class FakeSetup:
    """`ports.HostSetup` in memory. `here` may be changed; `locked` refuses every change, as for a user."""

    def __init__(self, here: HostFacts = SOUND) -> None:
        self.here = here
        self.locked = False
        self.asked: list[Places] = []

    def facts(self, places: Places, sysctls: tuple[str, ...]) -> HostFacts:
        """What is there now, of the parameters asked for."""
        self.asked.append(places)
        return replace(self.here, sysctls={name: self.here.sysctls.get(name) for name in sysctls})

    def set_sysctl(self, name: str, value: int) -> None:
        """Sets it."""
        self._check()
        self.here = replace(self.here, sysctls={**self.here.sysctls, name: value})

    def set_mode(self, path: str, mode: int) -> None:
        """Sets the permission bits; the kind of file stays."""
        self._check()
        self.here = replace(self.here, files=tuple(_with_mode(one, path, mode) for one in self.here.files))

    def make_nodes(self) -> None:
        """All nodes are there."""
        self._check()
        self.here = replace(self.here, nodes=dict.fromkeys(self.here.nodes, True))

    def _check(self) -> None:
        if self.locked:
            raise LxgpuError("not_allowed", "only root may", why="Permission denied")


def ground_of(
    site: Site, setup: FakeSetup, *, database: Callable[[], bool] = lambda: True, policy: InForce | None = None
) -> Ground:
    """A check-up of a site of fakes."""
    return Ground(
        setup=setup,
        settings=lambda: site.settings,
        engine=lambda: site.engine,
        probe=lambda _known: site.probe,
        site=lambda _read_only: site,
        policy=lambda: policy or InForce(site.policy()),
        database=database,
    )


def _with_mode(one: FileMode, path: str, mode: int) -> FileMode:
    return replace(one, mode=one.mode & ~0o7777 | mode) if one.path == path else one
