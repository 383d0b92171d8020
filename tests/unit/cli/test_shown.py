"""Cards by one short name and times in the lab's zone, wherever people read them; programs get the whole of both."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from dealings import give, policy, type_at
from fakes.site import make_site, newcomer

from lxgpu.cli import main


@pytest.fixture
def lxgpu(tmp_path, monkeypatch, capsys):
    """Lxgpu typed where alice holds one of two cards."""
    (tmp_path / "state").mkdir()
    site = make_site(tmp_path, gpus=2, policy=replace(policy(), timezone="Asia/Shanghai"))
    newcomer(site, "alice")
    give(site, "alice", 1)
    type_at(site, monkeypatch)

    def typed(*words):
        ended = main.run(words)
        shown = capsys.readouterr()
        assert ended == 0, shown.err
        return shown

    typed.site = site
    return typed


@pytest.mark.parametrize(
    "words", [("show", "alice"), ("why", "alice"), ("why", "GPU-00000001"), ("why", "GPU-00000002")]
)
def test_a_card_is_called_by_its_short_name_for_people_and_whole_for_programs(lxgpu, words):
    """40 characters are no name."""
    whole = [gpu.uuid for gpu in lxgpu.site.engine.cards]
    for form in ("table", "wide"):
        out = lxgpu(*words, "-o", form).out
        assert not [uuid for uuid in whole if uuid in out], out
    assert "GPU-00000001" in lxgpu("show", "alice").out
    assert whole[0] in lxgpu("show", "alice", "-o", "json").out


def test_a_link_says_until_when_in_the_labs_zone(lxgpu):
    """With the zone's word, also beside the bare address."""
    told = lxgpu("web", "--link", "alice")
    assert told.out.startswith("http://127.0.0.1:8470/in#")
    assert " CST;" in told.err
    wide = lxgpu("web", "--link", "-o", "wide").out
    assert "CST" in wide
    assert "UTC" not in told.err + wide
    (row,) = json.loads(lxgpu("web", "--link", "alice", "-o", "json").out)["items"]
    assert row["expires"].endswith("Z")


def test_a_rehearsed_link_or_end_makes_nothing(lxgpu):
    """`--dry-run` shows the plan: no text, no pass, and a session that is there stays."""
    lxgpu("web", "--link", "alice")
    lxgpu("keys", "invite", "carol")
    before = (lxgpu.site.settings.state_dir / "passes.json").read_bytes()
    for words, step in (
        (("web", "--link", "alice"), "link"),
        (("web", "--close", "alice"), "close"),
        (("keys", "invite", "carol"), "invite"),
        (("keys", "invite", "carol", "--withdraw"), "withdraw"),
    ):
        assert step in lxgpu(*words, "--dry-run").out
    assert (lxgpu.site.settings.state_dir / "passes.json").read_bytes() == before
