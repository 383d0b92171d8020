"""The probe and the login in a real LXD container with pretend cards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from leftovers import trials_left
from plain_instance import wait_for

from lxgpu.drivers.login import ParamikoLogin
from lxgpu.drivers.probe import LocalProbe
from lxgpu.drivers.processes import read_stat
from lxgpu.lab.jobs import JobSpec, start_job
from lxgpu.model.gpu import DeviceNode, Gpu
from lxgpu.model.instance import Limits

pytestmark = pytest.mark.lab


@pytest.fixture
def probe(lab, monkeypatch):
    """The probe of this machine, with the lab's NVML."""
    monkeypatch.setenv("LD_LIBRARY_PATH", lab.env()["LD_LIBRARY_PATH"])
    return LocalProbe(look_s=2)


class Container:
    """A running container with the lab's first card."""

    def __init__(self, lab, name, card=None):
        self.lab, self.name = lab, name
        self.card = card or lab.gpus[0]
        self.nodes = tuple(device_node(node) for node in self.card.nodes)
        self.init = self.state()["pid"]

    def lxc(self, *words, check=True):
        """What the lxc program prints."""
        env = {**os.environ, **self.lab.env(), "LXD_CONF": str(self.lab.paths.client)}
        done = subprocess.run(["lxc", *words], env=env, check=False, capture_output=True, text=True, timeout=60)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def status(self, script):
        """How a script of root's inside ends: with 0 or 7."""
        words = ["lxc", "exec", self.name, "--", "sh", "-c", script]
        env = {**os.environ, **self.lab.env(), "LXD_CONF": str(self.lab.paths.client)}
        done = subprocess.run(words, env=env, check=False, capture_output=True, text=True, timeout=60)
        assert done.returncode in {0, 7}, done.stderr
        return done.returncode

    def state(self):
        """LXD's view of it."""
        return json.loads(self.lxc("query", f"/1.0/instances/{self.name}/state"))

    def lose_card(self):
        """LXD takes the card off it."""
        self.lxc("config", "device", "remove", self.name, "gpu0")

    def sh(self, script, *, check=True):
        """Run a script as root inside."""
        return self.lxc("exec", self.name, "--", "sh", "-c", script, check=check)

    def job(self, **how):
        """A pretend job on the card."""
        return start_job(self.lab, JobSpec(instance=self.name, gpu=self.card.uuid, **how))


def device_node(node):
    """A lab's node in the model's words."""
    return DeviceNode(path=node.path.removeprefix("/dev/"), major=node.major, minor=node.minor)


@pytest.fixture
def container(lab, launch):
    """A container with the first card."""
    return Container(lab, launch(lab, 0))


def opens(container, path):
    """Whether root inside gets the node open, by whatever path; its status says so."""
    return container.status(f"(exec 3<>{path}) && exit 0; exit 7") == 0


def render(container):
    """The card's node that can really be opened."""
    return next(node for node in container.nodes if node.path.startswith("dri/render"))


def held_by(probe, container, *, host=False):
    """Who holds its card, in the container or on the host."""
    gpu = Gpu(uuid=container.card.uuid, pci="", model="", host="", nodes=container.nodes)
    return probe.holders(None if host else [container.init], [gpu])[gpu.uuid]


def pids(holders):
    """Their numbers."""
    return {one.pid for one in holders.processes}


def test_an_attached_card_is_inside_and_opens_as_the_rule_says(container, lab, probe):
    """The nodes of the card are inside and no other's; the rule takes opening away and gives it back."""
    others = [device_node(node) for node in lab.gpus[1].nodes]
    assert probe.nodes_inside(container.init, [*container.nodes, *others]) == set(container.nodes)
    assert probe.openable(container.init, container.nodes) == set(container.nodes)
    assert opens(container, f"/dev/{render(container).path}")
    probe.set_rule(container.init, denied=[*container.nodes, *others], allowed=())
    assert probe.openable(container.init, [*container.nodes, *others]) == set()
    assert not opens(container, f"/dev/{render(container).path}")
    probe.set_rule(container.init, denied=others, allowed=container.nodes)
    assert opens(container, f"/dev/{render(container).path}")


def test_a_node_kept_elsewhere_is_worth_nothing(container, probe):
    """A user who bound the node before it was taken cannot open it under the rule."""
    container.sh(f"touch /root/keep; mount --bind /dev/{render(container).path} /root/keep")
    assert opens(container, "/root/keep")
    probe.set_rule(container.init, denied=container.nodes, allowed=())
    container.lose_card()
    assert not opens(container, "/root/keep")
    assert probe.nodes_inside(container.init, container.nodes) == set()


def test_services_with_cgroups_of_their_own_are_under_the_rule(container, probe):
    """A systemd service with a device policy, older than the rule, is denied and let in again."""
    script = f"while sleep 0.05; do (exec 3<>/dev/{render(container).path}) 2>/dev/null && echo y || echo n; done"
    unit = f"--unit=loop --property=DevicePolicy=auto --property=Delegate=yes sh -c '{script} >/root/log'"
    container.sh(f"until [ -S /run/systemd/private ]; do sleep 0.1; done; systemd-run --quiet {unit}")

    def says(letter):
        def last():
            return container.sh("tail -n 1 /root/log", check=False).strip() == letter

        return wait_for(last, timeout_s=5)

    assert says("y")
    probe.set_rule(container.init, denied=container.nodes, allowed=())
    assert says("n")
    probe.set_rule(container.init, denied=(), allowed=container.nodes)
    assert says("y")


def test_a_job_is_attributed_by_name_and_account(container, probe):
    """NVML's host pid becomes the container's name, as LXD says it, and the account inside."""
    container.sh("useradd --create-home alice")
    job = container.job(user="alice", util_percent=70, memory_bytes=2**30)
    reading = probe.readings().of(container.card.uuid)
    (process,) = reading.processes
    assert (process.pid, process.instance, process.user) == (job.pid, container.name, "alice")
    assert (process.memory_bytes, reading.utilization_percent) == (2**30, 70)
    assert pids(held_by(probe, container)) == {job.pid}
    assert pids(held_by(probe, container, host=True)) == {job.pid}


def test_a_mapping_and_a_parked_descriptor(mappable_lab, launch, monkeypatch):
    """A mapping without a descriptor is found in a real container; a descriptor in flight is a doubt."""
    monkeypatch.setenv("LD_LIBRARY_PATH", mappable_lab.env()["LD_LIBRARY_PATH"])
    probe, last = LocalProbe(), len(mappable_lab.gpus) - 1
    container = Container(mappable_lab, launch(mappable_lab, last), mappable_lab.gpus[last])
    mapped = container.job(hold="map")
    found = held_by(probe, container)
    assert pids(found) == {mapped.pid}
    assert "mapped" in found.processes[0].how
    assert probe.signal(found.processes[0], signal.SIGKILL)
    assert wait_for(lambda: held_by(probe, container).free)
    container.job(hold="fd-passed")
    assert "in flight" in held_by(probe, container).unknown


def test_a_removed_card_is_still_held_until_killed(container, probe):
    """LXD takes the node away and the process keeps it: it is found, ended, and the card is proven free."""
    job = container.job(ignore_term=True, respawn=True)
    probe.set_rule(container.init, denied=container.nodes, allowed=())
    container.lose_card()
    (held,) = held_by(probe, container).processes
    assert held.pid == job.pid
    assert probe.signal(held, signal.SIGTERM)
    time.sleep(0.1)
    assert pids(held_by(probe, container)) == {job.pid}
    assert probe.signal(held, signal.SIGKILL)
    assert wait_for(lambda: held_by(probe, container, host=True).free)


def test_a_paused_container_loses_its_holder(container, probe):
    """`lxc pause` saves no process: KILL lands, and LXD's own idea of the container stays."""
    job = container.job()
    container.lxc("pause", container.name)
    (held,) = held_by(probe, container).processes
    assert probe.signal(held, signal.SIGKILL)
    assert wait_for(lambda: (found := read_stat(job.pid)) is None or found.ended)
    assert container.lxc("list", container.name, "--format=csv", "--columns=s").strip() == "FROZEN"
    container.lxc("start", container.name)


def test_root_inside_freezes_its_own_process_in_vain(container, probe):
    """Root inside makes a freezer cgroup of its own; KILL lands all the same."""
    job = container.job()
    inner = container.sh("pgrep -x lxgpu-job").strip()
    mine = "/sys/fs/cgroup/freezer/mine"
    container.sh(f"mkdir {mine}; echo {inner} > {mine}/cgroup.procs; echo FROZEN > {mine}/freezer.state")
    assert wait_for(lambda: read_stat(job.pid).state == "D")
    (held,) = held_by(probe, container).processes
    assert probe.signal(held, signal.SIGKILL)
    assert wait_for(lambda: (found := read_stat(job.pid)) is None or found.ended)


def test_limits_are_in_the_hosts_cgroups(container, probe):
    """What LXD was asked for is in force."""
    container.lxc("config", "set", container.name, "limits.memory=512MiB", "limits.processes=200")
    # By itself: in one call with others LXD 5.0.2's own scheduler now and then still sees the old value.
    container.lxc("config", "set", container.name, "limits.cpu=1")
    asked = Limits(cpu=1, memory_bytes=512 * 2**20, processes=200)
    assert wait_for(lambda: probe.limits(container.init) == asked), probe.limits(container.init)


def test_a_full_process_table_stops_nothing(container, probe):
    """With no process left to start inside, every step of taking a card still works."""
    job = container.job()
    container.lxc("config", "set", container.name, "limits.processes=10")
    container.sh("for i in $(seq 20); do setsid sleep 300 </dev/null >/dev/null 2>&1 & done", check=False)
    probe.set_rule(container.init, denied=container.nodes, allowed=())
    assert probe.openable(container.init, container.nodes) == set()
    (held,) = held_by(probe, container).processes
    assert held.pid == job.pid
    assert probe.signal(held, signal.SIGKILL)
    assert wait_for(lambda: held_by(probe, container, host=True).free)


def test_login_and_terminal_over_real_ssh(container, lab, probe):
    """A fresh key logs in over the bridge; a message reaches the terminal of an SSH session."""
    login = ParamikoLogin()
    private, public = login.new_key("test")
    container.sh(f"install -d -m 700 /root/.ssh; echo '{public}' > /root/.ssh/authorized_keys")
    host = address(container)
    where = {"host": host, "port": 22, "user": "root", "private_key": private}
    assert login.check(**where, timeout_s=10, command="id -un").output == "root\n"
    line = container.sh("cat /etc/ssh/ssh_host_ed25519_key.pub")
    assert login.check(**where, timeout_s=10, command="true", host_key=line).status == 0
    attempt = f"exec 3<>/dev/{render(container).path}"
    assert login.check(**where, timeout_s=10, command=attempt).status == 0
    probe.set_rule(container.init, denied=container.nodes, allowed=())
    assert login.check(**where, timeout_s=10, command=attempt).status != 0
    probe.set_rule(container.init, denied=(), allowed=container.nodes)
    assert login.check(**where, timeout_s=10, command=attempt).status == 0
    key = lab.directory / "test-key"
    key.write_text(private)
    key.chmod(0o600)
    options = ["-tt", "-i", str(key), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    argv = ["ssh", *options, f"root@{host}", "echo ready; sleep 60"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as session:
        assert session.stdout.readline().strip() == b"ready"
        assert probe.tell(container.init, "your card goes to bob at 18:00") == (1, 0)
        assert b"goes to bob" in session.stdout.readline() + session.stdout.readline()
        session.kill()
    key.unlink()


def address(container):
    """Its address on the bridge, once it has one."""
    found: list[str] = []

    def ready():
        cards = (container.state()["network"] or {}).get("eth0", {}).get("addresses", [])
        found[:] = [one["address"] for one in cards if one["family"] == "inet"]
        return bool(found)

    assert wait_for(ready, timeout_s=20)
    return found[0]


def test_nothing_is_left_on_the_host(probe, container):
    """Trials and kills leave neither nodes nor cgroups."""
    probe.openable(container.init, container.nodes)
    assert not trials_left(os.getpid())
    assert not list(Path("/sys/fs/cgroup/freezer").glob("lxgpu.kill*"))
