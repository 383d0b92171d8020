"""The instances of FakeEngine, with the checks that a real LXD makes."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fakes.engine_core import FakeCore, FakeInstance, File, land, missing, refused, stale

from lxgpu.errors import LxgpuError
from lxgpu.model.devices import gpus_in
from lxgpu.model.gpu import DeviceNode, normal_pci
from lxgpu.model.instance import Power, Sighting
from lxgpu.ports import Change

_KEYS = re.compile(
    r"(?:user|limits|security|boot|raw|environment|volatile|nvidia|image|cloud-init|linux|migration|snapshots)\."
)
_DEVICES = frozenset(
    {"none", "nic", "disk", "unix-char", "unix-block", "unix-hotplug", "usb", "gpu", "proxy", "tpm", "pci"}
)
BASE_IMAGE = "volatile.base_image"
_NAME = re.compile(r"[a-zA-Z](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?")


class FakeInstances(FakeCore):
    """Reading, making, changing and switching instances."""

    def add_stranger(
        self, name: str, *, project: str = "default", devices: Mapping[str, dict[str, str]], running: bool = False
    ) -> None:
        """Somebody else's instance, as if made with `lxc`."""
        found = self._new(name, config={}, devices=copy.deepcopy(dict(devices)), profiles=("default",), project=project)
        if running:
            self._boot(found)

    def instances(self, *, with_state: bool = True) -> tuple[Sighting, ...]:
        """All of all projects."""
        with self._lock:
            self._read()
            seen = (self._sight(found, state=with_state) for found in self.machines.values())
            return tuple(replace(one, etag=None) for one in seen)

    def instance(self, name: str, *, with_state: bool = True) -> Sighting | None:
        """One of the default project."""
        with self._lock:
            self._read()
            found = self.machines.get(("default", name))
            return self._sight(found, state=with_state) if found else None

    def glimpse(self, name: str) -> Sighting | None:
        """One of the default project, with no more of its state than its init."""
        seen = self.instance(name)
        return replace(seen, addresses=(), disk_used_bytes=None) if seen else None

    def _sight(self, found: FakeInstance, *, state: bool) -> Sighting:
        expanded = self._expanded(found)
        on = state and found.init_pid is not None
        addresses = (device["ipv4.address"] for device in expanded.values() if "ipv4.address" in device)
        return Sighting(
            name=found.name,
            project=found.project,
            power=found.power,
            config=dict(found.config),
            devices={device: dict(keys) for device, keys in found.devices.items()},
            expanded_devices=expanded,
            profiles=found.profiles,
            init_pid=found.init_pid if on else None,
            etag=found.etag,
            addresses=tuple(addresses) if on else (),
            disk_used_bytes=2**20 if on else None,
            created_at=found.created_at,
        )

    def create(self, name: str, *, source: str, change: Change, profiles: Sequence[str]) -> None:
        """Makes a stopped instance."""

        def apply() -> None:
            if not _NAME.fullmatch(name):
                raise refused(name, f"Invalid instance name: {name}")
            kind, _, origin = source.partition(":")
            config: dict[str, str] = {}
            devices: dict[str, dict[str, str]] = {}
            files: dict[str, File] = {}
            if kind == "copy":
                original = self._get(origin)
                kept = original.config.items()
                config = {key: value for key, value in kept if not key.startswith("volatile.") or key == BASE_IMAGE}
                devices, files = copy.deepcopy((original.devices, original.files))
            elif origin not in self.store:
                raise missing(f"image {origin}")
            else:
                config = {BASE_IMAGE: origin}
            for profile in profiles:
                if profile not in self.profiles:
                    raise refused(name, f'Requested profile "{profile}" doesn\'t exist')
            if ("default", name) in self.machines:
                raise LxgpuError("exists", f"create {name}: it exists already")
            config, devices = changed(config, devices, change)
            found = self._new(name, config=config, devices=devices, profiles=profiles)
            found.description, found.files = change.description or "", files

        self._write("create", name, apply)

    def update(self, name: str, change: Change, *, etag: str | None) -> None:
        """One guarded write."""
        with self._lock:
            there = self.machines.get(("default", name))
            guard = etag if etag is not None or there is None else there.etag
            self._write("update", name, lambda: self._apply(name, change, guard), guarded=True)

    def _apply(self, name: str, change: Change, guard: str | None) -> None:
        found = self._get(name)
        if guard is not None and guard != found.etag:
            raise stale("ETag doesn't match")
        config, devices = changed(found.config, found.devices, change)
        before = self._expanded(found)
        after = self._expanded(replace(found, devices=devices))
        if found.init_pid is not None:
            self._check_cards({key: value for key, value in after.items() if before.get(key) != value})
            blocked = found.left & (after.keys() - before.keys())
            if blocked:
                raise refused(name, f'Failed to start device "{min(blocked)}": file exists')
            found.inside = self._nodes_of(after)
        found.config, found.devices = config, devices
        if change.description is not None:
            found.description = change.description

    def _check_cards(self, devices: Mapping[str, Mapping[str, str]]) -> None:
        present = {card.pci for card in self.cards}
        for name, device in devices.items():
            if device.get("type") == "gpu" and "pci" in device and normal_pci(device["pci"]) not in present:
                raise refused(name, f'Failed to start device "{name}": Invalid PCI address: {device["pci"]}')

    def _nodes_of(self, expanded: Mapping[str, Mapping[str, str]]) -> frozenset[DeviceNode]:
        passed = gpus_in({name: one for name, one in expanded.items() if one.get("type") == "gpu"}, self.cards)
        single = (one for one in expanded.values() if one.get("type") == "unix-char" and "minor" in one)
        return frozenset(node for card in self.cards if card.uuid in passed for node in card.nodes) | {
            DeviceNode(one["path"].removeprefix("/dev/"), int(one["major"]), int(one["minor"])) for one in single
        }

    def barrier(self, name: str) -> None:
        """Lands what is not guarded, and makes the rest stale by another ETag."""

        def apply() -> None:
            for one in [one for one in self._pending if one.name == name and not one.guarded]:
                self._pending.remove(one)
                land(one)
            if ("default", name) in self.machines:
                self._mark(self._get(name), "user.lxgpu.barrier")

        self._write("barrier", name, apply)

    def _mark(self, found: FakeInstance, key: str) -> None:
        self._marks += 1
        found.config[key] = str(self._marks)

    def start(self, name: str) -> None:
        """Starts or thaws."""

        def apply() -> None:
            found = self._get(name)
            if found.power is Power.FROZEN:
                found.power = Power.RUNNING
            elif found.power is not Power.RUNNING:
                self._check_cards(self._expanded(found))
                self._boot(found)

        self._write("start", name, apply)

    def _boot(self, found: FakeInstance) -> None:
        self._pids += 1
        found.power, found.init_pid = Power.RUNNING, self._pids
        found.inside = self._nodes_of(self._expanded(found))
        found.raw_at_start = found.config.get("raw.lxc", "")
        self._mark(found, "volatile.last_state.power")

    def stop(self, name: str, *, timeout_s: float, force: bool) -> None:
        """Stops; a stubborn one only by force."""

        def apply() -> None:
            found = self._get(name)
            if found.power is Power.STOPPED:
                return
            if not force and (name in self.stubborn or found.power is Power.FROZEN):
                raise LxgpuError("outcome_unknown", f"stop {name}: not stopped in {timeout_s:g} s")
            found.power, found.init_pid = Power.STOPPED, None
            found.inside, found.left, found.left_nodes = frozenset(), frozenset(), frozenset()
            self._mark(found, "volatile.last_state.power")

        self._write("stop", name, apply)

    def freeze(self, name: str) -> None:
        """Somebody freezes it by hand (`lxc pause`); lxgpu never does."""
        with self._lock:
            self._get(name).power = Power.FROZEN

    def rename(self, name: str, new: str) -> None:
        """Renames a stopped instance."""

        def apply() -> None:
            found = self._get(name)
            if ("default", new) in self.machines:
                raise LxgpuError("exists", f"rename {name}: {new} exists already")
            if found.init_pid is not None:
                raise refused(name, "Renaming of running container not allowed")
            del self.machines["default", name]
            found.name = new
            self._mark(found, "volatile.apply_template")
            self.machines["default", new] = found

        self._write("rename", name, apply)

    def delete(self, name: str) -> None:
        """Deletes a stopped instance."""

        def apply() -> None:
            found = self.machines.get(("default", name))
            if found and found.init_pid is not None:
                raise refused(name, "Instance is running")
            self.machines.pop(("default", name), None)

        self._write("delete", name, apply)

    def rebuild_root(self, name: str, *, source: str) -> None:
        """A new root; everything else stays."""

        def apply() -> None:
            found = self._get(name)
            kind, _, origin = source.partition(":")
            if found.init_pid is not None or found.snapshots:
                raise stale("it runs or has snapshots")
            if kind == "image" and origin not in self.store:
                raise missing(f"image {origin}")
            found.files = copy.deepcopy(self._get(origin).files) if kind == "copy" else {}

        self._write("rebuild_root", name, apply)


def changed(
    config: Mapping[str, str], devices: Mapping[str, Mapping[str, str]], change: Change
) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Config and devices with a change over them, checked as LXD checks them."""
    for key in change.config:
        if not _KEYS.match(key):
            raise refused(key, f"Unknown configuration key: {key}")
    for key, device in change.devices.items():
        if device is not None and device.get("type") not in _DEVICES:
            raise refused(key, f'Invalid devices: Device validation failed for "{key}": Unsupported device type')
    new_config = {key: value for key, value in {**config, **change.config}.items() if value}
    new_devices = {key: dict(value) for key, value in {**devices, **change.devices}.items() if value is not None}
    return new_config, new_devices
