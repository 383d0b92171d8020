"""The pure parts of the lab: names, cards, subnets, mirrors."""

from __future__ import annotations

import re
from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.errors import LxgpuError
from lxgpu.lab.claims import bridge_name, candidates
from lxgpu.lab.image import find_mirror
from lxgpu.lab.spec import NAME, LabSpec, check_spec, models_of, plan_cards

REAL_UUID = re.compile(r"GPU-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}")
names = st.from_regex(NAME, fullmatch=True)


def _cards_of(spec: LabSpec, taken: frozenset[str] = frozenset()):
    return plan_cards(spec, consoles=tuple(range(20, 20 + len(models_of(spec)))), taken_pci=taken)


@given(name=names, count=st.integers(1, 16), taken=st.frozensets(st.integers(0, 0xEF), max_size=40))
def test_cards_are_distinct(name: str, count: int, taken: frozenset[int]) -> None:
    """No two cards of a lab share an identity or a node, and none has the address of a real device."""
    real = frozenset(f"0000:{bus:02x}:00.0" for bus in taken)
    cards = _cards_of(LabSpec(name=name, gpus=count), real)
    assert len({card.uuid for card in cards}) == len({card.pci for card in cards}) == count
    assert all(REAL_UUID.fullmatch(card.uuid) for card in cards)
    assert not real & {card.pci for card in cards}
    nodes = [node for card in cards for node in card.nodes]
    assert len({node.path for node in nodes}) == len({(node.major, node.minor) for node in nodes}) == len(nodes)


@given(one=names, other=names)
def test_labs_have_their_own_uuids(one: str, other: str) -> None:
    """Cards of labs with different names never have the same UUID; the same name gives the same cards again."""
    first, second = ({card.uuid for card in _cards_of(LabSpec(name=name))} for name in (one, other))
    assert (first == second) if one == other else not first & second


def test_index_minor_and_drm_number_differ() -> None:
    """Nobody gets away with taking the DRM number for the index."""
    for card in _cards_of(LabSpec()):
        assert card.drm_card != f"card{card.index}"


def test_models_repeat() -> None:
    """One model named is for all cards; several are for each, and give the number when none is said."""
    assert [model.name for model in models_of(LabSpec(gpus=3, models=("t4",)))] == ["Tesla T4"] * 3
    assert [model.memory_mib for model in models_of(LabSpec(models=("A100 40GB", "NVIDIA H100 80GB HBM3")))] == [
        40960,
        81559,
    ]
    assert len(models_of(LabSpec())) == 4


@pytest.mark.parametrize(
    ("spec", "code", "words"),
    [
        (LabSpec(name="Lab"), "bad_name", "'Lab'"),
        (LabSpec(name="a" * 25), "bad_name", "1 to 24"),
        (LabSpec(name="../etc"), "bad_name", "../etc"),
        (LabSpec(models=("Voodoo 2",)), "usage", "Voodoo 2"),
        (LabSpec(gpus=0), "usage", "not 0"),
        (LabSpec(gpus=17), "usage", "not 17"),
        (LabSpec(gpus=1, models=("T4", "T4")), "usage", "2 models"),
        (LabSpec(engine="incus"), "usage", "incus"),
        (LabSpec(members=3), "usage", "one host"),
    ],
)
def test_what_cannot_be_is_refused(spec: LabSpec, code: str, words: str) -> None:
    """A wrong wish is refused before anything is made, and the message names it."""
    with pytest.raises(LxgpuError) as caught:
        check_spec(spec)
    assert caught.value.code == code
    assert words in f"{caught.value.brief} {caught.value.why}"


def test_unknown_model_lists_the_known() -> None:
    """Whoever mistypes a model is told all there are."""
    with pytest.raises(LxgpuError) as caught:
        check_spec(LabSpec(models=("RTX 9999",)))
    for name in ("RTX 3090", "RTX 4090", "A100 40GB", "A100 80GB", "H100 80GB", "T4"):
        assert name in caught.value.why[0]


@given(name=names)
def test_subnets_are_private_and_lasting(name: str) -> None:
    """A lab is offered the same subnets each time, all of them /24 in 10.64.0.0/10."""
    offered = list(candidates(name))
    assert offered == list(candidates(name))
    assert all(IPv4Network("10.64.0.0/10").supernet_of(subnet) and subnet.prefixlen == 24 for subnet in offered)
    assert len(set(offered)) > 32


@given(one=names, other=names)
def test_bridge_names_fit_the_kernel(one: str, other: str) -> None:
    """A link's name has at most 15 characters, and labs do not share one."""
    assert len(bridge_name(one)) <= 15
    assert one == other or bridge_name(one) != bridge_name(other)


@pytest.mark.parametrize(
    ("text", "mirror"),
    [
        ("Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\n", "http://mirror.example/debian"),
        ("deb [signed-by=/k.gpg] https://m.example:8080/debian/ bookworm main\n", "https://m.example:8080/debian"),
        (
            "# deb http://old.example/debian bookworm main\ndeb http://new.example/debian x main",
            "http://new.example/debian",
        ),
        ("URIs: http://mirror.example/debian-security\n", None),
        ("deb http://archive.example/ubuntu noble main\n", None),
        ("", None),
    ],
)
def test_mirror_of_apt(text: str, mirror: str | None) -> None:
    """The Debian archive of apt's sources is found; comments, security archives and Ubuntu's are not taken for it."""
    assert find_mirror(text) == mirror
