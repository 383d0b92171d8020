"""Deciding against one version: nobody waits for it, two at once see each other, and nobody is passed over for ever."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from fakes.site import lab_policy, make_site, newcomer
from inventory_rows import person

from lxgpu.errors import LxgpuError
from lxgpu.model.quota import Group, Total
from lxgpu.model.request import ReserveRequest
from lxgpu.model.snapshot import Observation
from lxgpu.services.extending import extend
from lxgpu.services.observe import of
from lxgpu.services.oneversion import TRIES, on_one_version
from lxgpu.services.reserve import cancel, edit, reserve

SEEN = Observation("host1", "", datetime(2027, 3, 1, tzinfo=UTC))


class Watched:
    """An inventory that knows whether anybody is in a write at the moment."""

    def __init__(self, inventory):
        self.inventory, self.writing = inventory, False

    def __getattr__(self, name):
        return getattr(self.inventory, name)

    def write(self, **how):
        """A write, as long as it lasts."""
        return _Write(self, self.inventory.write(**how))


class _Write:
    def __init__(self, owner, inner):
        self._owner, self._inner = owner, inner

    def __enter__(self):
        made = self._inner.__enter__()
        self._owner.writing = True
        return made

    def __exit__(self, *end):
        self._owner.writing = False
        return self._inner.__exit__(*end)


@pytest.fixture
def site(tmp_path):
    """Alice has a card; the policy names a Unix group, and asking who is in it is noted."""
    policy = replace(lab_policy(), groups={"vision": Group("vision", members=("@vision",), total=Total(limit=8))})
    made = make_site(tmp_path, policy=policy)
    watched = Watched(made.inventory)
    asked = []

    def unix_groups(name):
        asked.append((name, watched.writing))
        return frozenset({"vision"})

    made = replace(made, inventory=watched, unix_groups=unix_groups)
    newcomer(made, "alice", gpus=1)
    newcomer(made, "bob")
    asked.clear()
    return made, asked


def test_nobody_is_looked_up_while_others_wait_for_the_write_lock(site):
    """Reserving, changing, cancelling, extending: LDAP may take seconds, and the inventory is free meanwhile."""
    made, asked = site
    row = reserve(made, ReserveRequest(instance="bob", owner="bob", gpus=1, duration_s=600)).reservations[0]
    edit(made, row.id, note="a note")
    cancel(made, row.id)
    extend(made, "alice", seconds=3600)
    assert {name for name, _ in asked} == {"alice", "bob"}
    assert not any(writing for _, writing in asked)


@pytest.mark.parametrize("others", [0, 1, TRIES - 1, TRIES, 50])
def test_who_is_overtaken_decides_again_and_in_the_end_under_the_lock(site, others):
    """However often others write in between: what is written was decided on what is there."""
    made, _ = site
    left = iter(range(others))
    seen = []

    def judge(records):
        if not made.inventory.writing and next(left, None) is not None:
            with made.write() as tx:
                tx.put(person(f"guest{len(seen)}", uid=20000 + len(seen), ssh_port=23000 + len(seen)))
        return of(made, SEEN, records)

    def act(tx, now):
        seen.append(len(now.records.persons))
        tx.put(person("zoe", uid=30000 + seen[-1], ssh_port=24000))
        tx.event("counted", "zoe", detail={"persons": seen[-1]})
        return seen[-1]

    answer = on_one_version(made, judge, act)
    zoe = made.inventory.read().person("zoe")
    assert zoe.uid == 30000 + answer == 30000 + len(made.inventory.read().persons) - 1
    assert len(seen) == min(others, TRIES) + 1
    assert [event.detail for event in made.inventory.events() if event.kind == "counted"] == [{"persons": answer}]


def test_what_is_refused_writes_nothing(site):
    """Half of it neither."""
    made, _ = site
    before = made.inventory.read()

    def act(tx, _now):
        tx.put(person("zoe"))
        raise LxgpuError("over_limit", "no more")

    with pytest.raises(LxgpuError, match="no more"):
        on_one_version(made, lambda records: of(made, SEEN, records), act)
    assert made.inventory.read() == before
