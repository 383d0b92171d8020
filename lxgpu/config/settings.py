"""The settings: where things are and how this site is built; each value knows where it came from.

The order is: flag > `LXGPU_*` variable > config.yaml > default. Every command needs them, so they are read by a table
and the readers of `lxgpu.config.readers` instead of pydantic (150 ms), and without YAML where there is no file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lxgpu.config.readers import DEFAULT_PAGE, TABLE, Endpoint, Setting, by_key
from lxgpu.errors import LxgpuError

DEFAULT_CONFIG = Path("/etc/lxgpu/config.yaml")
CONFIG_VARIABLE = "LXGPU_CONFIG"
FLAGS: dict[str, str] = {}
"""What this process's command line said about settings: key → text; filled before the settings are read."""
PAGE_FOLDER = "page"
"""Where the page's door is, below the run directory."""


@dataclass(frozen=True, slots=True)
class HostSettings:
    """One engine: an LXD or Incus server. Empty: found out (`name`: the host's own, `socket`: the usual places).

    The first host is this one. `ssh` is `[user@]host[:port]` of another, whose cards are asked for through SSH, `probe`
    the command that answers for them, there if there is `ssh`, else here; empty: `lxgpu probe`. Another host with a
    `socket` has its cards lent too; its `bridge`, `listen` and `address` are those of `network` unless it has its own.
    """

    name: str = ""
    engine: str = "auto"
    socket: str = ""
    project: str = "default"
    ssh: str = ""
    probe: str = ""
    bridge: str = ""
    listen: str = ""
    address: str = ""

    @property
    def elsewhere(self) -> bool:
        """Whether somebody else answers for its cards."""
        return bool(self.ssh or self.probe)

    @property
    def own(self) -> dict[str, str]:
        """What its network has of its own: `bridge`, `listen`, `address`."""
        named = {"bridge": self.bridge, "listen": self.listen, "address": self.address}
        return {key: value for key, value in named.items() if value}


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """How people reach containers: the bridge, the address and the ports that are published for SSH.

    `address` is what people type after `ssh`; empty: the host's own name.
    """

    bridge: str
    listen: str
    ports: range
    address: str


@dataclass(frozen=True, slots=True)
class Channel:
    """A way to tell people: `kind` mail, webhook or command; `to` a mail server, a URL, or a program."""

    kind: str
    to: str
    sender: str = ""


@dataclass(frozen=True, slots=True)
class BackupSettings:
    """Snapshots of homes, and the engine's own copy to a remote; `to` empty: none. Times in seconds."""

    to: str
    every_s: int
    keep_s: int


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The page: where it listens, and `url`, how browsers reach it (no slash at its end).

    `metrics` is where Prometheus is answered, which no proxy leads to; None: nowhere.
    """

    listen: str = "127.0.0.1"
    port: int = 8470
    url: str = DEFAULT_PAGE
    metrics: Endpoint | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. `origins` says of each key where its value came from."""

    config: Path
    policy: Path
    profiles: Path
    templates: Path
    keys: Path
    state_dir: Path
    run_dir: Path
    network: NetworkSettings
    pool: str
    image: str
    profile: str
    homes: str
    keys_command: tuple[str, ...]
    kernel_log: Path
    nvidia: str
    device_rule: str
    quota_unenforced: str
    workers: int
    backup: BackupSettings
    web: WebSettings = WebSettings()
    proc: Path = Path("/proc")
    hosts: tuple[HostSettings, ...] = (HostSettings(),)
    images: Mapping[str, str] = field(default_factory=dict)
    channels: tuple[Channel, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def lending(self) -> tuple[HostSettings, ...]:
        """The hosts whose cards are lent: this one, and the others whose engine can be reached."""
        return (self.hosts[0], *(one for one in self.hosts[1:] if one.socket))

    def on(self, host: HostSettings) -> Settings:
        """The settings as they are for what is on another host: its own network."""
        if not host.own:
            return self
        network = replace(
            self.network,
            bridge=host.bridge or self.network.bridge,
            listen=host.listen or self.network.listen,
            address=host.address or self.network.address,
        )
        return replace(self, network=network)


def load_settings(flags: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Reads the settings.

    Args:
        flags: key → text (`{"policy": "/tmp/p.yaml"}`), `FLAGS` if left out; relative paths count from the working
            directory.
        environ: the variables; those of this process if left out.

    Raises:
        LxgpuError: `bad_file`: config.yaml has mistakes, or is not where a flag or LXGPU_CONFIG says;
            `usage`: a flag or a variable has a wrong value.
    """
    flags = FLAGS if flags is None else flags
    environ = os.environ if environ is None else environ
    path, given = _config_path(flags, environ)
    values: dict[str, Any] = {}
    origins: dict[str, str] = {"config": given or "default"}
    for setting in TABLE:
        values[setting.key], origins[setting.key] = setting.read(setting.default), "default"
    structured: dict[str, Any] = {}
    if given or path.exists():
        structured = _from_file(path, values, origins)
    _from_outside(flags, environ, values, origins)
    return _assemble(path, values, structured, origins)


def _config_path(flags: Mapping[str, str], environ: Mapping[str, str]) -> tuple[Path, str]:
    if "config" in flags:
        return Path(flags["config"]).absolute(), "--config"
    if environ.get(CONFIG_VARIABLE):
        return Path(environ[CONFIG_VARIABLE]).absolute(), CONFIG_VARIABLE
    return DEFAULT_CONFIG, ""


def _from_file(path: Path, values: dict[str, Any], origins: dict[str, str]) -> dict[str, Any]:
    from lxgpu.config.settingsfile import read_settings_file  # noqa: PLC0415 -- YAML is read where a file is

    found = read_settings_file(path)
    values.update(found.values)
    origins.update(found.origins)
    return dict(found.structured)


def _from_outside(
    flags: Mapping[str, str], environ: Mapping[str, str], values: dict[str, Any], origins: dict[str, str]
) -> None:
    """Variables, then flags, over what is there."""
    for setting in TABLE:
        if environ.get(setting.variable):
            values[setting.key] = _outside_value(setting, environ[setting.variable], setting.variable)
            origins[setting.key] = setting.variable
        if setting.key in flags:
            values[setting.key] = _outside_value(setting, flags[setting.key], setting.flag)
            origins[setting.key] = setting.flag
    unknown = sorted(set(flags) - set(by_key()) - {"config"})
    if unknown:
        raise LxgpuError("usage", f"there is no setting {unknown[0]}", fix="lxgpu config show lists them all")


def _outside_value(setting: Setting, text: str, origin: str) -> object:
    if setting.is_path:
        text = str(Path(text).absolute())
    try:
        return setting.read(text)
    except LxgpuError as error:
        raise LxgpuError("usage", f"{origin}: {error.brief}", why=error.why, fix=error.fix) from error


def _assemble(path: Path, values: Mapping[str, Any], structured: dict[str, Any], origins: dict[str, str]) -> Settings:
    plain = {key: value for key, value in values.items() if "." not in key}
    for name in ("hosts", "images", "channels"):
        origins.setdefault(name, "default")
    return Settings(
        config=path,
        network=NetworkSettings(
            bridge=values["network.bridge"],
            listen=values["network.listen"],
            ports=values["network.ports"],
            address=values["network.address"],
        ),
        backup=BackupSettings(to=values["backup.to"], every_s=values["backup.every"], keep_s=values["backup.keep"]),
        web=WebSettings(values["web.listen"], values["web.port"], values["web.url"], values["web.metrics"]),
        origins=origins,
        **plain,
        **structured,
    )
