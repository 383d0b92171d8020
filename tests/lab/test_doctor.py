"""`lxgpu doctor` on a real LXD: a sound lab, faults brought about, LXD away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from labkit import lxc

from lxgpu.lab import Lab
from lxgpu.lab.faults import set_fault

pytestmark = pytest.mark.lab
HOST_ONLY = {"capability", "private-keys", "root"}
"""What the machine that runs the tests decides, besides kernel parameters (their names have dots)."""


def _doctor(lab: Lab, *words: str, env: Mapping[str, str] | None = None) -> tuple[int, dict[str, list[dict[str, str]]]]:
    """The exit status, and the checks by id."""
    every = {**os.environ, **lab.env(), **(env or {}), "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-m", "lxgpu", "doctor", "-o", "json", *words]
    ran = subprocess.run(argv, env=every, capture_output=True, text=True, timeout=120, check=False)
    assert ran.stdout, ran.stderr
    found: dict[str, list[dict[str, str]]] = {}
    for item in json.loads(ran.stdout)["items"]:
        found.setdefault(item["id"], []).append(item)
    return ran.returncode, found


def _bad(found: dict[str, list[dict[str, str]]]) -> set[str]:
    every = [one for several in found.values() for one in several]
    bad = {one["id"] for one in every if one["verdict"] != "ok"}
    return {name for name in bad - HOST_ONLY if "." not in name}


@pytest.fixture
def stranger(lab) -> Iterator[str]:
    """A container of somebody else, stopped."""
    name = f"s{os.getpid()}"
    lxc(lab, "init", "base", name, "--quiet")
    yield name
    lxc(lab, "delete", "--force", name, check=False)


def test_a_lab_is_sound(lab):
    """LXD, bridge, pool, image, device rule and NVML are found well, by really asking them."""
    _, found = _doctor(lab)
    assert _bad(found) == set()
    assert {"lxd", "nvml", "device-rule", "pool", "pool-space", "bridge", "image", "drift", "listen"} <= set(found)
    assert f"{len(lab.gpus)} cards" in found["nvml"][0]["text"]


def test_a_gpu_device_without_a_selector_is_found(lab, stranger):
    """In a container as in a profile, each with the command that takes it off; status 10."""
    profile = f"p{os.getpid()}"
    lxc(lab, "config", "device", "add", stranger, "every", "gpu")
    lxc(lab, "profile", "create", profile)
    try:
        lxc(lab, "profile", "device", "add", profile, "all", "gpu")
        status, found = _doctor(lab)
        remedies = {one["remedy"] for one in found["gpu-devices"]}
    finally:
        lxc(lab, "profile", "delete", profile)
    assert status == 10
    wanted = {f"lxc config device remove {stranger} every", f"lxc profile device remove {profile} all"}
    assert remedies == wanted
    assert _bad(found) >= {"gpu-devices", "drift-foreign_card"}
    for remedy in wanted - {f"lxc profile device remove {profile} all"}:
        lxc(lab, *remedy.split()[1:])
    assert _bad(_doctor(lab)[1]) == set()


def test_nvml_out_of_order_is_told(lab):
    """A library that does not fit the driver is a failure with NVML's own words."""
    set_fault(lab, "all", "mismatch")
    try:
        status, found = _doctor(lab)
    finally:
        set_fault(lab, "all", "clear")
    assert status == 10
    assert found["nvml"][0]["verdict"] == "fail"
    assert "mismatch" in found["nvml"][0]["text"].lower()


def test_a_mode_is_mended(lab):
    """--fix takes away what others may do to the policy file, says so, and leaves the rest of the mode."""
    policy = Path(lab.env()["LXGPU_POLICY"])
    policy.chmod(0o646)
    before = {name: one[0]["text"] for name, one in _doctor(lab)[1].items()}
    assert str(policy) in before["files"]
    plan = subprocess.run(
        [sys.executable, "-m", "lxgpu", "doctor", "--fix", "--dry-run"],
        env={**os.environ, **lab.env(), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert f"set {policy} to 644" in plan
    assert policy.stat().st_mode & 0o777 == 0o646
    policy.chmod(0o644)


def test_without_lxd_the_rest_is_looked_at(lab, tmp_path):
    """A socket that is not there is a failure with its path; the parts of LXD are unknown, the host is judged."""
    config = tmp_path / "config.yaml"
    config.write_text(f"hosts: [{{name: h, socket: {tmp_path}/no.socket}}]\nstate_dir: {tmp_path}/state\n")
    env = {"LXGPU_CONFIG": str(config), "LXGPU_STATE_DIR": str(tmp_path / "state")}
    status, found = _doctor(lab, env=env)
    assert status == 10
    assert found["lxd"][0]["verdict"] == "fail"
    assert f"{tmp_path}/no.socket" in found["lxd"][0]["text"]
    assert {found[name][0]["verdict"] for name in ("pool", "bridge", "image", "drift")} == {"unknown"}
    assert found["device-rule"][0]["verdict"] == "ok"
    assert not (tmp_path / "state" / "inventory.db").exists()
