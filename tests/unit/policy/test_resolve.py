"""What people type finds one card, or an error that says why not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from fakes.site import make_gpus

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import Card
from lxgpu.policy.resolve import resolve_gpu, resolve_gpus

GPUS = make_gpus(3)
GONE = Card(
    uuid="GPU-dead0000-1111-2222-3333-444444444444",
    host="host1",
    pci="0000:90:00.0",
    model="NVIDIA A100",
    memory_bytes=None,
    seen_at=datetime(2027, 1, 1, tzinfo=UTC),
)


@pytest.mark.parametrize(
    "text",
    [
        "GPU-00000002-1111-2222-3333-444444444444",
        "GPU-00000002",
        "gpu-00000002",
        "0000:12:00.0",
        "00000000:12:00.0",
        "12:00.0",
        "12:00",
    ],
)
def test_every_way_to_name_a_card_finds_it(text: str):
    """UUID, its beginning, and the address as nvidia-smi, LXD and lspci write it name the same card."""
    assert resolve_gpu(GPUS, (), text) == GPUS[1].uuid


def test_a_card_that_is_gone_keeps_its_name():
    """A dead card can still be named, by UUID and by its last address, so that it can be given back."""
    assert resolve_gpu(GPUS, [GONE], "GPU-dead") == GONE.uuid
    assert resolve_gpu(GPUS, [GONE], "90:00.0") == GONE.uuid


def test_an_address_names_the_card_that_sits_there_now():
    """A card remembered at an address that another one has taken is not meant by that address."""
    moved = replace(GONE, pci=GPUS[0].pci)
    assert resolve_gpu(GPUS, [moved], GPUS[0].pci) == GPUS[0].uuid


@pytest.mark.parametrize(("text", "code"), [("GPU-0", "usage"), ("GPU-", "no_such_gpu"), ("7", "no_such_gpu")])
def test_what_names_no_card_or_several_is_refused(text: str, code: str):
    """A beginning that several cards share is asked about, and too little is no name at all."""
    with pytest.raises(LxgpuError) as caught:
        resolve_gpu(GPUS, [GONE], text)
    assert caught.value.code == code


def test_all_wrong_names_are_told_at_once():
    """Two wrong names are told in one error; the same card named twice counts once."""
    with pytest.raises(LxgpuError, match=r"GPU-f00d, 99:00\.0"):
        resolve_gpus(GPUS, (), ["GPU-f00d", GPUS[0].uuid, "99:00.0"])
    assert resolve_gpus(GPUS, (), [GPUS[0].pci, GPUS[0].uuid]) == (GPUS[0].uuid,)
