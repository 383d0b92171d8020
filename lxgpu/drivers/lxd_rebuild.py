"""A new root file system under an old identity, for servers without a call for it (LXD 5.0)."""

from __future__ import annotations

from lxgpu.drivers.lxd_instances import LxdInstances
from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Power, Sighting
from lxgpu.ports import Change

_LONGEST = 63


class LxdRebuild(LxdInstances):
    """`rebuild_root` of `ports.Engine`.

    Four renames and writes, each of which can be the last before a crash; what is there tells how far it
    came, and calling it again goes on from there:

    1. make NEW from the source, without cards and without our marks
    2. rename NAME to OLD
    3. rename NEW to NAME
    4. write OLD's configuration, devices and identity (`volatile.uuid`, hardware addresses) to NAME; delete OLD
    """

    def rebuild_root(self, name: str, *, source: str) -> None:
        """Replaces the root file system of a stopped instance; configuration, devices and identity stay.

        Raises:
            LxgpuError: `conflict` when it runs or has snapshots, which would be lost with the old file system.
        """
        new, old = _beside(name, "new"), _beside(name, "old")
        kept = self.instance(old)
        if kept and self.instance(name) is None and self.instance(new) is None:
            self.rename(old, name)  # somebody removed NEW: begin again
            kept = None
        if kept is None:
            kept = self._ready(name)
            self.delete(new)
            self.create(new, source=source, change=Change(), profiles=kept.profiles)
            self.rename(name, old)
        if self.instance(name) is None:
            self.rename(new, name)
        self._inherit(name, kept)
        self.delete(old)

    def _ready(self, name: str) -> Sighting:
        kept = self.instance(name)
        if kept is None:
            raise LxgpuError("not_found", f"rebuild {name}: there is no such instance")
        if kept.power is not Power.STOPPED:
            raise LxgpuError("conflict", f"rebuild {name}: it is {kept.power}", fix=f"lxgpu stop {name}")
        names = self._get(f"instances/{name}/snapshots", f"rebuild {name}").metadata
        if names:
            why = "its snapshots belong to the old file system and would be lost"
            raise LxgpuError("conflict", f"rebuild {name}: it has snapshots", why=why, fix="delete them first")
        return kept

    def _inherit(self, name: str, kept: Sighting) -> None:
        """Makes config and devices those of `kept`, but for what belongs to the new file system."""
        fresh = self.instance(name)
        if fresh is None:
            raise LxgpuError("not_found", f"rebuild {name}: it is gone")
        config: dict[str, str | None] = {key: None for key in fresh.config if not _of_root(key)}
        config |= {key: value for key, value in kept.config.items() if not _of_root(key)}
        devices: dict[str, dict[str, str] | None] = dict.fromkeys(fresh.devices)
        devices |= {key: dict(device) for key, device in kept.devices.items()}
        self.update(name, Change(config=config, devices=devices), etag=fresh.etag)


def _of_root(key: str) -> bool:
    """Whether a config key describes the root file system and not the instance."""
    identity = key == "volatile.uuid" or (key.startswith("volatile.") and key.endswith(".hwaddr"))
    return key.startswith(("image.", "volatile.")) and not identity


def _beside(name: str, which: str) -> str:
    """The passing name of a second instance; reserved, since nobody's name starts with `lxgpu-`."""
    import hashlib  # noqa: PLC0415 - 3 ms that `ls` need not pay

    whole = f"lxgpu-{which}-{name}"
    return whole if len(whole) <= _LONGEST else f"lxgpu-{which}-{hashlib.sha256(name.encode()).hexdigest()[:32]}"
