"""The hosts of the settings and the way to each; and this host as the others see it."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING

from lxgpu import wiring

if TYPE_CHECKING:
    from lxgpu.config.settings import HostSettings
    from lxgpu.ports import HostProbe
    from lxgpu.services.hostviews import Neighbour

LOOK_S = 15.0
"""How long a look at all hosts takes at the most, as some have to be connected to first."""


def hosts() -> tuple[Neighbour, ...]:
    """The hosts of the settings, this one first; nobody is asked before their probe is."""
    from lxgpu.services.hostviews import Neighbour  # noqa: PLC0415

    others = wiring.settings().hosts[1:]
    far = (Neighbour(one.name, f"ssh {one.ssh}" if one.ssh else one.probe, partial(_probe, one)) for one in others)
    return Neighbour(wiring.host_name(), "here", wiring.probe), *far


def serve(source: int, sink: int) -> None:
    """Answer for this host's probe on two open files, until the first ends."""
    from lxgpu.drivers.probe_serve import ProbeServer  # noqa: PLC0415

    ProbeServer(source, sink, wiring.probe).serve()


def _probe(host: HostSettings) -> HostProbe:
    """The probe of another host, for commands that only look: it answers in time or is unreachable."""
    from lxgpu.config.sshplace import ssh_place  # noqa: PLC0415
    from lxgpu.drivers.child import Child  # noqa: PLC0415
    from lxgpu.drivers.remote import RemoteProbe, Stream  # noqa: PLC0415
    from lxgpu.drivers.ssh import run_there  # noqa: PLC0415

    def connect() -> Stream:
        if not host.ssh:
            return Child(shlex.split(host.probe))
        place = ssh_place(host.ssh)
        command = host.probe or ("lxgpu probe" if place.user == "root" else "sudo -n lxgpu probe")
        return run_there(place.user, place.host, place.port, command, timeout_s=wiring.LOOK_S)

    return RemoteProbe(host.name, connect, answer_s=wiring.LOOK_S, hello_s=wiring.LOOK_S)
