"""A container's /dev seen from the host, with a root inside who would like to lead the host astray."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lxgpu.drivers.probe import LocalProbe
from lxgpu.drivers.rooted import below_root, find_nodes
from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import DeviceNode

RANDOM = DeviceNode("null", 1, 8)
"""/dev/random of the host; the instance of the tests has no such node."""


def run_in(inside, script):
    """Run a shell script in the instance's mount namespace, seen from its root."""
    argv = ["nsenter", f"--target={inside.init}", "--mount", "--root", "sh", "-ec", script]
    subprocess.run(argv, check=True, timeout=10)


def dev(inside):
    """The instance's /dev as the host reaches it."""
    return Path(f"/proc/{inside.init}/root/dev")


def test_nodes_in_folders_are_found(inside, card, other):
    """Cards lie in /dev and in /dev/dri; both are looked at, whatever else is there."""
    (dev(inside) / "a file").write_text("")
    os.mkfifo(dev(inside) / "pipe")
    assert find_nodes(inside.init, [card, other, RANDOM]) == {card, other}


@pytest.mark.parametrize("target", ["/dev/random", "/proc/1/root/dev/random", "../../../../dev/random"])
def test_a_link_is_no_node(target, inside):
    """A link to a node of the host, by whatever way, does not count as that node being inside."""
    (dev(inside) / "random").symlink_to(target)
    (dev(inside) / "hostdev").symlink_to("/proc/1/root/dev")
    assert find_nodes(inside.init, [RANDOM]) == set()


@pytest.mark.parametrize("target", ["/../../../../etc", "../../../../../../etc", "/etc"])
def test_a_link_leads_nowhere_but_into_the_containers_own_root(target, inside):
    """An absolute link, or one with more steps up than there are, ends below the container's root."""
    run_in(inside, "mount -t tmpfs t /mnt; mount -t tmpfs own-etc /etc")
    (Path(f"/proc/{inside.init}/root/mnt") / "out").symlink_to(target)
    with below_root(inside.init, "mnt/out", os.O_PATH | os.O_DIRECTORY) as handle:
        assert os.fstat(handle).st_dev == Path(f"/proc/{inside.init}/root/etc").stat().st_dev
        assert os.fstat(handle).st_dev != Path("/etc").stat().st_dev


def test_a_link_of_proc_is_not_taken(inside):
    """The links of /proc lead out of every root; they are refused."""
    run_in(inside, "mount -t tmpfs t /mnt")
    (Path(f"/proc/{inside.init}/root/mnt") / "way-out").symlink_to("/proc/self/cwd")
    with pytest.raises(OSError, match="symbolic links"), below_root(inside.init, "mnt/way-out/x", os.O_PATH):
        pass


def test_what_is_mounted_below_dev_is_not_walked(inside):
    """A file system that a user mounts below /dev is theirs: LXD puts no card there."""
    run_in(inside, "mkdir /dev/mine; mount -t tmpfs t /dev/mine; mknod /dev/mine/x c 1 8")
    assert find_nodes(inside.init, [RANDOM]) == set()


def test_a_bound_node_counts(inside):
    """LXD binds a card's node over an empty file; that is the node being inside."""
    run_in(inside, "touch /dev/card; mount -t tmpfs t /mnt; mknod /mnt/n c 1 8; mount --bind /mnt/n /dev/card")
    assert find_nodes(inside.init, [RANDOM]) == {RANDOM}


def test_an_endless_dev_is_an_error(inside, card):
    """A /dev with no end to its files is told as such, and not looked through for ever."""
    run_in(inside, "mkdir /dev/many; cd /dev/many; seq 1 20001 | xargs touch")
    with pytest.raises(LxgpuError) as raised:
        LocalProbe().nodes_inside(inside.init, [card])
    assert "no end" in raised.value.why[0]


def test_a_file_system_that_never_answers_holds_nobody_up(inside, card):
    """FUSE mounted by a user over /dev: the look ends in an error in time, again and again, and others go on."""
    hang = (
        "import os, ctypes, sys, time\n"
        "fd = os.open('/dev/fuse', os.O_RDWR)\n"
        "options = f'fd={fd},rootmode=40000,user_id=0,group_id=0'.encode()\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "ns = os.open(f'/proc/{sys.argv[1]}/ns/mnt', os.O_RDONLY)\n"
        "root = os.open(f'/proc/{sys.argv[1]}/root', os.O_RDONLY)\n"
        "assert libc.setns(ns, 0) == 0; os.fchdir(root); os.chroot('.')\n"
        "assert libc.mount(b'lxgpu-test', b'/dev', b'fuse', 0, options) == 0, os.strerror(ctypes.get_errno())\n"
        "print('ok', flush=True)\n"
        "time.sleep(100)\n"
    )
    argv = [sys.executable, "-c", hang, str(inside.init)]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout.readline() == "ok\n"
        probe = LocalProbe(look_s=0.3)
        for _ in range(3):
            with pytest.raises(LxgpuError) as raised:
                probe.nodes_inside(inside.init, [card])
            assert raised.value.code == "unavailable"
        with pytest.raises(LxgpuError):
            probe.tell(inside.init, "hello")
        assert probe.openable(inside.init, [card]) == {card}
    finally:
        server.kill()
        server.communicate()
