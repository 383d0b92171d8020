"""A rule that was changed behind our back is found, and a restart mends it."""

from __future__ import annotations

from fakes.site import make_site, newcomer

from lxgpu.services import power
from lxgpu.services.verify import verify


def test_a_rule_that_leaves_cards_open(tmp_path):
    """Without its lines in raw.lxc a container could open cards that it does not hold, from its next start on."""
    site = make_site(tmp_path, gpus=2)
    newcomer(site, "alice", gpus=1)
    assert verify(site) == ()
    held = site.inventory.read().held_by("alice")[0].slot.gpu
    other = next(gpu.uuid for gpu in site.engine.gpus() if gpu.uuid != held)
    machine = site.engine.machines["default", "alice"]
    machine.config["raw.lxc"] = "lxc.mount.auto = proc"
    (found,) = verify(site)
    assert (found.code, found.subject) == ("open_rule", "alice")
    assert other in found.text
    assert held not in found.text
    power.restart(site, "alice", force=False)
    assert verify(site) == ()
