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

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"
UNIT = PACKAGING / "systemd" / "lxgpu.service"
PAGE = PACKAGING / "systemd" / "lxgpu-web.service"
EXPOSED = 15
"""`systemd-analyze security` gives a service up to 100 points, the fewer the better."""


@pytest.fixture
def service():
    """The settings of the service."""
    parser = ConfigParser(strict=True, interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # names keep their case
    parser.read_string(UNIT.read_text(encoding="utf-8"))
    return parser["Service"]


@pytest.mark.parametrize("unit", [UNIT, PAGE], ids=lambda path: path.stem)
def test_systemd_understands_every_line(tmp_path, unit):
    """`systemd-analyze verify` has nothing to say."""
    analyze = shutil.which("systemd-analyze")
    assert analyze is not None, "packaging/install-needs.sh installs it"
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text(encoding="utf-8").replace("/usr/local/bin/lxgpu", sys.executable), encoding="utf-8")
    done = subprocess.run([analyze, "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_sentry_outlives_the_daemon(service):
    """Nobody but the daemon itself is killed by systemd, so that borrowed cards are never without a watch."""
    assert service["KillMode"] == "process"


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


def test_the_page_has_as_little_as_a_service_can(tmp_path):
    """By systemd's own count of what a service could do if it were taken over."""
    copy = tmp_path / PAGE.name
    copy.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    argv = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSED}", "--no-pager", str(copy)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lax = tmp_path / "lax.service"
    lax.write_text("[Service]\nExecStart=/bin/true\n", encoding="utf-8")
    done = subprocess.run([*argv[:-1], str(lax)], capture_output=True, text=True, check=False)
    assert done.returncode != 0, "the check can fail"


def test_the_account_of_the_page_is_that_of_its_unit(tmp_path):
    """Programs of systemd itself make it and its folder as the files say."""
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    made = ["systemd-sysusers", f"--root={root}", str(PACKAGING / "sysusers.d" / "lxgpu-web.conf")]
    subprocess.run(made, capture_output=True, text=True, check=True)
    people = (root / "etc" / "passwd").read_text(encoding="utf-8")
    assert [line.split(":")[0] for line in people.splitlines()][-1:] == ["lxgpu-web"]
    assert "User=lxgpu-web" in PAGE.read_text(encoding="utf-8")
    folders = ["systemd-tmpfiles", "--create", f"--root={root}", str(PACKAGING / "tmpfiles.d" / "lxgpu-web.conf")]
    subprocess.run(folders, capture_output=True, text=True, check=True)
    found = root / "run" / "lxgpu" / "page"
    groups = (root / "etc" / "group").read_text(encoding="utf-8").splitlines()
    number = next(int(line.split(":")[2]) for line in groups if line.startswith("lxgpu-web:"))
    assert (found.stat().st_mode & 0o777, found.stat().st_gid) == (0o750, number)
