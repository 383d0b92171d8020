"""What a kind of container gets beside its limits: the engine's settings, environment, packages, files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lxgpu.model.quota import NOTHING, Terms
from lxgpu.model.rules import SharedData


@dataclass(frozen=True, slots=True)
class ProfileFile:
    """A file written into the container: whole path, text, and mode bits."""

    path: str
    content: str
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class Service:
    """A program that runs as the container's person whenever the container does: a unit of its systemd.

    `ports` are those of its own 127.0.0.1 that people reach through SSH. `health` is a URL that answers 200 when it
    serves; empty: nobody asks. `hint` tells in one line how to use it.
    """

    name: str
    title: str
    command: str
    ports: tuple[int, ...] = ()
    health: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile with all it extends merged in.

    `config` and `devices` are the engine's, with nesting and ulimits (`limits.kernel.*`) worked in. `nvidia` is `auto`
    (the driver's libraries are mounted where the host has them) or `off`. `shm_fraction` is the part of the memory
    limit that /dev/shm may take. `setup` are shell commands that run as root once, when the template of the profile
    is made; those that write `files` come first. `pip` are Python packages that are installed into /opt/venv then.
    `terms` are its limits, between the groups' and the defaults.
    """

    name: str
    description: str = ""
    terms: Terms = NOTHING
    config: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    ulimits: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    services: tuple[Service, ...] = ()
    folders: tuple[SharedData, ...] = ()
    files: tuple[ProfileFile, ...] = ()
    setup: tuple[str, ...] = ()
    nvidia: str = "auto"
    nesting: bool = False
    shm_fraction: float = 0.5
    source: Path | None = None

    @property
    def brings(self) -> bool:
        """Whether software is downloaded when its template is made."""
        return bool(self.packages or self.pip)
