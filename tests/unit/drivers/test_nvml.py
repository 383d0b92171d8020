"""NVML gone wrong, with the real pynvml in a real child on the lab's stand-in library."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from nvml_library import Library

from lxgpu.drivers.nvml import Nvml
from lxgpu.drivers.processes import read_stat
from lxgpu.model.gpu import Gpu

CARDS = tuple(Gpu(f"GPU-{letter}", f"0000:1{at}:00.0", "m", "h", index=at) for at, letter in enumerate("abcd"))
NOT_SUPPORTED, FUNCTION_NOT_FOUND = 3, 13


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The library, built once, with four cards."""
    return Library(tmp_path_factory.mktemp("nvml"), CARDS)


@pytest.fixture
def library(built, monkeypatch):
    """The library as the child will find it, with four healthy cards."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(built.directory))
    built.write()
    return built


def faults(found):
    """UUID and fault of each card, by index."""
    return [(found.cards[index].uuid, found.cards[index].fault) for index in sorted(found.cards)]


def test_a_healthy_host_tells_everything(library):
    """Every figure is there, PCI addresses are as LXD writes them, an idle card has no processes."""
    library.write(busy={"GPU-b": 70})
    found = Nvml().sample()
    assert (found.error, found.driver, found.count) == (None, "550.54.15", 4)
    card = found.cards[1]
    assert (card.uuid, card.pci, card.utilization_percent) == ("GPU-b", "0000:11:00.0", 70)
    assert (card.memory_used_bytes, card.memory_total_bytes, card.processes) == (0, 24576 * 2**20, ())
    assert card.temperature_c > 0
    assert card.power_w > 0


@pytest.mark.parametrize("word", ["lost", "unknown"])
def test_a_sick_card_hides_no_other(word, library):
    """XuehaiPan/nvitop#45: card 2 raises, the others are read; it keeps its name by its place in PCI order."""
    nvml = Nvml()
    nvml.sample()
    library.write(faults={"GPU-c": word})
    assert faults(nvml.sample()) == [("GPU-a", None), ("GPU-b", None), ("GPU-c", word), ("GPU-d", None)]


def test_a_hanging_card_is_the_only_one_lost(library):
    """A child goes on behind the card that hangs, within the time for all."""
    library.write(faults={"GPU-b": "hang"})
    started = time.monotonic()
    found = Nvml(known=lambda: {card.pci: card.uuid for card in CARDS}, card_s=0.4, pass_s=5).sample()
    assert faults(found) == [("GPU-a", None), ("GPU-b", "timeout"), ("GPU-c", None), ("GPU-d", None)]
    assert time.monotonic() - started < 5


def test_several_hanging_cards_end_with_the_time_for_all(library):
    """When time runs out the cards not reached count as silent, and what was read before stays."""
    library.write(faults={"GPU-b": "hang", "GPU-c": "hang", "GPU-d": "hang"})
    started = time.monotonic()
    found = Nvml(known=lambda: {card.pci: card.uuid for card in CARDS}, card_s=0.6, pass_s=1.0).sample()
    assert faults(found) == [("GPU-a", None), ("GPU-b", "timeout"), ("GPU-c", "timeout"), ("GPU-d", "timeout")]
    assert time.monotonic() - started < 2


def test_a_silent_card_of_no_certain_name_gets_none(library):
    """Two known cards and one silent one: a wrong name would be worse than none."""
    library.write(faults={"GPU-c": "lost"})
    known = {card.pci: card.uuid for card in CARDS} | {"0000:99:00.0": "GPU-removed"}
    assert faults(Nvml(known=lambda: known).sample())[2] == ("", "lost")


def test_the_kernel_drivers_list_names_a_silent_card(library, tmp_path):
    """Without anything remembered, /proc/driver/nvidia/gpus says who it is."""
    for card in CARDS:
        (tmp_path / "gpus" / card.pci).mkdir(parents=True)
        (tmp_path / "gpus" / card.pci / "information").write_text(f"Model: \t NVIDIA A100\nGPU UUID:\t {card.uuid}\n")
    library.write(faults={"GPU-b": "lost"})
    assert faults(Nvml(proc=tmp_path).sample())[1] == ("GPU-b", "lost")


@pytest.mark.parametrize(
    ("word", "attribute"), [("noutil", "utilization_percent"), ("noproc", "processes")], ids=["util", "processes"]
)
def test_what_a_card_does_not_support_is_not_known(word, attribute, library):
    """wookayin/gpustat#138, dask/distributed#8739: None and no fault; never 0, never an empty list."""
    library.write(faults={"GPU-a": word})
    found = Nvml().sample()
    assert getattr(found.cards[0], attribute) is None
    assert found.cards[0].fault is None
    assert getattr(found.cards[1], attribute) is not None


@pytest.mark.parametrize("code", [NOT_SUPPORTED, FUNCTION_NOT_FOUND])
def test_a_call_the_driver_lacks_costs_one_figure(code, library):
    """Every single call may be missing (old drivers, MIG); the rest of the card is read."""
    calls = {
        "nvmlDeviceGetUtilizationRates": "utilization_percent",
        "nvmlDeviceGetTemperature": "temperature_c",
        "nvmlDeviceGetPowerUsage": "power_w",
        "nvmlDeviceGetComputeRunningProcesses_v3": "processes",
    }
    for call, attribute in calls.items():
        library.write([f"fail {call} {code} 0"])
        card = Nvml().sample().cards[0]
        unknown = [name for name in calls.values() if getattr(card, name) is None]
        assert (unknown, card.fault, card.uuid) == ([attribute], None, "GPU-a"), call


def test_an_old_memory_call_does(library):
    """Drivers without the second memory call still tell the memory."""
    library.write([f"fail nvmlDeviceGetMemoryInfo_v2 {FUNCTION_NOT_FOUND}"])
    assert Nvml().sample().cards[0].memory_total_bytes == 24576 * 2**20


def test_processes_come_with_memory_and_kind(library):
    """Compute and graphics processes are told apart; who is on both lists computes."""
    children = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]
    try:
        compute, graphics = ((child.pid, started(child.pid)) for child in children)
        lines = [f"proc 0 {compute[0]} {compute[1]} 100 C 50", f"proc 0 {graphics[0]} {graphics[1]} 28 G 0"]
        library.write([*lines, f"proc 0 {compute[0]} {compute[1]} 100 G 0"])
        found = {(pid, kind) for pid, _, kind in Nvml().sample().cards[0].processes}
        assert found == {(compute[0], "compute"), (graphics[0], "graphics")}
    finally:
        for child in children:
            child.kill()
            child.wait()


def test_a_driver_upgraded_under_the_running_kernel_is_told_with_both_versions(library, tmp_path):
    """lyulyul/shine-cluster#30: no cards and an error, never "no cards" alone."""
    line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024\n"
    (tmp_path / "version").write_text(line)
    library.write(["init mismatch"])
    found = Nvml(proc=tmp_path).sample()
    assert not found.cards
    assert "550.90.07" in found.error
    assert "550.54.15" in found.error
    assert "mismatch" in found.error


def test_the_open_kernel_modules_version_is_read_too(library, tmp_path):
    """The open kernel module words its version differently."""
    line = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build\n"
    (tmp_path / "version").write_text(line)
    library.write(["init mismatch"])
    assert "kernel module 560.35.03" in Nvml(proc=tmp_path).sample().error


def test_without_a_driver_there_is_an_error(library):
    """The module is not loaded."""
    library.write(["init nodriver"])
    found = Nvml().sample()
    assert (found.cards, found.count) == ({}, None)
    assert "Driver Not Loaded" in found.error


def test_without_the_library_there_is_an_error(monkeypatch, tmp_path):
    """No libnvidia-ml on the host."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert "Not Found" in Nvml().sample().error


@pytest.mark.parametrize(
    ("body", "words"),
    [("pause();", "did not answer within 0.5 s"), ("abort();", "status -6"), ("_exit(0);", "status 0")],
    ids=["hangs", "crashes", "leaves"],
)
def test_a_library_that_hangs_or_crashes_at_the_start_is_an_error(body, words, monkeypatch, tmp_path):
    """The child is put down or gone; the caller gets words, in time."""
    start = f"int nvmlInitWithFlags(unsigned flags) {{ (void)flags; {body} return 0; }}"
    build(tmp_path, f"#include <stdlib.h>\n#include <unistd.h>\n{start}\n")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert words in Nvml(pass_s=0.5).sample().error


def test_a_card_that_kills_the_child_is_the_only_one_lost(monkeypatch, tmp_path):
    """A crash inside one card's call is that card's fault; the cards behind it are read."""
    build(tmp_path, CRASHING)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    found = Nvml(known=lambda: {f"0000:1{at}:00.0": f"GPU-{at}" for at in range(3)}).sample()
    assert faults(found) == [("GPU-0", None), ("GPU-1", "unknown"), ("GPU-2", None)]
    assert found.cards[0].processes is None


def test_nothing_of_a_pass_stays(library):
    """No child is left when a card hangs: neither a process nor a zombie."""
    library.write(faults={"GPU-b": "hang"})
    Nvml(card_s=0.2, pass_s=2).sample()
    assert not children()


def test_a_healthy_child_waits_for_the_next_pass(library):
    """Its start is most of the cost, so it is used again; what it tells is of now. It goes with its owner."""
    nvml = Nvml()
    nvml.sample()
    (first,) = children()
    library.write(busy={"GPU-a": 33})
    assert nvml.sample().cards[0].utilization_percent == 33
    assert children() == [first]
    nvml.close()
    assert not children()


@pytest.mark.usefixtures("library")
def test_a_child_that_was_killed_while_it_waited_is_replaced():
    """Somebody ended it (out of memory, say): the next pass is as good as any."""
    nvml = Nvml()
    nvml.sample()
    (first,) = children()
    os.kill(first, signal.SIGKILL)
    assert faults(nvml.sample()) == [(card.uuid, None) for card in CARDS]
    assert children() != [first]
    nvml.close()


@pytest.mark.usefixtures("library")
def test_two_threads_share_the_child():
    """A pass at a time: both get all cards."""
    nvml, found = Nvml(), []
    threads = [threading.Thread(target=lambda: found.append(faults(nvml.sample()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[(card.uuid, None) for card in CARDS]] * 4
    nvml.close()


CRASHING = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int nvmlInitWithFlags(unsigned f) { (void)f; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned at, void **handle) { *handle = (void *)(size_t)(at + 1); return 0; }
int nvmlDeviceGetUUID(void *handle, char *text, unsigned size) {
  if ((size_t)handle == 2) abort();
  snprintf(text, size, "GPU-%zu", (size_t)handle - 1);
  return 0;
}
int nvmlDeviceGetPciInfo_v3(void *handle, char *pci) {
  memset(pci, 0, 68);
  sprintf(pci + 36, "00000000:1%zu:00.0", (size_t)handle - 1);
  return 0;
}
int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long *sizes) {
  (void)handle;
  sizes[0] = sizes[1] = sizes[2] = 1;
  return 0;
}
"""


def children():
    """The pids of our own NVML children."""
    pids = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in pids if "nvml_child" in Path(f"/proc/{pid}/cmdline").read_text()]


def build(directory, source):
    """A libnvidia-ml of a few lines."""
    argv = ["gcc", "-shared", "-fPIC", "-xc", "-", "-Wl,-soname,libnvidia-ml.so.1", "-o", "libnvidia-ml.so.1"]
    subprocess.run(argv, cwd=directory, input=source, text=True, check=True)


def started(pid):
    """The start time of a process, which the stand-in wants."""
    return read_stat(pid).start_time
