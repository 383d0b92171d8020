"""The shape of a profile's YAML file, as pydantic models."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field

from lxgpu.config.fields import (
    SECTION,
    HostPath,
    Line,
    Name,
    Percent,
    PerGpuEntry,
    Processes,
    Size,
    Strict,
    optional,
    reads,
)
from lxgpu.errors import LxgpuError

_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._:=~-]{0,99}")
_PIP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._,<>=!~+*\[\]-]{0,199}")
_HEALTH = re.compile(r"http://127\.0\.0\.1:[0-9]{1,5}/[A-Za-z0-9/._-]*")
_DEVICE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_OURS = re.compile(r"root|home|ssh|eth[0-9]+|(?:gpu|data|folder|lxgpu)-.*")
_INSTEAD = {
    "limits.": "say it under `limits` or `ulimits`",
    "environment.": "say it under `environment`",
    "security.nesting": "say `nesting: true`",
    "security.privileged": "root inside would be root of the host",
    "nvidia.": "say `nvidia: auto` or `nvidia: off`",
    "raw.": "it would take away what keeps cards apart",
    "boot.": "lxgpu starts containers itself",
    "user.": "lxgpu keeps its own facts there",
    "volatile.": "it belongs to the engine",
    "security.protection.": "lxgpu sets it",
}


def _config_key(text: str) -> None:
    for prefix, instead in _INSTEAD.items():
        if text.startswith(prefix):
            raise LxgpuError("usage", f"{text} is not for a profile", why=instead)
    if "." not in text or not text.isprintable():
        raise LxgpuError("usage", f"{text!r} is no setting of the engine")


def _environment_name(text: str) -> None:
    if not _ENVIRONMENT_NAME.fullmatch(text):
        raise LxgpuError("usage", f"{text!r} is no name of a variable")


def _plain_line(text: str) -> None:
    if not text.isprintable() or "'" in text:
        raise LxgpuError("usage", "a value is one line without the character '")


def _package(text: str) -> None:
    if not _PACKAGE.fullmatch(text):
        raise LxgpuError("usage", f"{text!r} is no package")


def _pip(text: str) -> None:
    if not _PIP.fullmatch(text):
        raise LxgpuError("usage", f"{text!r} is no Python package", why="a name, with a version as in jupyterlab~=4.4")


def _health(text: str) -> None:
    if not _HEALTH.fullmatch(text):
        raise LxgpuError("usage", f"{text!r} is no address to ask", why="one inside, as http://127.0.0.1:8888/api")


def _command(text: str) -> None:
    if not text.startswith("/"):
        raise LxgpuError("usage", f"{text!r} is no command of a unit", why="it begins with the program's whole path")


def _device_name(text: str) -> None:
    if not _DEVICE_NAME.fullmatch(text):
        raise LxgpuError("usage", f"{text!r} is no name of a device")
    if _OURS.fullmatch(text):
        raise LxgpuError("usage", f"the device {text} is made by lxgpu")


def _no_card(text: str) -> None:
    if text.startswith(("/dev/nvidia", "/dev/dri")):
        raise LxgpuError("usage", f"{text} is a card's node", why="cards are lent, never passed by a profile")


def _mode(text: str) -> None:
    if not re.fullmatch(r"0?[0-7]{3}", text):
        raise LxgpuError("usage", f"{text!r} is no mode", why='a mode is written "0644", in quotes')


def _rlimit(text: str) -> None:
    if text != "unlimited" and not re.fullmatch(r"[0-9]{1,18}", text):
        raise LxgpuError("usage", f"{text!r} is no limit", why='a number in quotes, as "1048576", or unlimited')


Rlimit = Literal["as", "core", "cpu", "data", "fsize", "memlock", "nice", "nofile", "nproc", "rtprio", "sigpending"]


class LimitsEntry(Strict):
    """Limits that the profile sets for whom the policy does not say more."""

    cpu: Annotated[int, Field(ge=1, le=4096)] = optional("Cores.")
    memory: Size = optional("Memory.")
    disk: Size = optional("Disk.")
    processes: Processes = optional("Processes.")
    per_gpu: Annotated[PerGpuEntry, SECTION] = optional("What each card adds.")


class DeviceEntry(Strict):
    """A device of the engine that every container of the profile gets; cards never come this way."""

    type: Literal["unix-char", "unix-block", "unix-hotplug", "usb", "infiniband"]
    path: Annotated[HostPath, reads(_no_card)] = optional()
    source: Annotated[HostPath, reads(_no_card)] = optional()
    mode: Annotated[str, reads(_mode)] = optional()
    required: Literal["true", "false"] = optional()
    vendorid: Line = optional()
    productid: Line = optional()
    nictype: Line = optional()
    parent: Line = optional()


class FolderEntry(Strict):
    """A directory of the host that every container of the profile sees."""

    path: HostPath
    at: HostPath = optional()
    mode: Literal["ro", "rw"] = optional(default="ro")


class FileEntry(Strict):
    """A file written into the container."""

    path: HostPath
    content: str = Field(max_length=65536)
    mode: Annotated[str, reads(_mode)] = optional(default="0644")


class ServiceEntry(Strict):
    """A program that runs as the container's person whenever the container does, as a unit of its systemd."""

    title: Line
    command: Annotated[Line, reads(_command)]
    ports: list[Annotated[int, Field(ge=1, le=65535)]] = optional("Its ports on 127.0.0.1 inside.", default=[])
    health: Annotated[str, reads(_health)] = optional("A URL that answers 200 when it serves.")
    hint: Line = optional("How to use it, for `lxgpu ssh-config`.")


class ProfileEntry(Strict):
    """A profile of lxgpu: what a kind of container gets."""

    description: Line
    extends: Name = optional("The profile that this one adds to.")
    limits: Annotated[LimitsEntry, SECTION] = optional("Limits, where the policy's groups and users do not say.")
    nvidia: Literal["auto", "off"] = optional("Mount the driver's libraries where there are any.", default="auto")
    nesting: bool = optional("Let containers run inside, as Docker does.", default=False)
    shm: Percent = optional("The part of the memory limit that /dev/shm may take.", default="50%")
    ulimits: Annotated[dict[Rlimit, Annotated[str, reads(_rlimit)]], SECTION] = optional("Limits of processes.")
    environment: Annotated[
        dict[Annotated[str, reads(_environment_name)], Annotated[str, reads(_plain_line)]], SECTION
    ] = optional("Variables of every process.")
    packages: list[Annotated[str, reads(_package)]] = optional("Installed when the template is made.", default=[])
    pip: list[Annotated[str, reads(_pip)]] = optional(
        "Python packages, installed into /opt/venv when the template is made.", default=[]
    )
    services: Annotated[dict[Name, ServiceEntry], SECTION] = optional("Programs that run whenever the container does.")
    devices: Annotated[dict[Annotated[str, reads(_device_name)], DeviceEntry], SECTION] = optional("Devices.")
    folders: Annotated[dict[Name, FolderEntry], SECTION] = optional("Shared directories of the host.")
    files: list[FileEntry] = optional("Files written when the template is made.", default=[])
    setup: list[Annotated[str, Field(max_length=65536)]] = optional(
        "Shell commands run as root when the template is made.", default=[]
    )
    config: Annotated[dict[Annotated[str, reads(_config_key)], Line], SECTION] = optional("Settings of the engine.")
