"""The lab itself, on a real LXD: what it pretends, what its jobs do, and that it goes away whole."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from labkit import Launch, lab_name, lxc
from nvml_look import nvml

from lxgpu.errors import LxgpuError
from lxgpu.lab import Lab, LabSpec, down, up
from lxgpu.lab.faults import set_fault
from lxgpu.lab.jobs import JobSpec, start_job
from lxgpu.lab.record import load
from lxgpu.lab.status import status

pytestmark = pytest.mark.lab

OPEN = (
    "import os, sys\n"
    "for p in sys.argv[1:]:\n"
    " try: os.close(os.open(p, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)); print(0)\n"
    " except OSError as e: print(e.errno)\n"
)


def _until(what: Callable[[], object], limit: float = 15) -> bool:
    deadline = time.monotonic() + limit
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _opens(lab: Lab, name: str, *paths: str) -> list[int]:
    """What opening each path inside answers: 0 or the errno."""
    return [int(line) for line in lxc(lab, "exec", name, "-T", "--", "python3", "-c", OPEN, *paths).split()]


def _host_devices() -> set[tuple[str, int]]:
    """The machine's /dev as it is; screens of consoles come and go with the consoles, trials of a card in no time."""
    return {
        (entry.name, entry.stat(follow_symlinks=False).st_rdev)
        for entry in os.scandir("/dev")
        if not entry.name.startswith(("vcs", ".lxgpu-"))
    }


def _traces(lab: Lab, containers: tuple[str, ...] = ()) -> list[str]:
    """All that tells of a lab on this machine, found without the lab's own code."""
    told = []
    me = str(os.getpid())
    for pid in (entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
            mounts = Path(f"/proc/{pid}/mountinfo").read_text()
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            if pid != me and state != "Z" and f"{lab.directory}" in words.decode(errors="replace") + mounts:
                told.append(f"process {pid}: {words[:200]!r}")
    commands = {
        "mount": ["cat", "/proc/self/mountinfo"],
        "loop": ["losetup", "--list", "--noheadings", "--output", "BACK-FILE"],
        "link": ["ip", "-o", "link"],
        "rule": ["nft", "list", "ruleset"],
    }
    for kind, command in commands.items():
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        told += [f"{kind}: {line}" for line in lines if str(lab.directory) in line or lab.bridge in line]
    told += [f"console {n}" for n in lab.consoles if Path(f"/dev/vcs{n}").exists()]
    tops = [path for level in ("lxc.*", "*/lxc.*") for path in Path("/sys/fs/cgroup").glob(level)]
    told += [f"cgroup {path}" for path in tops for name in containers if f".{name}" in path.name]
    told += [f"file {path}" for path in (lab.directory, lab.directory.parent / f".{lab.name}.lock") if path.exists()]
    return told


def _daemon(lab: Lab) -> int:
    return int((lab.paths.run / "lxd.pid").read_text())


def _init(lab: Lab, name: str) -> int:
    return int(json.loads(lxc(lab, "query", f"/1.0/instances/{name}/state"))["pid"])


@pytest.fixture
def short_lived() -> Iterator[LabSpec]:
    """A lab of the test's own, to be broken: one card; it is taken down after the test."""
    spec = LabSpec(name=lab_name("x"), gpus=1)
    yield spec
    down(spec.name)


# ---- what the lab pretends


def test_nvml_lists_the_cards(lab: Lab) -> None:
    """The real pynvml finds every card of the lab, with its name, memory and UUID."""
    said = nvml(lab.env())
    assert [(card["name"], card["total"]) for card in said["cards"]] == [("NVIDIA GeForce RTX 3090", 24 << 30)] * 4
    assert [card["uuid"] for card in said["cards"]] == [card.uuid for card in lab.gpus]


def test_cards_hot_plug(lab: Lab, launch: Launch) -> None:
    """A card lent to a running container brings its nodes and no others, they open, and go when it is taken."""
    name = launch(lab)
    card, other = lab.gpus[1], lab.gpus[2]
    paths = [node.path for node in card.nodes]
    assert _opens(lab, name, *paths) == [errno.ENOENT] * 3
    lxc(lab, "config", "device", "add", name, "g", "gpu", f"pci={card.pci}")
    assert _opens(lab, name, *paths) == [0, 0, errno.ENXIO]
    assert _opens(lab, name, *(node.path for node in other.nodes)) == [errno.ENOENT] * 3
    numbers = lxc(lab, "exec", name, "-T", "--", "stat", "-c", "%Hr %Lr", *paths).splitlines()
    assert [tuple(map(int, line.split())) for line in numbers] == [(node.major, node.minor) for node in card.nodes]
    lxc(lab, "config", "device", "remove", name, "g")
    assert _opens(lab, name, *paths) == [errno.ENOENT] * 3


def test_container_has_network_and_sshd(lab: Lab, launch: Launch) -> None:
    """A container boots to the end, gets an address of the lab's subnet, and its sshd answers from the host."""
    name = launch(lab)
    assert _until(lambda: lxc(lab, "list", name, "--format=csv", "--columns=4").strip())
    address = lxc(lab, "list", name, "--format=csv", "--columns=4").split()[0]
    assert address.rpartition(".")[0] == lab.address.rpartition(".")[0]
    scan = ["ssh-keyscan", "-T", "5", "-t", "ed25519", address]
    assert _until(lambda: "ssh-ed25519" in subprocess.run(scan, capture_output=True, text=True, check=False).stdout)
    assert lxc(lab, "exec", name, "-T", "--", "hostname").strip() == name
    state = lxc(lab, "exec", name, "-T", "--", "systemctl", "is-system-running", "--wait", check=False)
    failed = lxc(lab, "exec", name, "-T", "--", "systemctl", "--failed", "--no-legend")
    assert (state.strip(), failed) == ("running", "")


def test_containers_share_no_secret(lab: Lab, launch: Launch) -> None:
    """Two containers of the image have different host keys and machine ids."""
    files = "/etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub"
    show = f"for f in {files}; do until test -s $f; do sleep .1; done; cat $f; done"
    one, two = (lxc(lab, "exec", launch(lab), "-T", "--", "sh", "-c", show).split() for _ in range(2))
    assert len(one[0]) == 32
    assert not {word for word in one if len(word) > 30} & {word for word in two if len(word) > 30}


# ---- jobs


def test_job_shows_in_nvml_and_goes(lab: Lab, launch: Launch) -> None:
    """A job holds the card's nodes, shows with memory and load on its card alone, and is gone when killed."""
    name = launch(lab, 0, 2)
    job = start_job(lab, JobSpec(instance=name, gpu="2", util_percent=70, memory_bytes=3 << 30))
    cards = nvml(lab.env())["cards"]
    assert [card["processes"] for card in cards] == [{}, {}, {job.pid: 3 << 30}, {}]
    assert [card["util"] for card in cards] == [0, 0, 70, 0]
    held = {os.stat(entry.path).st_rdev for entry in os.scandir(f"/proc/{job.pid}/fd")}  # noqa: PTH116 -- through links
    assert {os.makedev(node.major, node.minor) for node in lab.gpus[2].nodes[:2]} <= held
    assert name in Path(f"/proc/{job.pid}/cgroup").read_text()
    os.kill(job.pid, signal.SIGKILL)
    assert _until(lambda: nvml(lab.env())["cards"][2]["processes"] == {})


def test_restart_loop(lab: Lab, launch: Launch) -> None:
    """Killed, a respawning job shows again under a new pid; when its container stops it is gone for good."""
    name = launch(lab, 3)
    job = start_job(lab, JobSpec(instance=name, respawn=True, ignore_term=True))
    os.kill(job.pid, signal.SIGTERM)
    os.kill(job.pid, signal.SIGKILL)
    assert _until(lambda: set(nvml(lab.env())["cards"][3]["processes"]) - {job.pid})
    lxc(lab, "stop", "--force", name)
    assert nvml(lab.env())["cards"][3]["processes"] == {}


def test_job_of_a_user(lab: Lab, launch: Launch) -> None:
    """A job runs as the account named, and one that may not open the nodes is told so."""
    name = launch(lab, 1)
    job = start_job(lab, JobSpec(instance=name, user="games", seconds=60))
    inside = lxc(lab, "exec", name, "-T", "--", "ps", "-o", "user=", "-C", "lxgpu-job").split()
    assert inside == ["games"]
    assert Path(f"/proc/{job.pid}").stat().st_uid not in {0, os.getuid()}
    lxc(lab, "exec", name, "-T", "--", "sh", "-c", "chmod 600 /dev/dri/*")
    with pytest.raises(LxgpuError, match="Permission denied"):
        start_job(lab, JobSpec(instance=name, user="games"))


def test_job_without_a_card(lab: Lab, launch: Launch) -> None:
    """A container without a card runs no job, also not on a card that it was not lent."""
    name = launch(lab)
    with pytest.raises(LxgpuError) as caught:
        start_job(lab, JobSpec(instance=name))
    assert caught.value.code == "not_found"
    with pytest.raises(LxgpuError, match="No such file"):
        start_job(lab, JobSpec(instance=name, gpu="0"))
    with pytest.raises(LxgpuError, match="no container 'nobody'"):
        start_job(lab, JobSpec(instance="nobody"))
    assert [card["processes"] for card in nvml(lab.env())["cards"]] == [{}] * 4


def test_hidden_holders(mappable_lab: Lab, launch: Launch) -> None:
    """A mapping alone shows in map_files, a parked descriptor only as a count: the cases a fence must not miss."""
    name = launch(mappable_lab, 1)
    mapped, parked = (start_job(mappable_lab, JobSpec(instance=name, hold=hold)) for hold in ("map", "fd-passed"))
    number = mappable_lab.gpus[1].nodes[1]
    for job in (mapped, parked):
        files = {os.stat(entry.path).st_rdev for entry in os.scandir(f"/proc/{job.pid}/fd")}  # noqa: PTH116
        assert os.makedev(number.major, number.minor) not in files
    maps = {os.stat(e.path).st_rdev for e in os.scandir(f"/proc/{mapped.pid}/map_files")}  # noqa: PTH116
    assert os.makedev(number.major, number.minor) in maps
    infos = [Path(entry.path).read_text() for entry in os.scandir(f"/proc/{parked.pid}/fdinfo")]
    assert any(re.search(r"scm_fds:\s*[1-9]", info) for info in infos)
    assert set(nvml(mappable_lab.env())["cards"][1]["processes"]) == {mapped.pid, parked.pid}


def test_map_needs_a_mappable_card(lab: Lab, launch: Launch) -> None:
    """On a card whose node cannot be mapped the job says which lab can do it."""
    name = launch(lab, 0)
    with pytest.raises(LxgpuError) as caught:
        start_job(lab, JobSpec(instance=name, hold="map"))
    assert "--mappable" in caught.value.fix


def test_faults_show(lab: Lab) -> None:
    """A lost card answers so, the others as ever, and status names the fault until it is cleared."""
    set_fault(lab, "1", "lost")
    try:
        cards = nvml(lab.env())["cards"]
        assert [card.get("util") for card in cards] == [0, None, 0, 0]
        assert [card.fault for card in status(lab.name)[0].gpus] == [None, "lost", None, None]
    finally:
        set_fault(lab, "all", "clear")
    assert [card["util"] for card in nvml(lab.env())["cards"]] == [0] * 4


# ---- labs among themselves and the machine


def test_side_by_side(lab: Lab, mappable_lab: Lab, launch: Launch) -> None:
    """Two labs share nothing: cards, consoles, subnet, bridge, NVML; one container name may be in both."""
    assert lab.subnet != mappable_lab.subnet
    assert lab.bridge != mappable_lab.bridge
    assert not {card.uuid for card in lab.gpus} & {card.uuid for card in mappable_lab.gpus}
    assert not set(lab.consoles) & set(mappable_lab.consoles)
    name = launch(lab, 0)
    assert name not in lxc(mappable_lab, "list", "--format=csv", "--columns=n").split()
    job = start_job(lab, JobSpec(instance=name, seconds=60))
    assert job.pid in nvml(lab.env())["cards"][0]["processes"]
    assert [card["processes"] for card in nvml(mappable_lab.env())["cards"]] == [{}, {}]
    assert {one.name for one in status()} >= {lab.name, mappable_lab.name}


def test_up_again_changes_nothing(lab: Lab) -> None:
    """A second `up` finds all there and says so; one that wants other cards is refused."""
    lines: list[str] = []
    assert up(LabSpec(name=lab.name), progress=lines.append) == lab
    assert lines == [f"lab {lab.name}: already up, 4 cards, bridge {lab.bridge}"]
    for other in (LabSpec(name=lab.name, gpus=2), LabSpec(name=lab.name, models=("T4",))):
        with pytest.raises(LxgpuError) as caught:
            up(other)
        assert caught.value.code == "exists"


def test_down_leaves_nothing(short_lived: LabSpec) -> None:
    """After `down` nothing tells of the lab, and the machine's /dev is what it was before, and was meanwhile."""
    before = _host_devices()
    lab = up(short_lived)
    name = f"{lab.name}-c"
    lxc(lab, "launch", "base", name, "--quiet")
    lxc(lab, "config", "device", "add", name, "g", "gpu", f"pci={lab.gpus[0].pci}")
    start_job(lab, JobSpec(instance=name, ignore_term=True, respawn=True))
    assert _host_devices() == before
    assert len(_traces(lab, (name,))) > 10
    assert down(lab.name)
    assert _traces(lab, (name,)) == []
    assert _host_devices() == before
    assert not down(lab.name)


def test_killed_daemon(short_lived: LabSpec) -> None:
    """When LXD is killed, `up` starts it again in the lab's namespace; its container never noticed."""
    lab = up(short_lived)
    name = f"{lab.name}-c"
    lxc(lab, "launch", "base", name, "--quiet")
    init = _init(lab, name)
    os.kill(_daemon(lab), signal.SIGKILL)
    assert up(short_lived) == lab
    assert _init(lab, name) == init
    lxc(lab, "config", "device", "add", name, "g", "gpu", f"pci={lab.gpus[0].pci}")
    assert _opens(lab, name, *(node.path for node in lab.gpus[0].nodes)) == [0, 0, errno.ENXIO]
    # killed together with the namespace: the container starts anew, with what it had on its disk
    lxc(lab, "exec", name, "-T", "--", "sh", "-c", "echo kept > /root/note; sync")
    assert lab.holder is not None
    for pid in (lab.holder[0], _daemon(lab)):
        os.kill(pid, signal.SIGKILL)
    assert _until(lambda: status(lab.name)[0].state == "broken")
    again = up(short_lived)
    assert (again.gpus, again.subnet) == (lab.gpus, lab.subnet)
    lxc(again, "start", name, check=False)  # LXD may have started it by itself
    assert _until(lambda: lxc(again, "exec", name, "-T", "--", "cat", "/root/note", check=False) == "kept\n")


def test_down_after_a_crash(short_lived: LabSpec) -> None:
    """With LXD killed and a container frozen in mid-flight `down` still leaves nothing."""
    lab = up(short_lived)
    name = f"{lab.name}-c"
    lxc(lab, "launch", "base", name, "--quiet")
    lxc(lab, "config", "device", "add", name, "g", "gpu", f"pci={lab.gpus[0].pci}")
    start_job(lab, JobSpec(instance=name, ignore_term=True))
    lxc(lab, "pause", name)
    os.kill(_daemon(lab), signal.SIGKILL)
    assert down(lab.name)
    assert _traces(lab, (name,)) == []


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGKILL, "cards:"),
        (signal.SIGKILL, "LXD:"),
        (signal.SIGKILL, "pool"),
        (signal.SIGKILL, "image base"),
        (signal.SIGINT, "cards:"),
        (signal.SIGINT, "bridge"),
    ],
)
def test_interrupted_up(short_lived: LabSpec, moment: str, number: signal.Signals) -> None:
    """Stopped at any step, by kill -9 or Ctrl-C, `up` goes on from there, and `down` leaves nothing."""
    command = [sys.executable, "-m", "lxgpu", "lab", "up", "--name", short_lived.name, "--gpus", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as started:
        for line in started.stderr or ():
            if line.startswith(moment):
                started.send_signal(number)
                break
        started.communicate()
    assert started.returncode in {-number, 130}
    lab = load(short_lived.name)
    assert lab is not None
    if number == signal.SIGINT:
        assert status(up(short_lived).name)[0].state == "up"
        assert nvml(lab.env())["cards"][0]["uuid"] == lab.gpus[0].uuid
    assert down(lab.name)
    assert _traces(lab) == []


@pytest.mark.parametrize("moment", ["shutting LXD down", "ending its processes"])
def test_interrupted_down(short_lived: LabSpec, moment: str) -> None:
    """A `down` that is killed on its way is finished by the next one."""
    lab = up(short_lived)
    with subprocess.Popen(
        [sys.executable, "-m", "lxgpu", "lab", "down", "--name", lab.name], stderr=subprocess.PIPE, text=True
    ) as started:
        for line in started.stderr or ():
            if moment in line:
                started.kill()
                break
        started.communicate()
    assert started.returncode == -signal.SIGKILL
    assert down(lab.name)
    assert _traces(lab) == []


def test_bad_policy_is_refused_first(short_lived: LabSpec, tmp_path: Path) -> None:
    """A policy file with a mistake is refused before anything of the lab is made."""
    bad = tmp_path / "bad.yaml"
    bad.write_text("version: 1\ndefaults: {limit: many}\n")
    with pytest.raises(LxgpuError) as caught:
        up(replace(short_lived, policy=bad))
    assert caught.value.code == "bad_file"
    assert load(short_lived.name) is None


def test_commands(lab: Lab, launch: Launch) -> None:
    """The commands do it: `job` prints the host's pid, `status` is JSON, `fault` shows in it, a wrong one exits 2."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, **lab.env()}
        return subprocess.run(
            [sys.executable, "-m", "lxgpu", "lab", *words], env=env, capture_output=True, text=True, check=False
        )

    name = launch(lab, 2)
    pid = int(run("job", name, "--util", "40", "--memory", "2GiB", "--for", "1h").stdout)
    assert nvml(lab.env())["cards"][2]["processes"] == {pid: 2 << 30}
    assert run("fault", "3", "unknown").returncode == 0
    document = json.loads(run("status", "--name", lab.name, "-o", "json").stdout)
    assert document["schema"] == "lxgpu.labs/v1"
    shown = document["items"][0]
    assert (shown["state"], [card["fault"] for card in shown["gpus"]]) == ("up", [None, None, None, "unknown"])
    assert name in shown["instances"]
    assert run("fault", "all", "clear").returncode == 0
    wrong = run("fault", "3", "bored")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("error[usage] the lab cannot bring about 'bored' on 3\n")
    assert run("status", "--name", "nowhere").returncode == 3


def test_env_of_the_command(lab: Lab) -> None:
    """`eval "$(lxgpu lab env)"` points lxgpu, lxc and pynvml at the lab."""
    script = f'eval "$("$0" -m lxgpu lab env --name {lab.name})" && lxc query /1.0/networks && echo $LXGPU_CONFIG'
    done = subprocess.run(["sh", "-c", script, sys.executable], capture_output=True, text=True, check=True)
    assert f"/1.0/networks/{lab.bridge}" in done.stdout
    assert done.stdout.splitlines()[-1] == str(lab.paths.config)
