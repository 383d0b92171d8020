"""The inventory as YAML and back."""

from __future__ import annotations

import inventory_rows as make
import inventory_strategies as some
from hypothesis import given, settings
from hypothesis import strategies as st

from lxgpu.errors import LxgpuError
from lxgpu.inventory.memory import MemoryInventory
from lxgpu.inventory.transfer import Contents, export_contents, import_yaml
from lxgpu.model.operation import Event, Identity
from lxgpu.model.snapshot import Records

events = st.builds(
    Event,
    at=some.instants,
    actor=some.texts,
    kind=some.texts,
    subject=some.texts,
    rule=some.texts,
    detail=some.json_objects,
)


def filled(rows):
    """Records of all the rows that the rules let in."""
    inventory = MemoryInventory()
    with inventory.write(actor="root", now=make.T0) as tx:
        tx.put(*(make.person(name) for name in some.NAMES))
        for row in rows:
            try:
                tx.put(row)
            except LxgpuError:
                continue
    return inventory.read()


@given(
    records=st.lists(some.rows, max_size=12).map(filled),
    identity=st.none() | st.builds(Identity, some.texts, st.integers(0, 2**40)),
    history=st.lists(events, max_size=3),
)
@settings(deadline=None)
def test_export_and_import_give_the_same(records, identity, history):
    """Whatever the inventory can hold, the file gives back; only operations under way stay out."""
    records = Records(
        version=records.version,
        identity=identity,
        persons=records.persons,
        keys=records.keys,
        instances=records.instances,
        assignments=records.assignments,
        slots=records.slots,
        cards=records.cards,
    )
    contents = Contents(records, tuple(history))
    text = export_contents(contents)
    assert import_yaml(text) == contents
    assert export_contents(import_yaml(text)) == text


@given(st.text(max_size=200))
def test_any_text_is_contents_or_a_list_of_mistakes(text):
    """No text brings the reader down."""
    try:
        import_yaml(text)
    except LxgpuError as error:
        assert (error.code, bool(error.problems)) == ("bad_file", True)  # noqa: PT017 -- most texts, not all, are mistakes
