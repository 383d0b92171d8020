"""The inventory in SQLite and its twin in memory answer alike, whatever is done to them in whatever order."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import inventory_rows as make
import inventory_strategies as some
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lxgpu.errors import LxgpuError
from lxgpu.inventory.memory import MemoryInventory
from lxgpu.inventory.rows import instant, instant_text, tables
from lxgpu.inventory.store import open_inventory
from lxgpu.model.gpu import WHOLE
from lxgpu.model.operation import Identity
from lxgpu.ports import VersionMovedError


class ChangedMindError(Exception):
    """Ends a transaction from inside, as a failure would."""


actions = st.one_of(
    some.rows.map(lambda row: ("put", row)),
    some.rows.map(lambda row: ("put", row)),
    some.rows.map(lambda row: ("drop", row)),
    st.tuples(st.just("event"), some.texts, some.names, some.json_objects),
    st.builds(Identity, some.texts, st.integers(0, 2**40)).map(lambda identity: ("identify", identity)),
    st.just(("look",)),
)


def perform(inventory, script, *, now, expected, fails, forgives):
    """Run a script in one transaction; what came of it, in a form that can be compared."""
    seen = []
    try:
        with inventory.write(actor="root", now=now, expected=expected) as tx:
            for word, *values in script:
                try:
                    if word == "look":
                        seen.append(tx.records)
                    elif word == "event":
                        kind, subject, detail = values
                        tx.event(kind, subject, rule="r", detail=detail)
                    else:
                        getattr(tx, word)(*values)
                except LxgpuError as error:
                    if not forgives:
                        raise
                    seen.append((error.code, error.brief))
            if fails:
                raise ChangedMindError  # noqa: TRY301 -- it has to leave the transaction from inside
    except LxgpuError as error:
        seen.append((error.code, error.brief, error.why, error.fix, error.details))
    except (ChangedMindError, VersionMovedError) as error:
        seen.append(type(error).__name__)
    return seen


class Twins(RuleBasedStateMachine):
    """Does the same to both and compares."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="lxgpu-twins-"))
        self.real = open_inventory(self.folder / "inventory.db")
        self.twin = MemoryInventory()
        self.old_version = 0

    @initialize(which=st.sets(some.names))
    def people(self, which):
        """Begin with some people, or most else would be refused for want of them."""
        for each in (self.real, self.twin):
            with each.write(actor="root", now=make.T0) as tx:
                tx.put(*(make.person(name) for name in sorted(which)))

    @rule(
        script=st.lists(actions, max_size=6),
        now=some.instants,
        expected=st.sampled_from(["any", "any", "any", "now", "old"]),
        fails=st.sampled_from([False, False, False, True]),
        forgives=st.booleans(),
    )
    def write(self, script, now, expected, fails, forgives):
        """The same transaction ends the same way."""
        version = {"any": None, "now": self.real.read().version, "old": self.old_version}[expected]
        self.old_version = self.real.read().version
        came = [
            perform(each, script, now=now, expected=version, fails=fails, forgives=forgives)
            for each in (self.real, self.twin)
        ]
        assert came[0] == came[1]

    @rule()
    def close_and_open(self):
        """Closing the file loses nothing."""
        self.real.close()
        self.real = open_inventory(self.folder / "inventory.db")

    @rule(minutes=st.integers(-1, 7), subject=st.none() | some.names, limit=st.integers(0, 5))
    def ask_history(self, minutes, subject, limit):
        """The same questions about the past have the same answers."""
        moment = make.at(minutes)
        assert self.real.assignments_at(moment) == self.twin.assignments_at(moment)
        asked = {"subject": subject, "since": moment, "limit": limit}
        assert self.real.events(**asked) == self.twin.events(**asked)
        for identifier in ("o1", "o2", "o3"):
            assert self.real.operation(identifier) == self.twin.operation(identifier)

    @invariant()
    def alike(self):
        """Both show the same, and the rules hold in it."""
        records = self.real.read()
        assert records == self.twin.read()
        assert self.real.events() == self.twin.events()
        live = [row for row in records.assignments if row.live]
        assert len({row.slot for row in live}) == len(live)
        for gpu in {row.slot.card for row in live}:
            assert len({row.slot.part == WHOLE for row in live if row.slot.card == gpu}) == 1

    def teardown(self):
        """Take the file away."""
        self.real.check()
        self.real.close()
        shutil.rmtree(self.folder)


TestTwins = Twins.TestCase
TestTwins.settings = settings(max_examples=60, stateful_step_count=12, deadline=None)


@given(some.rows)
def test_any_row_survives_its_encoding(row):
    """A row and what SQLite keeps of it are worth the same."""
    table = tables()[type(row)]
    values = table.encode(row)
    assert len(values) == len(table.columns)
    assert table.decode(values) == row
    assert table.encode(table.decode(values)) == values


@given(some.instants, some.instants)
def test_instants_as_text_keep_their_order(one, other):
    """Comparing the texts, as SQLite does, is comparing the instants, to the microsecond."""
    assert instant(instant_text(one)) == one
    assert (instant_text(one) < instant_text(other)) == (one < other)
