"""`lxgpu image` on a real LXD: an image that nobody made for lxgpu becomes one that containers are made of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator

import pytest
from labkit import lxc

from lxgpu.lab import Lab
from lxgpu.lab.image_cache import cached_image

pytestmark = pytest.mark.lab
# What makes our own image convenient and a plain one lacks: sshd's service, the network's settings, sudo.
STRIPPED = (
    "rootfs/etc/systemd/network/10-eth0.network",
    "rootfs/etc/systemd/system/multi-user.target.wants/systemd-networkd.service",
    "rootfs/etc/systemd/system/multi-user.target.wants/ssh.service",
    "rootfs/etc/systemd/system/systemd-networkd.service.d/10-no-udev.conf",
    "rootfs/etc/systemd/system/ssh.service",
)


def _lxgpu(lab: Lab, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **lab.env(), "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-m", "lxgpu", *words], env=env, capture_output=True, text=True, timeout=240, check=False
    )
    assert not check or ran.returncode == 0, ran.stderr
    return ran


def _images(lab: Lab) -> dict[str, dict[str, object]]:
    return {item["name"]: item for item in json.loads(_lxgpu(lab, "image", "ls", "-o", "json").stdout)["items"]}


@pytest.fixture
def plain(lab, tmp_path) -> Iterator[str]:
    """A tarball with systemd that asks nobody for an address and starts no sshd; what was made of it goes after."""
    path = tmp_path / "plain.tar"
    with tarfile.open(cached_image()) as whole, tarfile.open(path, "w") as bare:
        for member in whole:
            if member.name not in STRIPPED:
                bare.addfile(member, whole.extractfile(member) if member.isreg() else None)
    yield str(path)
    name = f"i{os.getpid()}"
    _lxgpu(lab, "delete", name, "--purge", "--yes", check=False)
    _lxgpu(lab, "image", "prune", "--all", "--yes", check=False)


def test_a_foreign_image_is_made_usable_kept_and_pruned(lab, plain):
    """Import prepares it, a container of it is ready with its SSH login proven, and prune takes it only after that."""
    name, alias = f"i{os.getpid()}", "plain"
    _lxgpu(lab, "image", "import", plain, "--alias", alias)
    assert _images(lab)[alias]["prepared"] is True
    _lxgpu(lab, "create", name, "--image", alias)
    assert _images(lab)[alias]["containers"] == 1
    assert _lxgpu(lab, "image", "prune", "--all", "--yes").returncode == 0
    assert alias in _images(lab)
    _lxgpu(lab, "delete", name, "--purge", "--yes")
    asked = _lxgpu(lab, "image", "prune", "--all", check=False)
    assert (asked.returncode, "--yes" in asked.stderr) == (2, True)
    _lxgpu(lab, "image", "prune", "--all", "--yes")
    assert set(_images(lab)) == {"base"}


def test_what_is_no_image_leaves_nothing(lab, tmp_path):
    """A file that LXD cannot read is refused; no name, no template, no image is left."""
    path = tmp_path / "no-image.tar"
    path.write_bytes(b"not a tarball")
    before = lxc(lab, "image", "list", "--format", "csv"), lxc(lab, "list", "--format", "csv", "-c", "n")
    ran = _lxgpu(lab, "image", "import", str(path), "--alias", "broken", check=False)
    assert ran.returncode == 8
    assert (lxc(lab, "image", "list", "--format", "csv"), lxc(lab, "list", "--format", "csv", "-c", "n")) == before
