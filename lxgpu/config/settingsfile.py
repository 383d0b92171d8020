"""Reading config.yaml: the scalars by the table of settings, then hosts, images and channels."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lxgpu.config.check import Finding, did_you_mean, problems
from lxgpu.config.readers import by_key
from lxgpu.config.settings import Channel, HostSettings
from lxgpu.config.sshplace import ssh_place
from lxgpu.config.yamlload import Document, Steps, load_yaml
from lxgpu.errors import LxgpuError

_SECTIONS = ("network", "backup", "web")
_LISTS = ("hosts", "channels")
_OF_HOST = ("name", "engine", "socket", "project", "ssh", "probe", "bridge", "listen", "address")
_ENGINES = ("auto", "lxd", "incus")
_KINDS = ("mail", "webhook", "command")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://.")


@dataclass(slots=True)
class Found:
    """What a file says: values by dotted key, hosts, images and channels, and the place of each."""

    values: dict[str, Any] = field(default_factory=dict)
    structured: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def read_settings_file(path: Path) -> Found:
    """Reads config.yaml.

    Raises:
        LxgpuError: `bad_file`, with all mistakes in `problems`.
    """
    document = load_yaml(path)
    found = Found()
    if isinstance(document.value, dict):
        for name, value in document.value.items():
            _top(document, found, name, value)
    elif document.value is not None:
        found.findings.append(Finding((), "the file is no mapping (name: value)"))
    wrong = problems(document, found.findings)
    if wrong:
        raise document.source.error(wrong)
    return found


def _top(document: Document, found: Found, name: str, value: object) -> None:
    if name in _SECTIONS:
        if value is not None and not isinstance(value, dict):
            found.findings.append(Finding((name,), "a mapping (name: value) is wanted"))
        for inner, item in (value if isinstance(value, dict) else {}).items():
            _scalar(document, found, (name, inner), item)
    elif name == "hosts":
        found.structured["hosts"] = _hosts(found, value)
    elif name == "channels":
        found.structured["channels"] = _channels(found, value)
    elif name == "images":
        found.structured["images"] = _images(found, value)
    else:
        _scalar(document, found, (name,), value)
    if name in found.structured:
        found.origins[name] = f"{document.source.name}:{document.values[name,].line}"


def _scalar(document: Document, found: Found, steps: Steps, value: object) -> None:
    key = ".".join(map(str, steps))
    setting = by_key().get(key)
    if setting is None:
        head = ".".join(map(str, steps[:-1]))
        known = [name[len(head) + bool(head) :] for name in by_key() if name.startswith(head)]
        known = sorted({name.split(".")[0] for name in known} | (set() if head else {*_LISTS, "images"}))
        found.findings.append(Finding(steps, "unknown name" + did_you_mean(str(steps[-1]), known), at_key=True))
        return
    if isinstance(value, bool | list | dict) or value is None:
        found.findings.append(Finding(steps, f"text is wanted: {setting.help}"))
        return
    try:
        found.values[key] = setting.read(str(value))
        found.origins[key] = f"{document.source.name}:{document.values[steps].line}"
    except LxgpuError as error:
        found.findings.append(Finding(steps, "; ".join([error.brief, *error.why])))


def _hosts(found: Found, value: object) -> tuple[HostSettings, ...]:
    hosts: list[HostSettings] = []
    for steps, entry in _entries(found, ("hosts",), value, allowed=_OF_HOST):
        engine = entry.get("engine", "auto")
        if engine not in _ENGINES:
            found.findings.append(Finding((*steps, "engine"), f"{engine!r} is not one of {', '.join(_ENGINES)}"))
        if entry.get("socket") and not entry["socket"].startswith("/"):
            found.findings.append(Finding((*steps, "socket"), f"{entry['socket']!r} is no whole path"))
        if any(entry.get("name", "") == other.name for other in hosts):
            found.findings.append(Finding(steps, "each host needs a name of its own"))
        hosts.append(HostSettings(**entry))
        found.findings += _elsewhere(steps, hosts[-1], first=len(hosts) == 1)
    if not hosts and isinstance(value, list):
        found.findings.append(Finding(("hosts",), "the list is empty; leave it out for this host alone"))
    return tuple(hosts)


def _elsewhere(steps: Steps, host: HostSettings, *, first: bool) -> list[Finding]:
    """What is wrong with how a host is reached."""
    return (
        [_of_this(steps, host)] if first and (host.elsewhere or host.own) else [] if first else _of_other(steps, host)
    )


def _of_this(steps: Steps, host: HostSettings) -> Finding:
    """The host that lxgpu runs on is reached by itself, and its network is that of the settings."""
    if host.elsewhere:
        key = "ssh" if host.ssh else "probe"
        return Finding((*steps, key), "the first host is the one that lxgpu runs on; the others come after it")
    key = next(iter(host.own))
    return Finding((*steps, key), f"of the host that lxgpu runs on it is network.{key}")


def _of_other(steps: Steps, host: HostSettings) -> list[Finding]:
    if not host.elsewhere and not host.socket:
        text = "ssh is missing: how another host than this one is reached, as root@gpu2.lab.example"
        return [Finding(steps, f"{text}; or socket, for an engine of this machine")]
    if host.ssh and host.socket:
        text = "cards behind ssh are only looked at; leave socket out, or ssh for an engine of this machine"
        return [Finding((*steps, "socket"), text)]
    if host.own and not host.socket:
        return [Finding((*steps, next(iter(host.own))), "it is only looked at, so its network does not matter")]
    try:
        if host.ssh:
            ssh_place(host.ssh)
        if host.probe:
            shlex.split(host.probe)
    except LxgpuError as error:
        return [Finding((*steps, "ssh"), "; ".join([error.brief, *error.why]))]
    except ValueError as error:
        return [Finding((*steps, "probe"), f"{host.probe!r} is no command: {error}")]
    return []


def _channels(found: Found, value: object) -> tuple[Channel, ...]:
    channels = []
    for steps, entry in _entries(found, ("channels",), value, allowed=("kind", "to", "sender")):
        kind, to = entry.get("kind", ""), entry.get("to", "")
        if kind not in _KINDS:
            found.findings.append(Finding(steps, f"kind must be one of {', '.join(_KINDS)}"))
        elif not to:
            found.findings.append(Finding(steps, "to is missing: a mail server, a URL, or a program"))
        elif kind == "webhook" and not _URL.match(to):
            found.findings.append(Finding((*steps, "to"), f"{to!r} is no URL"))
        elif kind == "command" and not to.startswith("/"):
            found.findings.append(Finding((*steps, "to"), f"{to!r} does not start with a whole path"))
        channels.append(Channel(kind=kind, to=to, sender=entry.get("sender", "")))
    return tuple(channels)


def _images(found: Found, value: object) -> dict[str, str]:
    if value is not None and not isinstance(value, dict):
        found.findings.append(Finding(("images",), "a mapping (name: source) is wanted"))
    images = {}
    for name, source in (value if isinstance(value, dict) else {}).items():
        if isinstance(source, str) and source and source.isprintable():
            images[name] = source
        else:
            found.findings.append(Finding(("images", name), "text is wanted: where the image comes from"))
    return images


def _entries(
    found: Found, steps: Steps, value: object, *, allowed: tuple[str, ...]
) -> list[tuple[Steps, Mapping[str, str]]]:
    """The mappings of a list, with what they may not have reported and left out."""
    if not isinstance(value, list):
        found.findings.append(Finding(steps, "a list is wanted, as [{name: gpu1}]"))
        return []
    entries: list[tuple[Steps, Mapping[str, str]]] = []
    for number, entry in enumerate(value):
        here: Steps = (*steps, number)
        if not isinstance(entry, dict):
            found.findings.append(Finding(here, "a mapping (name: value) is wanted"))
            continue
        good: dict[str, str] = {}
        for name, item in entry.items():
            if name not in allowed:
                hint = did_you_mean(name, list(allowed))
                found.findings.append(Finding((*here, name), "unknown name" + hint, at_key=True))
            elif not isinstance(item, str) or not item.isprintable():
                found.findings.append(Finding((*here, name), "text is wanted"))
            else:
                good[name] = item
        entries.append((here, good))
    return entries
