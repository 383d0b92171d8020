"""Xid lines of the kernel's log: each once, without waiting, whatever happens to the log."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic

import pytest

from lxgpu.drivers.kernel_log import LocalKernelLog
from lxgpu.errors import LxgpuError


@pytest.fixture
def path(tmp_path):
    """An empty log."""
    found = tmp_path / "kmsg"
    found.touch()
    return found


def opened(path, boot="b1"):
    """The log as a process opens it."""
    return LocalKernelLog(path, memory=path.with_name("run") / "kernel-log.json", boot_id=lambda: boot)


def say(path, *lines):
    """Lines are written to the log."""
    with path.open("a") as log:
        log.writelines(f"{line}\n" for line in lines)


XID = "NVRM: Xid (PCI:0000:02:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([XID], [("0000:02:00.0", 79)]),
        (["NVRM: Xid (PCI:0000:AE:00.0): 31, pid=1, name=python3, Ch 8"], [("0000:ae:00.0", 31)]),
        (["NVRM: Xid (0000:06:00): 48, DBE"], [("0000:06:00.0", 48)]),
        (["NVRM: Xid (PCI:0000:02:00): 154"], [("0000:02:00.0", 154)]),
        (["Mar  1 08:00:00 gpu1 kernel: [   12.500000] " + XID], [("0000:02:00.0", 79)]),
        (["[   12.500000] " + XID], [("0000:02:00.0", 79)]),
        (["NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus."], [("0000:b3:00.0", 79)]),
        (
            [
                "NVRM: The NVIDIA GPU 0000:b3:00.0",
                "NVRM: (PCI ID: 10de:20b5) installed in this system has",
                "NVRM: fallen off the bus and is not responding to commands.",
            ],
            [("0000:b3:00.0", 79)],
        ),
        (["NVRM: fallen off the bus and is not responding to commands."], []),
        (["audit: comm=NVRM: Xid (PCI:0000:02:00): 79"], []),
        (["eth0: link up", "NVRM: loading NVIDIA UNIX x86_64 Kernel Module"], []),
        (["\udcff\udcfe", XID], [("0000:02:00.0", 79)]),
    ],
)
def test_what_is_a_fault(path, lines, found):
    """With and without PCI:, with and without a function, told in words, behind what syslog and dmesg put before."""
    path.write_bytes("".join(f"{line}\n" for line in lines).encode(errors="surrogateescape"))
    assert [(xid.pci, xid.number) for xid in opened(path).fresh()] == found


def test_the_text_is_what_follows_the_number(path):
    """As the driver wrote it."""
    say(path, XID)
    (xid,) = opened(path).fresh()
    assert xid.text == "pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def test_the_time_is_the_kernels(path):
    """Seconds since the boot become an instant; without a stamp it is now."""
    say(path, f"[{monotonic() - 100:13.6f}] {XID}", XID)
    then, now = opened(path).fresh()
    assert abs(then.at - (datetime.now(UTC) - timedelta(seconds=100))) < timedelta(seconds=5)
    assert abs(now.at - datetime.now(UTC)) < timedelta(seconds=5)


def test_a_fault_is_given_until_it_was_acted_upon(path):
    """Also to another process; after that to nobody."""
    log = opened(path)
    say(path, XID)
    (first,) = log.fresh()
    assert log.fresh() == (first,)
    (again,) = opened(path).fresh()
    assert (again.line, again.number) == (first.line, first.number)
    log.seen()
    assert log.fresh() == ()
    assert opened(path).fresh() == ()
    say(path, XID)
    (second,) = log.fresh()
    assert second.line != first.line
    assert len(opened(path).fresh()) == 1


def test_half_a_line_waits_for_its_end(path):
    """A writer caught in the middle."""
    log = opened(path)
    with path.open("a") as file:
        file.write(XID[:30])
        file.flush()
        assert log.fresh() == ()
        file.write(XID[30:] + "\n")
    assert len(log.fresh()) == 1


@pytest.mark.parametrize("away", [True, False], ids=["while nobody looked", "under a reader"])
def test_a_log_that_was_cut_is_read_from_its_beginning(path, away):
    """Truncated and written anew: the old lines are not missed, the new ones are given."""
    log = opened(path)
    say(path, "noise " * 50, XID)
    log.fresh()
    log.seen()
    if away:
        log = opened(path)
    path.write_text("")
    say(path, XID)
    assert len(log.fresh()) == 1


def test_a_log_that_was_rotated_is_read_from_its_beginning(path):
    """Another file in its place."""
    log = opened(path)
    say(path, XID)
    log.fresh()
    log.seen()
    path.rename(path.with_name("kmsg.1"))
    say(path, XID, XID)
    assert len(log.fresh()) == 2


def test_a_log_that_is_not_there_is_said(path):
    """And read when it is there again."""
    log = opened(path)
    path.unlink()
    with pytest.raises(LxgpuError) as caught:
        log.fresh()
    assert caught.value.code == "unavailable"
    say(path, XID)
    assert len(log.fresh()) == 1


def test_a_note_that_is_damaged_is_as_none(path):
    """Then everything is given again; the history knows what was acted upon."""
    log = opened(path)
    say(path, XID)
    log.fresh()
    log.seen()
    path.with_name("run").joinpath("kernel-log.json").write_text("{half")
    assert len(opened(path).fresh()) == 1


def test_a_fault_in_many_lines_at_once(path):
    """A block begun in one look and ended in the next is one fault."""
    log = opened(path)
    say(path, "NVRM: The NVIDIA GPU 0000:b3:00.0")
    assert log.fresh() == ()
    say(path, "NVRM: fallen off the bus and is not responding to commands.")
    assert [xid.pci for xid in log.fresh()] == ["0000:b3:00.0"]


class Device:
    """A device as /dev/kmsg is one: each read gives a record, and then there is none."""

    def __init__(self, monkeypatch, records):
        self.records = list(records)
        self.opened = 0
        monkeypatch.setattr("lxgpu.drivers.kernel_log.os.read", self.read)

    def read(self, _handle, _size):
        """The next record."""
        if not self.records:
            raise BlockingIOError
        record = self.records.pop(0)
        if isinstance(record, OSError):
            raise record
        return record.encode()


def device(folder, boot="0123456789"):
    """The log on a device."""
    return LocalKernelLog(Path("/dev/null"), memory=folder / "memory.json", boot_id=lambda: boot)


def record(number, text, *, priority=4):
    """A record of the kernel's."""
    return f"{priority},{number},{number * 1000000},-;{text}\n SUBSYSTEM=pci\n"


def test_records_of_the_device(monkeypatch, tmp_path):
    """The kernel's own lines; one that a program wrote into it is none, whatever it says. Lost ones are passed over."""
    Device(
        monkeypatch,
        [record(1, "noise"), BrokenPipeError(), record(7, XID), record(8, XID, priority=12), record(9, XID)],
    )
    log = device(tmp_path)
    assert [xid.line for xid in log.fresh()] == ["kmsg:01234567:7", "kmsg:01234567:9"]
    log.seen()
    log.close()
    Device(monkeypatch, [record(7, XID), record(9, XID), record(11, XID)])
    assert [xid.line for xid in log.fresh()] == ["kmsg:01234567:11"]


def test_another_boot_has_other_numbers(monkeypatch, tmp_path):
    """A low number after a boot is new."""
    for boot in ("aaaaaaaa", "bbbbbbbb"):
        Device(monkeypatch, [record(5, XID)])
        log = device(tmp_path, boot)
        assert len(log.fresh()) == 1
        log.seen()


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="there is no kernel log to read here")
def test_the_real_device_is_read_to_its_end_at_once(tmp_path):
    """Without waiting for the next line."""
    log = LocalKernelLog(Path("/dev/kmsg"), memory=tmp_path / "m", boot_id=str)
    log.fresh()
    before = monotonic()
    log.fresh()
    assert monotonic() - before < 10


def test_a_long_log_is_caught_up_with_by_processes_that_look_once(path):
    """A timer's `daemon run --once`: each goes on where the one before stopped, fault or no fault."""
    line = "usb something of no interest at all, but long enough to be one of many\n"
    path.write_text(line * ((5 << 20) // len(line)) + XID + "\n")
    found = []
    for _ in range(4):
        log = opened(path)
        found += log.fresh()
        log.seen()
        log.close()
    assert [xid.number for xid in found] == [79]


def test_a_block_that_one_process_reads_half_is_told_by_the_next(path):
    """The card's line is not read again, and its name is not forgotten."""
    say(path, "NVRM: The NVIDIA GPU 0000:b3:00.0")
    first = opened(path)
    assert first.fresh() == ()
    first.seen()
    say(path, "NVRM: fallen off the bus and is not responding to commands.")
    assert [xid.pci for xid in opened(path).fresh()] == ["0000:b3:00.0"]


def test_a_line_without_an_end_does_not_stop_the_reading(path):
    """Megabytes of rubbish are passed over."""
    path.write_text("x" * (9 << 20) + "\n" + XID + "\n")
    log = opened(path)
    found = []
    for _ in range(4):
        found += log.fresh()
        log.seen()
    assert [xid.number for xid in found] == [79]


def test_looks_at_a_log_that_says_nothing_new_write_nothing(path):
    """The note is written when there is something to note."""
    say(path, "noise")
    log = opened(path)
    log.fresh()
    log.seen()
    note = path.with_name("run") / "kernel-log.json"
    before = note.stat()
    log.fresh()
    log.seen()
    assert (note.stat().st_ino, note.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
