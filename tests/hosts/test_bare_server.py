"""site.yml on a bare Debian: rehearsed, run, run again; then what it has made, and what it leaves alone.

The driver's role is left out of these: there is no card, and no kernel module can be loaded in a container. It has a
test of its own, with those packages that bring no module.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from bareserver import Server, bare_server
from playbooks import Played, play, write_inventory

from lxgpu.lab import Lab

# What doctor finds on a server that is a container of a machine without cards, and why no role could mend it.
FORBIDDEN = {
    "capability": "the machine that runs the tests may have no CAP_SYS_RESOURCE, and what runs in it has it not either",
    "fs.inotify.max_user_instances": "kernel parameters are the machine's; /proc/sys is read-only in a container",
    "fs.inotify.max_user_watches": "as above",
    "kernel.keys.maxkeys": "as above",
    "kernel.keys.maxbytes": "as above",
    "vm.max_map_count": "as above",
    "image": "preparing one starts a container, and none starts in a container where cgroups are of version 1",
}


@pytest.fixture(scope="module")
def server(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """The bare server."""
    return bare_server(lab, tmp_path_factory.mktemp("server"))


@pytest.fixture(scope="module")
def values(server: Server, wheel: Path) -> dict[str, Any]:
    """What an admin would say about this server."""
    return {
        **server.inventory(),
        "lxd_pool_size": "2GiB",
        "lxd_sysctl_apply": False,
        "lxgpu_wheel": str(wheel),
        "lxgpu_image_build": False,
        "lxgpu_admins": ["ada"],
        "lxgpu_verify_accept": sorted(FORBIDDEN),
        "lxgpu_verify_cards": 0,
    }


@pytest.fixture(scope="module")
def hosts(values: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inventory file."""
    return write_inventory(tmp_path_factory.mktemp("inventory") / "hosts.yml", "server", values)


def _site(hosts: Path, *words: str) -> Played:
    played = play("site.yml", hosts, "--skip-tags", "nvidia_driver", "--diff", *words)
    assert not played.failed, played.output
    return played


@pytest.fixture(scope="module")
def rehearsed(server: Server, hosts: Path) -> tuple[Played, str, str]:
    """The rehearsal on the server while it is bare, and its files before and after."""
    before = server.files()
    played = _site(hosts, "--check")
    return played, before, server.files()


@pytest.fixture(scope="module")
def first(rehearsed: tuple[Played, str, str], hosts: Path) -> Played:
    """The first run."""
    assert rehearsed
    return _site(hosts)


@pytest.fixture(scope="module")
def second(first: Played, hosts: Path) -> Played:
    """The second run."""
    assert first.changed
    return _site(hosts)


def test_a_rehearsal_on_a_bare_server_writes_nothing(rehearsed):
    """--check --diff goes through to the end, shows what would be, and leaves every file as it is."""
    played, before, after = rehearsed
    assert "+fs.inotify.max_user_instances = " in played.output
    assert "+  bridge: lxdbr0" in played.output
    assert played.changed > 10
    assert before == after


def test_a_second_run_changes_nothing(first, second):
    """What the first one made the second one finds."""
    assert first.changed > 10
    assert second.changed == 0, second.output


def test_a_rehearsal_after_it_shows_nothing(second, hosts):
    """--check tells of drift: of none here."""
    assert second.changed == 0
    assert _site(hosts, "--check").changed == 0


def test_lxd_is_set_up(second, server):
    """A pool that enforces sizes, a bridge with an address, ids for containers."""
    assert second
    pool = json.loads(server.run("lxc", "query", "/1.0/storage-pools/default"))
    assert (pool["driver"], pool["config"]["size"]) == ("btrfs", "2GiB")
    bridge = json.loads(server.run("lxc", "query", "/1.0/networks/lxdbr0"))
    assert (bridge["managed"], bridge["config"]["ipv4.address"]) == (True, "10.80.0.1/22")
    assert server.run("grep", "-c", "^root:", "/etc/subuid").strip() == "1"


UNITS = ("lxgpu.service", "lxgpu-web.service", "lxgpu-backup.timer", "prometheus-node-exporter.service")


@pytest.mark.parametrize("unit", UNITS)
def test_units_run_and_start_at_boot(second, server, unit):
    """Active and enabled; and nothing on the server has failed."""
    assert second
    assert server.run("systemctl", "is-active", unit).strip() == "active"
    assert server.run("systemctl", "is-enabled", unit).strip() == "enabled"
    assert server.run("systemctl", "list-units", "--failed", "--no-legend") == ""


def test_doctor_names_only_what_nesting_and_missing_cards_forbid(second, server):
    """Each finding is one that no role could mend here."""
    assert second
    found = json.loads(server.run("lxgpu", "doctor", "-o", "json", check=False))["items"]
    bad = {one["id"]: one["text"] for one in found if one["verdict"] in {"warn", "fail"}}
    assert {name: text for name, text in bad.items() if name not in FORBIDDEN} == {}
    well = {one["id"] for one in found if one["verdict"] == "ok"}
    assert well >= {"lxd", "device-rule", "subuid", "subgid", "config", "policy", "database", "pool", "bridge", "files"}


def test_verify_accepts_what_was_accepted_and_nothing_else(second, hosts, server):
    """verify.yml passes with these findings named, tells them where they are not, and changes nothing."""
    assert second
    good = play("verify.yml", hosts)
    assert (good.failed, good.changed) == (False, 0), good.output
    strict = play("verify.yml", hosts, "-e", '{"lxgpu_verify_accept": []}')
    assert strict.failed
    assert "there is no image base" in strict.output
    cards = play("verify.yml", hosts, "-e", "lxgpu_verify_cards=8")
    assert cards.failed
    assert "0 of 8 cards" in cards.output
    assert server.run("systemctl", "is-active", "lxgpu").strip() == "active"


def test_the_backup_is_one(second, server):
    """One file a day that only root reads and `restore` would take; old ones go, what others put there stays."""
    assert second
    for _ in range(2):
        server.run("systemctl", "start", "lxgpu-backup.service")
    names = server.run("ls", "/var/backups/lxgpu").split()
    assert len(names) == 1
    path = f"/var/backups/lxgpu/{names[0]}"
    assert server.run("stat", "-c", "%a %U", path).strip() == "600 root"
    assert server.try_("lxgpu", "inventory", "restore", path, "--dry-run") == 0
    server.run("touch", "-d", "20 days ago", "/var/backups/lxgpu/inventory-2026-01-01.db", "/var/backups/lxgpu/own.db")
    server.run("systemctl", "start", "lxgpu-backup.service")
    assert set(server.run("ls", "/var/backups/lxgpu").split()) == {names[0], "own.db"}


def test_admins_are_in_their_group(second, server):
    """The account was made, and the policy names its group."""
    assert second
    assert "gpu-admins" in server.run("id", "--name", "--groups", "ada").split()
    assert "@gpu-admins" in server.run("cat", "/etc/lxgpu/policy.yaml")


WAIT = """
import json, time, urllib.request
for _ in range(60):
    with urllib.request.urlopen("http://127.0.0.1:9090/api/v1/targets") as answer:
        found = json.load(answer)["data"]["activeTargets"]
    if {one["labels"]["job"] for one in found if one["health"] == "up"} >= {"lxgpu-node", "lxgpu-lxgpu"}:
        break
    time.sleep(1)
print(json.dumps([[one["labels"]["job"], one["labels"]["host"], one["health"]] for one in found]))
"""


def test_prometheus_asks_what_it_is_told_to_ask(second, server, values, tmp_path):
    """With jobs and alerts in its own file it has the exporter's and the page's figures; a second run is quiet."""
    assert second
    server.run("apt-get", "-q", "-y", "install", "--no-install-recommends", "prometheus")
    groups = {"gpu_servers": {"hosts": {"server": values}}, "prometheus": {"hosts": {"server": {}}}}
    hosts = tmp_path / "hosts.yml"
    hosts.write_text(yaml.safe_dump(groups), encoding="utf-8")
    asked = ["--tags", "monitoring", "-e", "monitoring_lxgpu_port=9470", "-e", "monitoring_address=127.0.0.1"]
    first = _site(hosts, *asked)
    assert "scrape_config_files" in first.output
    jobs = server.run("cat", "/etc/prometheus/lxgpu-scrape.yml")
    own = f"rule_files: [/etc/prometheus/rules/*.yaml]\n{jobs}"
    server.run("sh", "-c", 'printf %s "$1" >/etc/prometheus/prometheus.yml', "sh", own)
    assert server.try_("promtool", "check", "config", "/etc/prometheus/prometheus.yml") == 0
    server.run("systemctl", "restart", "prometheus")
    server.run("sh", "-c", "until bash -c '</dev/tcp/127.0.0.1/9090'; do sleep 0.5; done")
    found = {tuple(row) for row in json.loads(server.run("python3", "-c", WAIT))}
    assert found == {("lxgpu-node", "server", "up"), ("lxgpu-lxgpu", "server", "up")}
    again = _site(hosts, *asked)
    assert (again.changed, "scrape_config_files" in again.output) == (0, False)


def _lxgpu(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    every = {**os.environ, **env, "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-m", "lxgpu", *words]
    return subprocess.run(argv, env=every, capture_output=True, text=True, timeout=120, check=False)


def test_a_container_is_made_from_the_very_files_that_the_roles_wrote(second, server, lab, tmp_path):
    """Settings and policy of the server are read here too, and under them a person gets a container with a card."""
    assert second
    files = {
        name: str(server.fetch(f"/etc/lxgpu/{name}.yaml", tmp_path / f"{name}.yaml")) for name in ("config", "policy")
    }
    env = {
        **lab.env(),
        "LXGPU_CONFIG": files["config"],
        "LXGPU_POLICY": files["policy"],
        # where a lab is another place than a server
        "LXGPU_NETWORK_BRIDGE": lab.bridge,
        "LXGPU_NETWORK_LISTEN": lab.address,
        "LXGPU_KERNEL_LOG": str(lab.paths.kernel_log),
    }
    shown = _lxgpu(env, "config", "show", "--origin", "-o", "json")
    rows = {row["key"]: row for row in json.loads(shown.stdout)["items"]}
    assert files["config"] in rows["pool"]["origin"]
    checked = _lxgpu(env, "policy", "check")
    assert (checked.returncode, f"{files['policy']} is right" in checked.stderr) == (0, True), checked.stderr
    asked = ["create", "hedy", "--gpus", "1", "--cpu", "1", "--memory", "1GiB", "--disk", "2GiB"]
    made = _lxgpu(env, *asked)
    try:
        assert made.returncode == 0, made.stderr
    finally:
        _lxgpu(env, "delete", "hedy", "--purge", "--yes")


def test_the_policy_is_the_admins_own(second, server, hosts):
    """What they changed on the server stays, and a run says nothing about it."""
    assert second
    server.run("sh", "-c", "echo '# ours' >>/etc/lxgpu/policy.yaml")
    assert _site(hosts, "--tags", "lxgpu").changed == 0
    assert server.run("tail", "-n", "1", "/etc/lxgpu/policy.yaml") == "# ours\n"


def test_settings_that_lxgpu_refuses_are_not_written(second, server, values, tmp_path):
    """The run stops, with lxgpu's words, and the settings before it stay."""
    assert second
    before = server.run("cat", "/etc/lxgpu/config.yaml")
    wrong = write_inventory(tmp_path / "hosts.yml", "server", {**values, "lxgpu_config": {"pol": "default"}})
    played = play("site.yml", wrong, "--tags", "lxgpu")
    assert played.failed
    assert "pol" in played.output
    assert server.run("cat", "/etc/lxgpu/config.yaml") == before


def test_a_pool_of_another_kind_is_not_touched(second, server, values, tmp_path):
    """The run stops and says what is there."""
    assert second
    wrong = write_inventory(tmp_path / "hosts.yml", "server", {**values, "lxd_pool_driver": "dir"})
    played = play("site.yml", wrong, "--tags", "lxd")
    assert played.failed
    assert "of the kind btrfs, not dir" in " ".join(played.output.split())
    assert json.loads(server.run("lxc", "query", "/1.0/storage-pools/default"))["driver"] == "btrfs"


def test_another_wheel_of_the_same_number_is_another_release(second, server, values, wheel, tmp_path):
    """It is installed beside the running one and takes over; the former one stays, for the way back."""
    assert second
    before = server.run("readlink", "/opt/lxgpu/current").strip()
    pid = server.run("systemctl", "show", "-p", "MainPID", "--value", "lxgpu").strip()
    other = tmp_path / wheel.name
    shutil.copy(wheel, other)
    with other.open("ab") as file:  # a zip's comment: another file with the same content
        file.seek(-2, os.SEEK_END)
        file.truncate()
        file.write(b"\x01\x00!")
    hosts = write_inventory(tmp_path / "hosts.yml", "server", {**values, "lxgpu_wheel": str(other)})
    played = _site(hosts, "--tags", "lxgpu")
    assert played.changed
    now = server.run("readlink", "/opt/lxgpu/current").strip()
    assert now != before
    assert set(server.run("ls", "/opt/lxgpu/releases").split()) == {Path(now).name, Path(before).name}
    running = server.run("systemctl", "show", "-p", "MainPID", "--value", "lxgpu").strip()
    assert running not in {"0", pid}
    assert now in server.run("sh", "-c", f"tr '\\0' ' ' </proc/{running}/cmdline")
    assert _site(hosts, "--tags", "lxgpu").changed == 0


def test_the_driver_is_of_one_branch_and_no_reboot_is_made_for_it(server, values, tmp_path):
    """Packages come of the branch alone; a reboot that is needed is told, and not made; a second run is quiet."""
    for name, body in (
        ("modinfo", "echo 535.261.03"),
        ("modprobe", "exit 1"),
    ):  # a driver that is there and cannot be loaded
        script = f'printf "#!/bin/sh\n{body}\n" >/usr/local/sbin/{name} && chmod 755 /usr/local/sbin/{name}'
        server.run("sh", "-c", script)
    booted = server.run("systemctl", "show", "-p", "UserspaceTimestampMonotonic", "--value")
    packages = {"nvidia_driver_packages": ["nvidia-modprobe", "nvidia-persistenced"]}
    hosts = write_inventory(tmp_path / "hosts.yml", "server", {**values, **packages})
    first = play("site.yml", hosts, "--tags", "nvidia_driver")
    assert not first.failed, first.output
    assert "NVML answers only after a reboot" in " ".join(first.output.split())
    assert "Candidate: 535." in server.run("apt-cache", "policy", "nvidia-smi")
    assert '"nvidia-"' in server.run("apt-config", "dump", "Unattended-Upgrade::Package-Blacklist")
    for unit in ("nvidia-persistenced.service", "lxgpu-nvidia-nodes.service"):
        assert server.run("systemctl", "is-enabled", unit).strip() == "enabled"
    again = play("site.yml", hosts, "--tags", "nvidia_driver")
    assert (again.failed, again.changed) == (False, 0), again.output
    assert server.run("systemctl", "show", "-p", "UserspaceTimestampMonotonic", "--value") == booted
    other = play("site.yml", hosts, "--tags", "nvidia_driver", "-e", "nvidia_driver_branch=525")
    assert not other.failed, other.output
    assert "Candidate: (none)" in server.run("apt-cache", "policy", "nvidia-smi")
