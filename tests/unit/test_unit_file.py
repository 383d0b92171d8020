"""The systemd unit: systemd understands every line, and the promises of the daemon stand in it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from lxgpu.drivers.stopping import LONGEST_S
from lxgpu.errors import CATALOGUE
from lxgpu.units import parse_duration

UNIT = Path(__file__).resolve().parents[2] / "packaging" / "systemd" / "lxgpu.service"


@pytest.fixture
def service():
    """The settings of the service."""
    parser = ConfigParser(strict=True, interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # names keep their case
    parser.read_string(UNIT.read_text(encoding="utf-8"))
    return parser["Service"]


def test_systemd_understands_every_line(tmp_path):
    """`systemd-analyze verify` has nothing to say."""
    analyze = shutil.which("systemd-analyze")
    assert analyze is not None, "packaging/install-needs.sh installs it"
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text(encoding="utf-8").replace("/usr/local/bin/lxgpu", sys.executable), encoding="utf-8")
    done = subprocess.run([analyze, "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["lxgpu-backup.service", "lxgpu-backup.timer", "lxgpu-nvidia-nodes.service"])
def test_systemd_understands_the_smaller_units(tmp_path, name):
    """So do the units of the backup, which lie beside one another, and of the driver's nodes."""
    for path in UNIT.parent.iterdir():
        text = re.sub(r"/usr/(local/)?bin/(lxgpu|nvidia-\w+)", sys.executable, path.read_text(encoding="utf-8"))
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    argv = ["systemd-analyze", "verify", "--man=no", str(tmp_path / name)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_backup_can_do_little_else():
    """What systemd counts as exposed is at most 3 of 10; without the hardening it is 9 and more."""
    backup = UNIT.with_name("lxgpu-backup.service")
    argv = ["systemd-analyze", "security", "--offline=yes", "--threshold=30", "--no-pager", str(backup)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-200:]


def test_a_wrong_line_would_be_noticed(tmp_path):
    """The check above can fail."""
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text(encoding="utf-8").replace("Type=notify", "Type=notifi"), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    assert "notifi" in done.stderr


def test_it_keeps_the_daemons_promises(service):
    """Ready when it is, a sign of life, an end in time, and no restart after a take-over."""
    assert service["Type"] == "notify"
    assert service["ExecStart"].endswith("lxgpu daemon run")
    assert "HUP" in service["ExecReload"]
    assert parse_duration(service["TimeoutStopSec"]) > LONGEST_S
    assert parse_duration(service["WatchdogSec"].replace("min", "m")) >= 60
    fatal = {int(CATALOGUE[code].status) for code in ("daemon_runs", "superseded", "other_inventory")}
    assert {int(word) for word in service["RestartPreventExitStatus"].split()} == fatal


def test_the_run_directory_outlives_the_daemon(service):
    """Commands hold locks in there: a directory made anew would give two holders of one lock."""
    assert service["RuntimeDirectoryPreserve"] == "yes"
    assert service["StateDirectoryMode"] == "0711"


def test_nothing_closes_what_it_lives_by(service):
    """Cards' nodes, cgroups, foreign processes, namespaces, the kernel's log: these settings would take them away."""
    closing = {
        "PrivateDevices",
        "DevicePolicy",
        "DeviceAllow",
        "ProtectClock",
        "ProtectControlGroups",
        "ProtectProc",
        "PrivateUsers",
        "RestrictNamespaces",
        "ProtectKernelLogs",
        "MemoryDenyWriteExecute",
        "PrivateNetwork",
    }
    assert not closing & set(service)
