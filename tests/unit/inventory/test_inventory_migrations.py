"""The schema's steps: each once, whole or not at all, with a copy of what was there before."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import inventory_rows as make
import pytest

from lxgpu.errors import LxgpuError
from lxgpu.inventory import migrations
from lxgpu.inventory.rows import tables
from lxgpu.inventory.store import open_inventory

FIRST = """
CREATE TABLE parents (name TEXT PRIMARY KEY);
CREATE TABLE children (name TEXT PRIMARY KEY, parent TEXT REFERENCES parents (name));
-- a trigger has semicolons of its own
CREATE TRIGGER no_x BEFORE INSERT ON parents WHEN NEW.name = 'x' BEGIN
  SELECT RAISE(ABORT, 'no; x');
END;
"""
SECOND = "INSERT INTO parents VALUES ('a;b');\nINSERT INTO children VALUES ('c', 'a;b');\n"
BROKEN = "CREATE TABLE half (a);\nINSERT INTO nowhere VALUES (1);\n"


@pytest.fixture
def folder(tmp_path):
    """A folder of two steps."""
    place = tmp_path / "sql"
    place.mkdir()
    (place / "001_first.sql").write_text(FIRST)
    (place / "002_second.sql").write_text(SECOND)
    (place / "README").write_text("no step")
    return place


@pytest.fixture
def path(tmp_path) -> Path:
    """Where the database is to be."""
    return tmp_path / "some.db"


@pytest.fixture
def database(path):
    """A connection as the inventory has it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        yield connection


def steps(folder):
    """The steps as they are in the folder now."""
    migrations.known.cache_clear()
    return migrations.known(folder)


def there(database):
    """The tables and how many steps are recorded."""
    query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'migrations' ORDER BY name"
    names = [name for (name,) in database.execute(query)]
    return names, [number for (number,) in database.execute("SELECT number FROM migrations ORDER BY number")]


def test_every_step_is_applied_once(folder, database, path):
    """In their order, with a record of each; a second run has nothing to do."""
    assert [step.name for step in migrations.pending(database, path, steps(folder))] == ["first", "second"]
    assert migrations.migrate(database, path, steps(folder)) == 2
    assert there(database) == (["children", "parents"], [1, 2])
    assert database.execute("SELECT * FROM children").fetchall() == [("c", "a;b")]
    assert migrations.migrate(database, path, steps(folder)) == 0
    assert list(migrations.pending(database, path, steps(folder))) == []


def test_looking_for_pending_steps_changes_nothing(folder, database, path):
    """An empty file stays empty."""
    migrations.pending(database, path, steps(folder))
    assert path.stat().st_size == 0


def test_a_failing_step_leaves_those_before_it(folder, database, path):
    """Step 3 fails: 1 and 2 stay, of 3 there is nothing, and once it is mended it is applied."""
    (folder / "003_broken.sql").write_text(BROKEN)
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        migrations.migrate(database, path, steps(folder))
    assert there(database) == (["children", "parents"], [1, 2])
    assert not database.in_transaction
    assert [step.number for step in migrations.pending(database, path, steps(folder))] == [3]
    (folder / "003_broken.sql").write_text("CREATE TABLE half (a);\n")
    assert migrations.migrate(database, path, steps(folder)) == 1
    assert there(database) == (["children", "half", "parents"], [1, 2, 3])


def test_a_step_may_not_leave_orphans(folder, database, path):
    """References are checked before the commit, since they are off while tables are remade; then they are on again."""
    (folder / "003_orphan.sql").write_text("DELETE FROM parents;\n")
    with pytest.raises(LxgpuError, match="without their parent"):
        migrations.migrate(database, path, steps(folder))
    assert there(database)[1] == [1, 2]
    with pytest.raises(sqlite3.IntegrityError):
        database.execute("INSERT INTO children VALUES ('d', 'nobody')")


def test_what_was_there_is_copied_first(folder, database, path):
    """Before the first new step on a file in use there is a copy, named after that step; a new file needs none."""
    migrations.migrate(database, path, steps(folder))
    assert list(path.parent.glob("*.before-*")) == []
    (folder / "003_third.sql").write_text("DROP TABLE children;\n")
    (folder / "004_fourth.sql").write_text("DROP TABLE parents;\n")
    migrations.migrate(database, path, steps(folder))
    (copy,) = path.parent.glob("*.before-*")
    assert (copy.name, copy.stat().st_mode & 0o777) == ("some.db.before-003", 0o600)
    with closing(sqlite3.connect(copy)) as before:
        assert there(before) == (["children", "parents"], [1, 2])
    assert there(database) == ([], [1, 2, 3, 4])


def test_steps_are_numbered_without_gaps(folder):
    """A missing or double number is a fault of the program, found at once."""
    (folder / "004_gap.sql").write_text("")
    with pytest.raises(LxgpuError, match="not numbered"):
        steps(folder)


@pytest.mark.parametrize(
    ("script", "count"),
    [("", 0), ("-- only a word\n", 0), ("SELECT 1;\nSELECT 2;\n", 2), ("SELECT ';';", 1), (FIRST, 3)],
)
def test_a_script_is_split_into_its_statements(script, count):
    """Semicolons in texts and triggers end nothing."""
    assert len(list(migrations.statements(script))) == count


def test_half_a_statement_is_a_fault():
    """A forgotten semicolon does not lose a statement."""
    with pytest.raises(LxgpuError, match="middle of a statement"):
        list(migrations.statements("SELECT 1;\nSELECT 2\n"))


def test_the_schema_has_the_fields_of_the_model(tmp_path):
    """Each table has exactly the columns that its rows are written to."""
    with open_inventory(tmp_path / "inventory.db") as inventory, closing(sqlite3.connect(inventory.path)) as raw:
        for table in tables().values():
            found = [name for (name,) in raw.execute("SELECT name FROM pragma_table_info(?)", (table.name,))]
            assert found == list(table.columns)
            keys = raw.execute("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (table.name,))
            assert tuple(name for (name,) in keys) == table.key


def test_readings_of_living_rows_use_an_index(tmp_path):
    """Years of history in the table do not slow a reading down: closed rows are not looked at."""
    with open_inventory(tmp_path / "inventory.db") as inventory:
        with inventory.write(actor="root", now=make.T0) as tx:
            tx.put(make.assignment())
        with closing(sqlite3.connect(inventory.path)) as raw:
            for name in ("assignments", "operations"):
                table = next(each for each in tables().values() if each.name == name)
                query = f"EXPLAIN QUERY PLAN SELECT * FROM {name} WHERE {table.living} ORDER BY id"  # noqa: S608 -- our own names
                plan = " ".join(str(row[3]) for row in raw.execute(query))
                assert "USING INDEX" in plan
                assert "living" in plan
                assert "B-TREE" not in plan
