"""A whole site of fakes: an LXD, a host, an inventory, people who log in.

`site = make_site(tmp_path, gpus=2)`; then `site.engine` is a FakeEngine, `site.probe` a HostOfSite (a FakeProbe),
`site.clock` a FakeClock, `site.locks` FakeLocks, `site.inventory` a MemoryInventory, `site.say.lines` what was told,
`site.notify` a FakeNotifier, `site.board` a FakeBoard, `site.kernel_log` a FakeKernelLog.
`newcomer(site, "alice", gpus=1)` makes a container the way `lxgpu create` does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fakes.engine import FakeEngine
from fakes.engine_core import FakeInstance, File
from fakes.kernel_log import FakeKernelLog
from fakes.login import FakeLogin
from fakes.people import FakeBoard, FakeBrake, FakeNotifier, FakeParker
from fakes.probe import FakeProbe, beside
from fakes.slicer import FakeSlicer
from fakes.system import FakeClock, FakeLocks

from lxgpu.config.keys import parse_keys
from lxgpu.config.profiles import Profile
from lxgpu.config.settings import BackupSettings, NetworkSettings, Settings
from lxgpu.config.shipped import shipped
from lxgpu.drivers.lxd_read import proxy_ports
from lxgpu.drivers.texts import JinjaTexts
from lxgpu.errors import LxgpuError
from lxgpu.inventory.memory import MemoryInventory
from lxgpu.model.gpu import DeviceNode, Gpu
from lxgpu.model.instance import Instance, Limits, Power
from lxgpu.model.quota import BASE_TERMS, Policy
from lxgpu.model.request import CreateRequest, GpuRequest
from lxgpu.model.rules import PreemptionRules, PriorityClass, Rules
from lxgpu.ports import Inventory, Ran
from lxgpu.services.provision import create
from lxgpu.services.site import Site
from lxgpu.units import parse_size

LISTEN = "198.51.100.7"
_KEYS = re.compile(r"<<'KEYS'\n(.*?)\nKEYS\n", re.DOTALL)
_CHECK = re.compile(r"printf '%s\\n' '(.*?)' >\"/run/lxgpu/")
_REMOVED = re.compile(r"rm -f (\S+)")
_NAME = re.compile(r"^name=(\S+) uid=", re.MULTILINE)


def make_gpus(count: int, *, model: str = "NVIDIA RTX 3090", host: str = "host1", numa: int | None = 0) -> list[Gpu]:
    """Cards with nodes of their own, `GPU-00000001-…` first."""
    return [
        Gpu(
            uuid=f"GPU-{number:08x}-1111-2222-3333-444444444444",
            pci=f"0000:{number + 16:02x}:00.0",
            model=model,
            host=host,
            nodes=(
                DeviceNode(f"dri/card{number}", 226, number),
                DeviceNode(f"dri/renderD{128 + number}", 226, 128 + number),
                DeviceNode(f"nvidia{number}", 195, number),
            ),
            memory_bytes=24 * 2**30,
            numa_node=numa,
        )
        for number in range(1, count + 1)
    ]


def lab_policy(limit: int = 16) -> Policy:
    """Everybody may have `limit` cards, and time runs in seconds."""
    return Policy(
        contact="gpu-admin@lab.example",
        classes={"normal": PriorityClass("normal", priority=50, min_runtime_s=0, grace_s=2, term_wait_s=2)},
        defaults=replace(BASE_TERMS, limit=limit),
        rules=Rules(preemption=PreemptionRules(fence_timeout_s=5)),
    )


def make_settings(folder: Path) -> Settings:
    """Settings that point into a folder and at the fake LXD's pool, bridge and image."""
    return Settings(
        config=folder / "config.yaml",
        policy=folder / "policy.yaml",
        profiles=folder / "profiles",
        templates=folder / "templates",
        keys=folder / "keys",
        state_dir=folder / "state",
        run_dir=folder / "run",
        network=NetworkSettings(bridge="lxdbr0", listen=LISTEN, ports=range(22000, 22100), address=""),
        pool="default",
        image="base",
        profile="base",
        homes="",
        keys_command=(),
        kernel_log=folder / "kmsg",
        nvidia="auto",
        device_rule="auto",
        quota_unenforced="warn",
        workers=4,
        backup=BackupSettings(to="", every_s=86400, keep_s=86400),
    )


class Said:
    """`ports.Progress` that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, text: str) -> None:
        """One line."""
        self.lines.append(text)


class HostOfSite(FakeProbe):
    """A fake host whose cgroups hold what the fake LXD was told, but for the containers named in `held`."""

    def __init__(self, clock: FakeClock, engine: FakeEngine) -> None:
        super().__init__(clock, lambda: engine.cards, beside(engine))
        self.held: dict[str, Limits] = {}
        self._engine = engine

    def limits(self, init: int) -> Limits:
        """CPU, memory and processes as LXD has them now: limits change live."""
        name = self._inside(init).name
        return self.held.get(name) or limits_of(self._engine.machines["default", name].config)


def limits_of(config: Mapping[str, str]) -> Limits:
    """What LXD's configuration says, as the cgroups would."""
    cpu, memory, processes = (config.get(f"limits.{key}") for key in ("cpu", "memory", "processes"))
    return Limits(
        cpu=int(cpu) if cpu else None,
        memory_bytes=parse_size(memory) if memory else None,
        processes=int(processes) if processes else None,
    )


class LoginOfSite(FakeLogin):
    """Logins through the ports that the fake LXD publishes; `id -un` tells the account, `rm` takes files away."""

    def __init__(self, clock: FakeClock, engine: FakeEngine) -> None:
        super().__init__(clock, lambda host, port, user: _door(engine, host, port, user))
        self._engine = engine

    def check(self, *, host: str, port: int, user: str, private_key: str, timeout_s: float, command: str) -> Ran:
        """Log in, run a command, return its end."""
        ran = super().check(
            host=host, port=port, user=user, private_key=private_key, timeout_s=timeout_s, command=command
        )
        found = _open_at(self._engine, port)
        if found is not None and (gone := _REMOVED.search(command)):
            found.files.pop(gone[1], None)
        known = command in self.answers or not command.startswith("id -un")
        return ran if known else Ran(0, f"{user}\n")


def make_site(
    folder: Path,
    *,
    gpus: int | Sequence[Gpu] = 2,
    policy: Policy | None = None,
    inventory: Inventory | None = None,
    engine: FakeEngine | None = None,
    clock: FakeClock | None = None,
    actor: str = "root",
    profiles: Mapping[str, Profile] | None = None,
    unix_groups: Mapping[str, frozenset[str]] | None = None,
) -> Site:
    """A host with cards and nothing else on it yet; `folder` is where files of the site would be."""
    cards = make_gpus(gpus) if isinstance(gpus, int) else list(gpus)
    engine = engine or FakeEngine(cards)
    clock = clock or FakeClock()
    known = profiles or {"base": Profile("base"), "cpu-only": Profile("cpu-only", nvidia="off")}
    rules = policy or lab_policy()
    engine.programs["sh"] = lambda argv, _stdin: _script(engine, argv[-1])
    probe = HostOfSite(clock, engine)
    return Site(
        host="host1",
        engine=engine,
        probe=probe,
        inventory=inventory or MemoryInventory(),
        clock=clock,
        locks=FakeLocks(clock),
        login=LoginOfSite(clock, engine),
        texts=JinjaTexts((shipped("templates"),)),
        notify=FakeNotifier(),
        board=FakeBoard(),
        parker=FakeParker(probe),
        brake=FakeBrake(probe),
        slicer=FakeSlicer(probe),
        kernel_log=FakeKernelLog(clock),
        settings=make_settings(folder),
        policy=lambda: rules,
        profile=lambda name: _profile(known, name),
        nvidia=lambda _profile: {},
        guest=lambda name: f"/srv/lxgpu/guests/{name}",
        unix_groups=lambda person: (unix_groups or {}).get(person, frozenset()),
        host_uid=lambda _person: None,
        actor=actor,
        say=Said(),
    )


def request_for(site: Site, name: str, *, owner: str = "", gpus: int = 0, **more: object) -> CreateRequest:
    """What `lxgpu create NAME --gpus N` asks for; without `keys` the person gets one of their own."""
    _, line = site.login.new_key(owner or name)
    keys = more.pop("keys", tuple((key.fingerprint, key.text) for key in parse_keys(line)))
    wanted = GpuRequest(instance=name, owner=owner or name, more=gpus)
    return CreateRequest(gpus=wanted, profile="base", keys=keys, **more)


def newcomer(site: Site, name: str, *, owner: str = "", gpus: int = 0, **more: object) -> Instance:
    """A container made the way `lxgpu create` does it."""
    return create(site, request_for(site, name, owner=owner, gpus=gpus, **more))


def _profile(known: Mapping[str, Profile], name: str) -> Profile:
    if name not in known:
        raise LxgpuError("not_found", f"there is no profile {name}")
    return known[name]


def _script(engine: FakeEngine, text: str) -> Ran:
    """What templates/account.sh.j2 leaves behind, as far as a login needs it; other scripts leave nothing."""
    keys, person = _KEYS.search(text), _NAME.search(text)
    if keys and person:
        instance = engine.machines["default", engine.ran[-1][0]]
        instance.files[f"/etc/ssh/authorized_keys.d/{person[1]}"] = File(f"{keys[1]}\n".encode(), 0o644, 0, 0)
        if check := _CHECK.search(text):
            instance.files[f"/run/lxgpu/{person[1]}.keys"] = File(f"{check[1]}\n".encode(), 0o644, 0, 0)
    return Ran(0, "")


def _open_at(engine: FakeEngine, port: int) -> FakeInstance | None:
    """The running container that publishes a port."""
    running = (found for found in engine.machines.values() if found.power is Power.RUNNING)
    return next((one for one in running if one.project == "default" and port in proxy_ports(one.devices)), None)


def _door(engine: FakeEngine, host: str, port: int, user: str) -> list[str] | None:
    """The keys that let a user in at a port: those inside the running container that publishes it."""
    found = _open_at(engine, port) if host == LISTEN else None
    if found is None:
        return None
    paths = (f"/etc/ssh/authorized_keys.d/{user}", f"/run/lxgpu/{user}.keys")
    return [line for path in paths if path in found.files for line in found.files[path].content.decode().splitlines()]
