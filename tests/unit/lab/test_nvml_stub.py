"""The stand-in NVML library, asked through the real pynvml."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from nvml_look import nvml

from lxgpu.errors import LxgpuError
from lxgpu.lab import record, state
from lxgpu.lab.faults import set_fault
from lxgpu.lab.processes import started_at
from lxgpu.lab.record import Lab

MIB = 1 << 20


@contextmanager
def _program(*argv: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(argv) as running:
        try:
            yield running
        finally:
            running.kill()


def _add(lab: Lab, line: str) -> None:
    with state.editing(lab) as nvml_state:
        nvml_state.jobs.append(line)


def test_cards(paper_lab: Lab) -> None:
    """Every card is there with its identity, model and memory, and is found by UUID and PCI address."""
    said = nvml(paper_lab.env())
    assert said["init"] is None
    assert (said["driver"], said["cuda"]) == ("550.54.15", 12040)
    for card, seen in zip(paper_lab.gpus, said["cards"], strict=True):
        assert (seen["uuid"], seen["name"], seen["minor"]) == (card.uuid, card.model, card.minor)
        assert seen["pci"] == f"0000{card.pci}"
        assert seen["total"] == seen["total_v2"] == card.memory_bytes
        assert (seen["used"], seen["util"], seen["processes"], seen["graphics"]) == (0, 0, {}, [])
        assert seen["by_uuid"] == seen["by_pci"] == card.index
        assert 20 < seen["temperature"] < 60
        assert 0 < seen["power"] < seen["power_limit"]
        assert (seen["persistence"], seen["mig"]) == (1, "error 3")


def test_process_shows_while_it_lives(paper_lab: Lab) -> None:
    """A process shows with its memory and load on its card alone, and is gone as soon as it has ended."""
    with _program("sleep", "60") as job:
        _add(paper_lab, f"proc 1 {job.pid} {started_at(job.pid)} 2048 C 70")
        cards = nvml(paper_lab.env())["cards"]
        assert [card["processes"] for card in cards] == [{}, {job.pid: 2048 * MIB}, {}]
        assert [card["used"] for card in cards] == [0, 2048 * MIB, 0]
        assert [card["util"] for card in cards] == [0, 70, 0]
    assert nvml(paper_lab.env())["cards"][1]["processes"] == {}
    assert nvml(paper_lab.env())["cards"][1]["used"] == 0


def test_pid_of_another_process(paper_lab: Lab) -> None:
    """A pid that was given to another process meanwhile is not taken for the job."""
    with state.editing(paper_lab) as nvml_state:
        nvml_state.jobs.append(f"proc 0 {os.getpid()} 1 2048 C 70")
    path = paper_lab.paths.nvml_state
    path.write_text(path.read_text() + f"proc 0 {os.getpid()} 1 2048 C 70\n")
    assert nvml(paper_lab.env())["cards"][0]["processes"] == {}


def test_load_adds_up(paper_lab: Lab) -> None:
    """Several jobs add their memory and load; neither goes beyond what the card has."""
    with _program("sleep", "60") as one, _program("sleep", "60") as two:
        for job in (one, two):
            _add(paper_lab, f"proc 2 {job.pid} {started_at(job.pid)} 10000 C 70")
        card = nvml(paper_lab.env())["cards"][2]
        assert set(card["processes"]) == {one.pid, two.pid}
        assert card["used"] == card["total"]
        assert card["util"] == 100


def test_children_of_a_supervisor(paper_lab: Lab) -> None:
    """Of a restart loop the child shows, and only when it bears the name of a job that holds its card."""
    with _program("sh", "-c", "sleep 60 & exec tail -f /dev/null") as loop:
        _add(paper_lab, f"kids 0 {loop.pid} {started_at(loop.pid)} 100 C 5 sleep")
        deadline = time.monotonic() + 10
        while not (found := nvml(paper_lab.env())["cards"][0]["processes"]) and time.monotonic() < deadline:
            time.sleep(0.05)
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(loop.pid)], capture_output=True, text=True, check=True
        )
        assert found == {int(children.stdout): 100 * MIB}
        os.kill(int(children.stdout), 9)


@pytest.mark.parametrize(("fault", "code"), [("lost", "error 15"), ("unknown", "error 999")])
def test_a_bad_card_hides_no_other(paper_lab: Lab, fault: str, code: str) -> None:
    """One card in trouble answers with its error; the others answer as ever, and clearing ends it."""
    set_fault(paper_lab, "1", fault)
    cards = nvml(paper_lab.env())["cards"]
    assert code in cards[1].values()
    assert [card["util"] for card in (cards[0], cards[2])] == [0, 0]
    set_fault(paper_lab, "1", "clear")
    assert nvml(paper_lab.env())["cards"][1]["util"] == 0


def test_partial_blindness(paper_lab: Lab) -> None:
    """Utilisation or processes may be not supported while all else is."""
    set_fault(paper_lab, "0", "noutil")
    set_fault(paper_lab, "1", "noproc")
    first, second, third = nvml(paper_lab.env())["cards"]
    assert (first["util"], first["processes"]) == ("error 3", {})
    assert (second["util"], second["processes"]) == (0, "error 3")
    assert (third["util"], third["processes"]) == (0, {})


@pytest.mark.parametrize(
    ("call", "key"),
    [
        ("nvmlDeviceGetTemperature", "temperature"),
        ("nvmlDeviceGetMemoryInfo", "used"),
        ("nvmlDeviceGetMemoryInfo_v2", "total_v2"),
        ("nvmlDeviceGetUtilizationRates", "util"),
        ("nvmlDeviceGetComputeRunningProcesses_v3", "processes"),
        ("nvmlDeviceGetUUID", "uuid"),
        ("nvmlDeviceGetName", "name"),
        ("nvmlDeviceGetPciInfo_v3", "pci"),
        ("nvmlDeviceGetPowerUsage", "power"),
        ("nvmlDeviceGetMinorNumber", "minor"),
    ],
)
def test_any_call_can_fail(paper_lab: Lab, call: str, key: str) -> None:
    """A single call fails with the code asked for, on that card only, and everything else goes on."""
    set_fault(paper_lab, paper_lab.gpus[2].uuid, f"fail:{call}:4")
    cards = nvml(paper_lab.env())["cards"]
    assert [card[key] == "error 4" for card in cards] == [False, False, True]
    set_fault(paper_lab, "2", "clear")
    assert nvml(paper_lab.env())["cards"][2][key] != "error 4"


@pytest.mark.parametrize(("fault", "code"), [("mismatch", "error 18"), ("nodriver", "error 9")])
def test_library_that_does_not_start(paper_lab: Lab, fault: str, code: str) -> None:
    """After a driver update, or without a driver, NVML does not start; clearing brings it back."""
    set_fault(paper_lab, "all", fault)
    assert nvml(paper_lab.env())["init"] == code
    set_fault(paper_lab, "all", "clear")
    assert nvml(paper_lab.env())["init"] is None


def test_hang(paper_lab: Lab) -> None:
    """A card that hangs does not answer at all, until the fault is cleared."""
    set_fault(paper_lab, "0", "hang")
    with pytest.raises(subprocess.TimeoutExpired):
        nvml(paper_lab.env(), limit=1.5)
    set_fault(paper_lab, "0", "clear")
    assert len(nvml(paper_lab.env())["cards"]) == 3


def test_xid(paper_lab: Lab) -> None:
    """An Xid stands in the kernel's log as the driver writes it, and changes nothing in NVML."""
    set_fault(paper_lab, "1", "xid:79")
    line = paper_lab.paths.kernel_log.read_text()
    assert f"NVRM: Xid (PCI:{paper_lab.gpus[1].pci.removesuffix('.0')}): 79, " in line
    assert "GPU has fallen off the bus" in line
    assert nvml(paper_lab.env())["cards"][1]["util"] == 0


@pytest.mark.parametrize(
    ("gpu", "fault", "code"),
    [
        ("0", "sleepy", "usage"),
        ("0", "mismatch", "usage"),
        ("0", "xid:", "usage"),
        ("7", "lost", "not_found"),
        ("GPU-", "lost", "not_found"),
    ],
)
def test_unknown_faults_and_cards(paper_lab: Lab, gpu: str, fault: str, code: str) -> None:
    """What the lab cannot do is refused with the list of what it can, and the state stays."""
    before = paper_lab.paths.nvml_state.read_text()
    with pytest.raises(LxgpuError) as caught:
        set_fault(paper_lab, gpu, fault)
    assert caught.value.code == code
    assert caught.value.why
    assert paper_lab.paths.nvml_state.read_text() == before


def test_many_writers(paper_lab: Lab) -> None:
    """Commands that change the state at once lose nothing of each other."""
    env = {**os.environ, "LXGPU_LAB_ROOT": str(paper_lab.directory.parent)}
    record.save(paper_lab)
    code = (
        "import sys\nfrom lxgpu.lab import record, state\nfrom lxgpu.lab.processes import started_at\nimport os\n"
        "lab = record.load('paper')\n"
        "for i in range(20):\n with state.editing(lab) as s: s.extra.append(f'fail nvmlX{sys.argv[1]}x{i} 3')\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(number)], env=env) for number in range(4)]
    assert [writer.wait(timeout=60) for writer in writers] == [0] * 4
    assert len(state.read(paper_lab).extra) == 80
