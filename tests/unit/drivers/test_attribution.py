"""Whose process it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from plain_instance import PROGRAM, wait_for

from lxgpu.drivers.attribution import Owner, owner_of
from lxgpu.drivers.processes import all_pids, pid_namespace, spaces_of

OWN_USERS = "alice:x:1000:1000::/home/alice:/bin/sh\nevil\x1b[2J:x:1001:1001:::\n"


@pytest.fixture
def accounts(inside):
    """The instance has accounts of its own: alice is 1000."""
    script = "mount -t tmpfs t /etc; cat > /etc/passwd"
    argv = ["nsenter", f"--target={inside.init}", "--mount", "--root", "sh", "-c", script]
    subprocess.run(argv, input=OWN_USERS, text=True, check=True)


def named(inside):
    """What the instance is called where no monitor tells: its cgroup's name."""
    return inside.part.removeprefix("lxc.payload.")


def test_a_process_of_the_host_is_nobodys(cgroups):
    """B33: a display server of the host belongs to no container."""
    assert owner_of(os.getpid(), cgroups) == Owner(instance=None, user="root")


def test_a_process_that_is_gone_has_no_owner(cgroups):
    """B31: the pid vanished before it was looked at; skipped."""
    assert owner_of(2**22 - 1, cgroups) == Owner()


@pytest.mark.parametrize(("uid", "user"), [(1000, "alice"), (4711, "4711"), (1001, "1001")])
@pytest.mark.usefixtures("accounts")
def test_the_account_is_the_containers_own(uid, user, inside, cgroups):
    """The uid is looked up in the container's passwd, where there is such a name and it can be shown."""
    process = inside.start("nothing")
    moved = subprocess.Popen(["setpriv", f"--reuid={uid}", "--clear-groups", "sleep", "60"])
    inside.join(moved.pid)
    try:
        assert wait_for(lambda: Path(f"/proc/{moved.pid}").stat().st_uid == uid)
        assert owner_of(moved.pid, cgroups) == Owner(instance=named(inside), user=user)
        assert owner_of(process.pid, cgroups).user == "0"
    finally:
        moved.kill()
        moved.wait()


def test_a_passwd_that_never_ends_the_reading_is_passed_over(inside, cgroups):
    """A pipe in place of /etc/passwd does not hold the host up."""
    argv = ["nsenter", f"--target={inside.init}", "--mount", "--root"]
    subprocess.run([*argv, "sh", "-c", "mount -t tmpfs t /etc; mkfifo /etc/passwd"], check=True)
    assert owner_of(inside.init, cgroups) == Owner(instance=named(inside), user="0")


@pytest.mark.parametrize("deeper", [[], ["unshare", "--pid", "--fork"]], ids=["its own", "one below"])
def test_who_left_the_cgroup_is_known_by_the_namespace(deeper, inside, cgroups):
    """A process in the container's pid namespace, or one made in there, is its own, whatever cgroup it is in."""
    program = [*deeper, sys.executable, "-S", str(PROGRAM), "nothing", ""]
    argv = ["nsenter", f"--target={inside.init}", "--pid", *program]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as entered:
        entered.stdin.write(b"go\n")
        entered.stdin.flush()
        entered.stdout.readline()
        space = pid_namespace(inside.init)
        pids = [pid for pid in all_pids() if space in spaces_of(pid) and pid != inside.init]
        assert len(pids) == (2 if deeper else 1)
        for pid in pids:
            assert cgroups.part(pid) is None
            assert owner_of(pid, cgroups).instance == named(inside)
        entered.kill()
        for pid in pids:
            os.kill(pid, 9)
