"""With a container's disk full, LXD applies what it answers with an error: a user must not keep a card that way."""

from __future__ import annotations

from pathlib import Path

from fakes.faults import Fault
from fakes.site import make_site, newcomer

from lxgpu.services import lending
from lxgpu.services.verify import verify


def test_every_write_answers_with_an_error_and_the_card_is_taken_all_the_same(tmp_path: Path) -> None:
    """Release judges by what it reads, in one go, barriers included."""
    site = make_site(tmp_path, gpus=1)
    newcomer(site, "alice", gpus=1)
    for _ in range(40):
        site.engine.inject(Fault.APPLIED_ERROR)
    lending.release(site, "alice", count=None, busy=True)
    records = site.inventory.read()
    assert not records.assignments
    assert not [row for row in records.operations if row.live]
    assert not verify(site)
