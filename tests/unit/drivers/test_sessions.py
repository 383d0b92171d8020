"""SSH sessions by the titles of sshd's processes."""

from __future__ import annotations

import subprocess

import pytest

from lxgpu.drivers.sessions import open_sessions


@pytest.mark.parametrize(
    ("title", "open_"),
    [
        ("sshd: alice@pts/0", True),
        ("sshd: alice@notty", True),
        ("sshd: alice", True),
        ("sshd-session: alice@pts/3", True),
        ("sshd-session: alice", True),
        ("sshd: root@pts/0,pts/1", True),
        ("sshd: alice [priv]", False),
        ("sshd: [accepted]", False),
        ("sshd: unknown [net]", False),
        ("sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups", False),
        ("/usr/sbin/sshd -D", False),
        ("vim sshd: alice@pts/0", False),
        ("python3 train.py", False),
    ],
)
def test_which_process_is_a_session(title, open_):
    """A person's, of each kind and version; not sshd's own, not one that nobody has logged in to yet."""
    with subprocess.Popen([title], executable="/bin/cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.read(1)  # now it runs under its title
        found = open_sessions([process.pid])
        process.stdin.close()
    assert found == int(open_)


def test_a_process_that_has_gone_is_no_session():
    """It ended between the list and the look."""
    with subprocess.Popen(["/bin/true"]) as process:
        process.wait()
    assert open_sessions([process.pid]) == 0
