"""The way into a container: where its sshd is, and the host key by which it is known.

The host key is read from inside the container, so that nobody has to trust a first connection: the port leads to this
container or the login fails. What the container's root wrote there is parsed, never copied, and read by the probe:
a pipe in its place hangs LXD's files API (ran, 5.0.2), and with it every later stop of the container.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lxgpu.config.keys import PublicKey, parse_keys
from lxgpu.config.settings import Settings
from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Instance, InstanceState, Power, Sighting
from lxgpu.model.profile import Service
from lxgpu.model.snapshot import Records
from lxgpu.ports import Engine, HostProbe, Ran, Texts
from lxgpu.services.listing import state_of
from lxgpu.services.report import ssh_host
from lxgpu.services.unknown import no_container

HOST_KEY = "/etc/ssh/ssh_host_{kind}_key.pub"
_KINDS = ("ed25519", "ecdsa", "rsa")
"""In the order in which they are looked for: lxgpu's own containers have the first only."""
_LONGEST = 4096
"""Bytes of a public key's file."""


@dataclass(frozen=True, slots=True)
class Door:
    """How to log in to one container.

    `host` is what people use, `here` the address that is right on the host itself; `alias` is the name under which
    the host key is known, whatever the address.
    """

    name: str
    profile: str
    alias: str
    host: str
    here: str
    port: int
    user: str
    host_keys: tuple[PublicKey, ...]


def door(engine: Engine, probe: HostProbe, records: Records, settings: Settings, name: str) -> Door:
    """The way into a running container, with its host key.

    Raises:
        LxgpuError: `not_found`, `missing`, `not_ours`, `not_ready` (not running, or no host key).
    """
    row = known(records, name)
    if row.throw_away:
        raise LxgpuError(
            "throw_away", f"{name} has no login", why="it lives for one run", fix=f"lxgpu exec {name} -- bash"
        )
    person = records.person(row.owner)
    if person is None:
        raise LxgpuError("not_found", f"the inventory has no person {row.owner}", fix="lxgpu inventory verify")
    seen, init = running(engine, row)
    return Door(
        name=name,
        profile=row.profile,
        alias=f"{name}.{row.host}",
        host=ssh_host(settings.network),
        here=_listened_on(seen.devices) or settings.network.listen,
        port=person.ssh_port,
        user=person.name,
        host_keys=host_keys(probe, name, init),
    )


def known(records: Records, name: str) -> Instance:
    """The row of a container.

    Raises:
        LxgpuError: `not_found`.
    """
    row = records.instance(name)
    if row is None or row.state is InstanceState.TRASHED:
        raise no_container(records, name)
    return row


def running(engine: Engine, row: Instance) -> tuple[Sighting, int]:
    """The container as LXD has it and its init's pid, if it runs and is the one of the inventory.

    Raises:
        LxgpuError: `missing`, `not_ready`.
    """
    seen = engine.instance(row.name)
    state = state_of(row, seen, reachable=True)
    if state == "missing" or seen is None:
        raise LxgpuError(
            "missing",
            f"LXD has no container {row.name} of lxgpu, though the inventory does",
            fix=f"lxgpu why {row.name}",
        )
    if state == "suspended" or seen.power is not Power.RUNNING or seen.init_pid is None:
        fixes = {"suspended": f"lxgpu resume {row.name}", "stopped": f"lxgpu start {row.name}"}
        raise LxgpuError(
            "not_ready",
            f"{row.name} is {state or 'changing'}",
            why=row.reason or (),
            fix=fixes.get(state or "", f"lxgpu restart {row.name}"),
        )
    return seen, seen.init_pid


def host_keys(probe: HostProbe, name: str, init: int) -> tuple[PublicKey, ...]:
    """The container's own host key, read from inside.

    Raises:
        LxgpuError: `not_ready`: there is none yet, or no valid one.
    """
    for kind in _KINDS:
        found = probe.read_file(init, HOST_KEY.format(kind=kind), most=_LONGEST)
        if found is not None:
            return (_host_key(name, found),)
    raise LxgpuError(
        "not_ready",
        f"{name} has no SSH host key yet",
        why="sshd makes one when it starts for the first time",
        fix=f"repeat in a moment; lxgpu exec {name} -- systemctl status ssh",
    )


def _host_key(name: str, found: bytes) -> PublicKey:
    text = found.decode(errors="replace").strip()
    try:
        keys = parse_keys(text)
    except LxgpuError as error:
        raise _no_key(name, error.why or (error.brief,)) from error
    if len(keys) != 1 or keys[0].options:
        raise _no_key(name, (f"the file has {len(keys)} keys, or options before one",))
    return keys[0]


def _no_key(name: str, why: Iterable[str]) -> LxgpuError:
    return LxgpuError(
        "not_ready",
        f"the SSH host key in {name} is no valid one",
        why=tuple(why),
        fix="remove /etc/ssh/ssh_host_* inside and restart its sshd; it makes a new one",
    )


def known_hosts(way: Door) -> str:
    """The known_hosts lines of a container: by its alias, and by address and port for other clients."""
    names = [way.alias, f"[{way.host}]:{way.port}"]
    if way.here != way.host:
        names.append(f"[{way.here}]:{way.port}")
    return "".join(f"{','.join(names)} {key.type} {b64encode(key.blob).decode()}\n" for key in way.host_keys)


def stanza(texts: Texts, way: Door) -> str:
    """The lines for ~/.ssh/config."""
    return texts.render(
        "ssh_config.j2", alias=way.name, key_alias=way.alias, host=way.host, port=way.port, user=way.user, forward=()
    )


def tunnels(texts: Texts, way: Door, services: Iterable[Service]) -> str:
    """Lines for ~/.ssh/config that reach the services of a container, each by a name of its own.

    They are apart from the container's own name, so that a second login does not find its ports taken.
    """
    return "".join(
        texts.render("tunnel.j2", alias=way.name, service=one)
        + texts.render(
            "ssh_config.j2",
            alias=f"{way.name}-{one.name}",
            key_alias=way.alias,
            host=way.host,
            port=way.port,
            user=way.user,
            forward=one.ports,
        )
        for one in services
        if one.ports
    )


def run(engine: Engine, records: Records, name: str, argv: tuple[str, ...], *, stdin: bytes, timeout_s: float) -> Ran:
    """Run a program as root inside a container and wait for its end; its status is whatever it is.

    Raises:
        LxgpuError: as `running`; `outcome_unknown`: it took longer than `timeout_s` and was ended.
    """
    running(engine, known(records, name))
    return engine.run(name, argv, environment={"HOME": "/root"}, timeout_s=timeout_s, stdin=stdin)


def _listened_on(devices: Mapping[str, Mapping[str, str]]) -> str:
    """The host's address in the device that publishes the port; empty where there is none."""
    _, _, rest = devices.get("ssh", {}).get("listen", "").partition(":")
    return rest.rpartition(":")[0].strip("[]")
