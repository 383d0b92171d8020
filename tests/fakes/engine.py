"""A small state machine that behaves like LXD 5.0.2, as far as lxgpu can tell. It passes the engine's contract tests.

Simplifications, on purpose: host directories are all there, every directory inside is there but those below
`/no-such-directory`, and every program ends well but the few that `engine_core` names.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from fakes.engine_core import File, missing, refused, stale
from fakes.engine_instances import FakeInstances

from lxgpu.drivers.lxd_read import proxy_ports
from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import Gpu
from lxgpu.model.instance import Power
from lxgpu.ports import Image, Network, Pool, Ran, Server


class FakeEngine(FakeInstances):
    """`ports.Engine` in memory, with faults.

    `inject` and `kill` say what goes wrong. For a fake probe: `nodes`, `init`, `by_pid`, `raw_at_start`.
    For tests: `cards` may be changed (a card dies), `stubborn` instances do not stop cleanly, in
    `exhausted` ones nothing can be run, `programs` answers for what is run, `ran` remembers it.
    """

    def server(self) -> Server:
        """Facts and promises."""
        with self._lock:
            self._read()
            tag = hashlib.sha256(json.dumps(self.promises, sort_keys=True).encode()).hexdigest()
            extensions = frozenset({"etag", "instance_all_projects", "resources_gpu"})
            return Server(self._name, "lxd", "5.0.2", extensions, dict(self.promises), f'"{tag}"')

    def put_promises(self, promises: Mapping[str, str | None], *, etag: str | None) -> None:
        """Merges keys into the configuration."""

        def apply() -> None:
            tag = hashlib.sha256(json.dumps(self.promises, sort_keys=True).encode()).hexdigest()
            if etag is not None and etag != f'"{tag}"':
                raise stale("ETag doesn't match")
            merged = {**self.promises, **promises}
            self.promises = {key: value for key, value in merged.items() if value}

        self._write("put_promises", "", apply, guarded=etag is not None)

    def gpus(self) -> tuple[Gpu, ...]:
        """The cards, in PCI order."""
        with self._lock:
            self._read()
            return tuple(sorted((replace(card, host=self._name) for card in self.cards), key=lambda card: card.pci))

    def pool(self, name: str) -> Pool:
        """A storage pool."""
        self._read()
        if name not in self.disks:
            raise missing(f"pool {name}")
        return Pool(name, "btrfs", 100 * 2**30, 2**30, enforces_quota=True)

    def network(self, name: str) -> Network:
        """The bridge."""
        self._read()
        if name != self.net.name:
            raise missing(f"network {name}")
        return self.net

    def profile_devices(self) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
        """The devices of the profiles."""
        with self._lock:
            self._read()
            return copy.deepcopy(self.profiles)

    def proxy_ports(self) -> Mapping[int, str]:
        """Ports of the host that proxy devices listen on."""
        with self._lock:
            self._read()
            taken = {
                port: f"profile {name}" for name, devices in self.profiles.items() for port in proxy_ports(devices)
            }
            for found in self.machines.values():
                owner = found.name if found.project == "default" else f"{found.project}/{found.name}"
                taken |= dict.fromkeys(proxy_ports(self._expanded(found)), owner)
            return taken

    def log_errors(self, name: str) -> tuple[str, ...]:
        """What a test put into `logs`."""
        self._read()
        return self.logs.get(name, ())

    def left_nodes(self, name: str) -> tuple[str, ...]:
        """Files that a HALF attach left."""
        with self._lock:
            self._read()
            found = self.machines.get(("default", name))
            left = sorted(found.left - set(self._expanded(found))) if found else []
            return tuple(f"/lxd/devices/{name}/unix.{device.replace('-', '--')}.dev-nvidia0" for device in left)

    def clear_left_nodes(self, name: str) -> None:
        """Takes away what a HALF attach left."""

        def apply() -> None:
            found = self.machines.get(("default", name))
            if found:
                found.left, found.left_nodes = frozenset(), frozenset()

        self._write("clear_left_nodes", name, apply)

    def run(
        self, name: str, argv: Sequence[str], *, environment: Mapping[str, str], timeout_s: float, stdin: bytes = b""
    ) -> Ran:
        """Pretends to run a program; `programs` has the answers, others end well."""
        del environment, timeout_s  # a pretended program needs neither
        answers: list[Ran] = []

        def apply() -> None:
            found = self._get(name)
            if found.power is not Power.RUNNING:
                raise refused(name, "Instance is frozen" if found.init_pid else "Instance is not running")
            if name in self.exhausted:
                raise refused(name, "Failed to retrieve PID of executing child process")
            self.ran.append((name, tuple(argv)))
            program = self.programs.get(argv[0])
            answers.append(program(argv, stdin) if program else Ran(0, ""))

        self._write("run", name, apply)
        return answers[0]

    def push(self, name: str, path: str, content: bytes, *, mode: int, uid: int = 0, gid: int = 0) -> None:
        """Writes a file."""

        def apply() -> None:
            found = self._get(name)
            if path.startswith("/no-such-directory/"):
                raise missing(path)
            found.files[path] = File(content, mode, uid, gid)

        self._write("push", name, apply)

    def pull(self, name: str, path: str) -> bytes | None:
        """Reads a file."""
        with self._lock:
            self._read()
            file = self._get(name).files.get(path)
            return file.content if file else None

    # ---- storage

    def ensure_volume(self, pool: str, name: str, *, size_bytes: int | None) -> None:
        """Makes or resizes a volume."""

        def apply() -> None:
            if pool not in self.disks:
                raise missing(f"pool {pool}")
            self.disks[pool][name] = size_bytes

        self._write("ensure_volume", name, apply)

    def delete_volume(self, pool: str, name: str) -> None:
        """Deletes a volume that is not in use."""

        def apply() -> None:
            for found in self.machines.values():
                used = [device for device in self._expanded(found).values() if device.get("source") == name]
                if any(device.get("pool") == pool for device in used):
                    raise refused(name, "The storage volume is still in use")
            self.disks.get(pool, {}).pop(name, None)

        self._write("delete_volume", name, apply)

    def has_volume(self, pool: str, name: str) -> bool:
        """Whether there is such a volume."""
        self._read()
        return name in self.disks.get(pool, ())

    def snapshots(self, name: str) -> tuple[tuple[str, datetime | None], ...]:
        """Oldest first."""
        with self._lock:
            self._read()
            return tuple((key, taken) for key, (taken, _) in self._get(name).snapshots.items())

    def snapshot(self, name: str, snapshot: str) -> None:
        """Takes one."""

        def apply() -> None:
            found = self._get(name)
            if snapshot in found.snapshots:
                raise LxgpuError("exists", f"snapshot {name}/{snapshot}: it exists already")
            found.snapshots[snapshot] = (self._tick(), replace(copy.deepcopy(found), snapshots={}))

        self._write("snapshot", name, apply)

    def restore(self, name: str, snapshot: str) -> None:
        """Configuration, devices and files come back; the identity stays."""

        def apply() -> None:
            found = self._get(name)
            if snapshot not in found.snapshots:
                raise missing(f"snapshot {name}/{snapshot}")
            old = copy.deepcopy(found.snapshots[snapshot][1])
            found.config = old.config | {"volatile.uuid": found.config["volatile.uuid"]}
            found.devices, found.files, found.description = old.devices, old.files, old.description

        self._write("restore", name, apply)

    def delete_snapshot(self, name: str, snapshot: str) -> None:
        """Deletes one."""

        def apply() -> None:
            found = self.machines.get(("default", name))
            if found:
                found.snapshots.pop(snapshot, None)

        self._write("delete_snapshot", name, apply)

    def images(self) -> tuple[Image, ...]:
        """The store."""
        with self._lock:
            self._read()
            return tuple(self.store.values())

    def import_image(self, path: str, *, alias: str | None) -> Image:
        """Takes the file's SHA-256 as fingerprint and moves the alias."""
        content = Path(path).read_bytes()
        fingerprint = hashlib.sha256(content).hexdigest()

        def apply() -> None:
            self.store.setdefault(fingerprint, Image(fingerprint, (), len(content), self._tick()))

        self._write("import_image", fingerprint, apply)
        if alias is not None:
            self.name_image(fingerprint, alias)
        return self.store[fingerprint]

    def name_image(self, fingerprint: str, alias: str) -> None:
        """Moves the alias."""

        def apply() -> None:
            if fingerprint not in self.store:
                raise missing(f"image {fingerprint}")
            for key, image in self.store.items():
                others = tuple(name for name in image.aliases if name != alias)
                self.store[key] = replace(image, aliases=others)
            named = self.store[fingerprint]
            self.store[fingerprint] = replace(named, aliases=(*named.aliases, alias))

        self._write("name_image", alias, apply)

    def delete_image(self, fingerprint: str) -> None:
        """Deletes one."""

        def apply() -> None:
            self.store.pop(fingerprint, None)

        self._write("delete_image", fingerprint, apply)
