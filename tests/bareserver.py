"""A bare Debian that plays a server: a system container with systemd and sshd, in a lab of its own.

What is in it is debootstrap's minimum, sshd, sudo and Python, as an installer leaves a server. It may nest, so that an
LXD can be set up inside; containers of that LXD do not start where the machine has cgroup v1.
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit import lxc

from lxgpu.lab import Lab
from lxgpu.lab.image import find_mirror
from lxgpu.lab.programs import run

NAME = "server"
# Loops for a pool in a file; the lab's own daemon takes some of the same numbers, as any two programs of a host would.
NESTING = {
    "security.privileged": "true",
    "security.nesting": "true",
    "raw.lxc": "lxc.cgroup.devices.allow = b 7:* rwm",
}
PIP = ("/etc/pip.conf", "~/.config/pip/pip.conf", "~/.pip/pip.conf")
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
# What time and Ansible itself change on a server, whatever a role does.
RESTLESS = ("/var/log", "/var/cache", "/var/tmp", "/var/lib/apt", "/var/lib/systemd")  # noqa: S108 -- on the server


@dataclass(frozen=True, slots=True)
class Server:
    """The server and the lab it stands in; `key` is the file of a private key that root may log in with."""

    lab: Lab
    address: str
    key: Path

    def run(self, *words: str, check: bool = True) -> str:
        """What a program prints there."""
        return lxc(self.lab, "exec", NAME, "--", *words, check=check)

    def try_(self, *words: str) -> int:
        """The exit status of a program there."""
        env = {**os.environ, "LXD_DIR": str(self.lab.lxd_dir), "LXD_CONF": str(self.lab.paths.client)}
        argv = ["lxc", "exec", NAME, "--", *words]
        return subprocess.run(argv, env=env, capture_output=True, timeout=120, check=False).returncode

    def fetch(self, path: str, target: Path) -> Path:
        """Copy a file from there."""
        lxc(self.lab, "file", "pull", f"{NAME}{path}", str(target))
        return target

    def files(self) -> str:
        """Every file below /etc, /opt, /usr and /var with its size and the time of its last change, one a line."""
        left_out = [word for path in RESTLESS for word in ("-path", path, "-prune", "-o")]
        left_out += ["-name", "__pycache__", "-prune", "-o"]
        return self.run(
            "find", "/etc", "/opt", "/usr", "/var", "-xdev", *left_out, "-type", "f", "-printf", "%p %s %T@\n"
        )

    def inventory(self) -> dict[str, Any]:
        """The variables with which Ansible reaches it."""
        ssh = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
        return {
            "ansible_host": self.address,
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.key),
            "ansible_ssh_common_args": ssh,
        }


def bare_server(lab: Lab, folder: Path) -> Server:
    """Start a bare server in the lab; it reaches the package registries as this machine does."""
    key = folder / "key"
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)])
    lxc(lab, "init", "base", NAME, "--quiet", *(word for pair in NESTING.items() for word in ("-c", "=".join(pair))))
    lxc(lab, "config", "device", "add", NAME, "loop-control", "unix-char", "path=/dev/loop-control")
    lxc(lab, "start", NAME)
    archive = folder / "files.tar"
    _pack(archive, key.with_suffix(".pub"))
    lxc(lab, "file", "push", str(archive), f"{NAME}/root/files.tar")
    server = Server(lab=lab, address=_address(lab), key=key)
    server.run("sh", "-c", "tar -C / -xf /root/files.tar && rm /root/files.tar")
    loops = "for n in $(seq 0 63); do [ -e /dev/loop$n ] || mknod -m 660 /dev/loop$n b 7 $n; done"
    server.run("sh", "-c", loops)
    server.run("sh", "-c", "apt-get -q update && apt-get -q -y install --no-install-recommends python3-apt")
    return server


def _address(lab: Lab) -> str:
    """Its address, as soon as it has one, which takes two seconds."""
    script = "until ip -4 -o address show dev eth0 scope global | grep -q inet; do sleep 0.1; done; hostname -I"
    return lxc(lab, "exec", NAME, "--", "timeout", "30", "sh", "-c", script).split()[0]


def _pack(archive: Path, key: Path) -> None:
    """What makes the server reach the registries, and root's key, as a tar to unpack over `/`."""
    with tarfile.open(archive, "w") as tar:
        for path, text in _contents(key):
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size, entry.mode = len(text), 0o600 if path.startswith("/root/") else 0o644
            tar.addfile(entry, io.BytesIO(text))


def _contents(key: Path) -> Iterator[tuple[str, bytes]]:
    yield "/root/.ssh/authorized_keys", key.read_bytes()
    yield CERTIFICATES, Path(CERTIFICATES).read_bytes()
    sources = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    debian = [path for path in sources if path.is_file() and find_mirror(path.read_text(errors="replace"))]
    if debian:  # else this machine is no Debian, and the image knows a mirror
        yield "/etc/apt/sources.list", b""
    for path in debian:
        yield str(path), path.read_bytes()
    for path in sorted(Path("/etc/apt/apt.conf.d").glob("*")):
        if not {"packagekit", "appstream", "needrestart"} & set(path.name.strip("0123456789").split("-")):
            yield str(path), path.read_bytes()
    for name in PIP:
        if Path(name).expanduser().is_file():
            yield name.replace("~", "/root"), Path(name).expanduser().read_bytes()
    named = {
        key: value for key, value in os.environ.items() if key.lower().endswith("_proxy") or key.startswith("PIP_")
    }
    yield "/etc/environment", "".join(f'{key}="{value}"\n' for key, value in named.items()).encode()
