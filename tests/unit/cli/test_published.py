"""People who are not root: `ls`, `gpus` and `status` show what the daemon published, and how old it is."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fakes.site import make_site, newcomer
from json_shapes import faults
from reservation_rows import booking, request

from lxgpu.drivers.only_one import OnlyOne
from lxgpu.inventory.store import open_inventory
from lxgpu.services import statusfile
from lxgpu.services.publish import published
from lxgpu.services.statusfile import DaemonView

AS_NOBODY = """
import importlib, os, pkgutil, sys
import csv, click.shell_completion, concurrent.futures.thread, difflib, encodings.idna, pydantic, shlex, traceback, yaml
import lxgpu
for found in pkgutil.walk_packages(lxgpu.__path__, "lxgpu."):
    if not found.name.startswith(("lxgpu.api", "lxgpu.lab", "lxgpu.__main__")) and not found.name.endswith("_child"):
        importlib.import_module(found.name)
os.setgroups([]); os.setgid(65534); os.setuid(65534)
from lxgpu.cli.main import run
sys.exit(run(sys.argv[1:]))
"""
"""Everything is imported first: the interpreter may lie where nobody may look."""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


class Host:
    """A host whose state is root's, and the commands that nobody gives there."""

    def __init__(self, folder):
        self.folder, self.state = folder, folder / "state"
        folder.chmod(0o755)
        open_inventory(self.state / "inventory.db").close()
        (folder / "policy.yaml").write_text("version: 1\n")

    def publish(self, *, ago_s=0, running=True):
        """What a daemon left some time ago: alice holds one card of two."""
        site = make_site(self.folder / "site", gpus=2)
        newcomer(site, "alice", gpus=1, lease_s=3600)
        with site.write() as tx:
            tx.put(booking(instance="alice"), request(instance="alice"))
        found = published(site, DaemonView(running=running, pid=1 if running else None, ticked_at=site.clock.now()))
        at = datetime.now(UTC) - timedelta(seconds=ago_s)
        OnlyOne(self.folder / "run", now=at).close()
        statusfile.open_to_readers(self.state)
        statusfile.write(self.state, replace(found, written_at=at))

    @property
    def env(self):
        """What a command finds its way by."""
        return {
            **os.environ,
            "LXGPU_STATE_DIR": str(self.state),
            "LXGPU_RUN_DIR": str(self.folder / "run"),
            "LXGPU_POLICY": str(self.folder / "policy.yaml"),
            "LXD_DIR": str(self.folder),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }

    def nobody(self, *words):
        """A command of a user without any right."""
        argv = [sys.executable, "-c", AS_NOBODY, *words]
        return subprocess.run(argv, env=self.env, cwd="/", capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def host():
    """An inventory, a policy, and nothing published yet; in a place that everybody reaches."""
    folder = Path(tempfile.mkdtemp(prefix="lxgpu-test-", dir="/var/tmp"))
    yield Host(folder)
    shutil.rmtree(folder)


def test_containers_and_cards_are_shown_as_the_daemon_saw_them(host):
    """The same columns and the same JSON as for root, and a line that says how old it is."""
    host.publish(ago_s=7)
    listed = host.nobody("ls")
    assert listed.returncode == 0, listed.stderr
    assert "alice" in listed.stdout
    age = re.search(r"^as the daemon saw it (\d+)s ago$", listed.stderr, re.MULTILINE)
    assert age is not None
    assert int(age[1]) >= 7
    [alice] = json.loads(host.nobody("ls", "-o", "json").stdout)["items"]
    assert faults("instances", alice) == []
    cards = host.nobody("gpus")
    assert cards.stdout.startswith("1 of 2 GPUs free")
    items = json.loads(host.nobody("gpus", "-o", "json").stdout)["items"]
    assert [item["slots"][0]["holder"] for item in items] == ["alice", None]
    assert len(json.loads(host.nobody("gpus", "--free", "-o", "json").stdout)["items"]) == 1
    status = host.nobody("status")
    assert status.stdout.startswith("1 of 2 GPUs free")


def test_reservations_are_everybodys_to_see(host):
    """All of them, or those that wait, in the same JSON; what needs the inventory itself is refused as before."""
    host.publish()
    listed = json.loads(host.nobody("reservations", "-o", "json").stdout)
    assert [item["state"] for item in listed["items"]] == ["scheduled", "waiting"]
    assert [fault for item in listed["items"] for fault in faults("reservations", item)] == []
    waiting = json.loads(host.nobody("reservations", "--queue", "-o", "json").stdout)
    assert [item["kind"] for item in waiting["items"]] == ["request"]
    assert host.nobody("reservations", "bob", "-o", "name").stdout == ""
    assert host.nobody("reservations", "--ics").returncode == 4


def test_what_a_daemon_left_that_is_gone_is_shown_with_a_warning(host):
    """Old news are news, and called old."""
    host.publish(ago_s=7200)
    listed = host.nobody("ls")
    assert listed.returncode == 0
    assert "warning: as the daemon saw it 2h ago; it does not run now" in listed.stderr


def test_without_a_daemon_the_answer_is_what_to_do(host):
    """Status 4: nothing was published, so there is nothing to show."""
    for words in (("ls",), ("gpus",), ("status",)):
        refused = host.nobody(*words)
        assert refused.returncode == 4
        assert refused.stderr.startswith("error[not_allowed]")
        assert "ask an admin to start the daemon" in refused.stderr


def test_the_state_of_the_daemon_is_everybodys_to_know(host):
    """Running by what it published; status 8 when that is too old."""
    assert host.nobody("daemon", "status").returncode == 8
    host.publish(ago_s=1)
    assert host.nobody("daemon", "status").stdout.startswith("running")
    host.publish(ago_s=300)
    told = host.nobody("daemon", "status", "-o", "json")
    assert told.returncode == 8
    [view] = json.loads(told.stdout)["items"]
    assert faults("daemon", view) == []
    assert view["running"] is False


def test_only_root_pauses(host):
    """A user is told so."""
    host.publish()
    assert host.nobody("daemon", "pause", "--reason", "fun").returncode == 4
    assert not (host.folder / "run" / "paused").exists()


def test_a_broken_policy_is_told_by_ls_too(host):
    """The last good one holds, and every look says so once; a mended one is not spoken of."""

    def told(command):
        argv = [sys.executable, "-m", "lxgpu", command]
        return subprocess.run(argv, env=host.env, capture_output=True, text=True, check=False, timeout=60).stderr

    assert "policy" not in told("ls")
    (host.folder / "policy.yaml").write_text("version: 1\nnonsense: 1\n")
    for command in ("ls", "gpus", "status"):
        assert told(command).count("the policy file has mistakes, so the last good one holds") == 1
    (host.folder / "policy.yaml").write_text("version: 1\n")
    assert "policy" not in told("ls")


def test_a_name_that_nobody_published_is_unknown(host):
    """To people who are not root as well; one that is known and has no reservation is none."""
    host.publish()
    assert host.nobody("reservations", "alice").returncode == 0
    refused = host.nobody("reservations", "alcie")
    assert refused.returncode == 3
    assert refused.stderr.splitlines()[-3].startswith("error[not_found] there is no container alcie")
