"""The login that proves a new container: what a starting system does to it, and what one that stays shut tells."""

from __future__ import annotations

import pytest
from fakes.site import make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import InstanceState
from lxgpu.ports import Ran


@pytest.fixture
def site(tmp_path):
    """A host with cards and nobody on it."""
    return make_site(tmp_path)


def when_the_script_runs(site, act):
    """Have `act(machine, count)` happen after each run of the account's script."""
    usual, count = site.engine.programs["sh"], iter(range(1, 1000))

    def run(argv, stdin):
        ran = usual(argv, stdin)
        if "authorized_keys.d/.new" in argv[2]:
            act(site.engine.machines["default", site.engine.ran[-1][0]], next(count))
        return ran

    site.engine.programs["sh"] = run


def test_what_booting_takes_away_is_given_again(site):
    """What is mounted in the midst of the start hides the key once: the container is made all the same."""
    given = []

    def hide_the_first(machine, count):
        given.append(machine.files.pop("/run/lxgpu/alice.keys") if count == 1 else None)

    when_the_script_runs(site, hide_the_first)
    assert newcomer(site, "alice").state is InstanceState.READY
    assert len(given) == 2
    assert "/run/lxgpu/alice.keys" not in site.engine.machines["default", "alice"].files


def test_a_door_that_stays_shut_is_told_with_what_is_found_inside(site):
    """The key never gets there: the making is undone, and the error says what the system says of itself."""
    usual = site.engine.programs["sh"]

    def run(argv, stdin):
        if argv[3:] == ["look", "alice"]:
            return Ran(0, "it is still starting: /run/nologin is there\n/run/lxgpu/alice.keys is not there\n")
        return usual(argv, stdin)

    site.engine.programs["sh"] = run
    when_the_script_runs(site, lambda machine, _: machine.files.pop("/run/lxgpu/alice.keys"))
    with pytest.raises(LxgpuError) as raised:
        newcomer(site, "alice")
    assert "inside: it is still starting: /run/nologin is there" in raised.value.why
    assert ("default", "alice") not in site.engine.machines


def test_a_system_that_cannot_be_asked_hides_no_cause(site):
    """When nothing runs inside any more, the refusal is what is told."""
    usual = site.engine.programs["sh"]

    def run(argv, stdin):
        if argv[3:] == ["look", "alice"]:
            raise LxgpuError("engine", "nothing runs inside")
        return usual(argv, stdin)

    site.engine.programs["sh"] = run
    when_the_script_runs(site, lambda machine, _: machine.files.pop("/run/lxgpu/alice.keys"))
    with pytest.raises(LxgpuError) as raised:
        newcomer(site, "alice")
    assert raised.value.why == ("key not accepted",)
