"""What is done about a fault, by NVIDIA's number."""

from __future__ import annotations

import pytest

from lxgpu.policy.health import Remedy, by_fault, judge_xid, worse

CHANGED = "GPU recovery action changed from 0x0 (None) to "


@pytest.mark.parametrize(
    ("number", "text", "remedy"),
    [
        (79, "", Remedy.REBOOT),
        (48, "", Remedy.RESET),
        (95, "", Remedy.RESET),
        (13, "", Remedy.PROGRAM),
        (31, "", Remedy.PROGRAM),
        (45, "", Remedy.NOTHING),
        (74, "NVLink: fatal error", Remedy.LOOK),
        (999, "", Remedy.LOOK),
        (154, CHANGED + "0x2 (Node Reboot Required)", Remedy.REBOOT),
        (154, CHANGED + "0x1 (GPU Reset Required)", Remedy.RESET),
        (154, CHANGED + "0x4 (Drain and Reset)", Remedy.RESET),
        (154, "GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)", Remedy.LOOK),
        (154, CHANGED + "0x3 (Drain P2P)", Remedy.LOOK),
        (154, "", Remedy.LOOK),
    ],
)
def test_what_helps(number, text, remedy):
    """A reboot, a reset, the program, a look, nothing; only the first two put the card out of service."""
    fault = judge_xid(number, text)
    assert fault.remedy is remedy
    assert fault.quarantines == (remedy in {Remedy.REBOOT, Remedy.RESET})
    assert fault.number == number
    assert fault.meaning


def test_a_reason_tells_the_number_and_the_proposal():
    """It begins with the number, by which it is known as a fault of the card itself."""
    reason = judge_xid(79).reason
    assert reason == "Xid 79: the card has fallen off the bus; reboot the host, then lxgpu gpu open"
    assert by_fault(reason)
    assert not by_fault("held by python3 (4242)")
    assert not by_fault("")


def test_of_two_faults_the_graver_stands_first():
    """In whatever order they came; a fence's words stay behind, and the same again changes nothing."""
    reset, reboot = judge_xid(48), judge_xid(79)
    assert worse("", reset) == reset.reason
    assert worse(reset.reason, reset) == reset.reason
    assert worse(reset.reason, reboot).startswith(reboot.reason)
    assert "Xid 48" in worse(reset.reason, reboot)
    assert worse(reboot.reason, reset) == reboot.reason
    assert worse("held by python3 (4242)", reset) == f"{reset.reason} (held by python3 (4242))"
    twice = worse(worse(reset.reason, reboot), reset)
    assert twice == worse(reset.reason, reboot)
