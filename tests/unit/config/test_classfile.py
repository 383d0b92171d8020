"""class.csv: a whole course in one file, right or refused as a whole."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.config.classfile import COLUMNS, parse_class
from lxgpu.config.source import Source, decode, read_source
from lxgpu.errors import LxgpuError

NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)
ZONE = ZoneInfo("Asia/Shanghai")


def _key(last: int) -> str:
    blob = b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(31) + bytes([last])
    return f"ssh-ed25519 {b64encode(blob).decode()} key{last}"


def _parse(text: str):
    return parse_class(Source(name="class.csv", text=text), now=NOW, zone=ZONE)


def _told(text: str) -> list[str]:
    with pytest.raises(LxgpuError) as raised:
        _parse(text)
    assert raised.value.code == "bad_file"
    return [f"{problem.where.removeprefix('class.csv:')}: {problem.text}" for problem in raised.value.problems]


def test_all_columns():
    """Each column arrives in its kind; dates count in the lab's zone."""
    head = ",".join(COLUMNS)
    row = f"ann-2,{_key(1)},2,normal,cuda,base,RTX*,ann,2027-07-01,4,16GiB,100GiB,4096"
    (found,) = _parse(f"{head}\n{row}\n")
    assert (found.name, found.owner, found.gpus, found.class_name) == ("ann-2", "ann", 2, "normal")
    assert (found.profile, found.image, found.model, found.line) == ("cuda", "base", "RTX*", 2)
    assert found.expires == datetime(2027, 6, 30, 16, tzinfo=UTC)
    assert (found.terms.cpu, found.terms.memory_bytes, found.terms.disk_bytes) == (4, 16 * 2**30, 100 * 2**30)
    assert found.terms.processes == 4096
    assert [key.text for key in found.keys] == [_key(1)]


def test_what_is_left_out_is_not_said():
    """A name is enough; the owner is the same then."""
    (found,) = _parse("name\nann\n")
    assert (found.name, found.owner, found.keys, found.gpus, found.expires) == ("ann", "ann", (), 0, None)
    assert found.terms.said() == {}


@pytest.mark.parametrize(
    "raw",
    [
        f"name,key\nann,{_key(1)}\nbob,{_key(2)}\n".encode(),
        f"name,key\r\nann,{_key(1)}\r\nbob,{_key(2)}".encode("utf-8-sig"),
        f'"Name"; Key\n\n"ann";"{_key(1)}"\n ;\nbob ;{_key(2)}\n'.encode(),
        f"key,name\n{_key(1)}, ann\n\n\n{_key(2)},bob\n\n".encode(),
    ],
    ids=["plain", "excel", "semicolons", "other order"],
)
def test_spreadsheets_write_csv_in_many_ways(raw):
    """Byte order mark, CRLF, quotes, semicolons, empty rows and lines are all the same."""
    found = parse_class(decode(raw, name="class.csv"), now=NOW, zone=ZONE)
    assert [(row.name, row.keys[0].text) for row in found] == [("ann", _key(1)), ("bob", _key(2))]


def test_several_keys_stand_inside_quotes():
    """One a line; the rows below keep their line numbers."""
    text = f'name,key\nann,"{_key(1)}\n{_key(2)}"\nbob,\n666,\n'
    assert _told(text)[0].startswith("5:1: name: '666' cannot be a name")
    ann, bob = _parse(text.replace("666,\n", ""))
    assert [key.text for key in ann.keys] == [_key(1), _key(2)]
    assert (bob.line, bob.keys) == (4, ())


def test_every_bad_row_is_told_at_once():
    """The complete list, each with its line and column name."""
    told = _told(
        "name,key,gpus,expires,memory,owner\n"
        f"ann,{_key(1)},1,2027-07-01,4GiB,\n"
        "bob_b,ssh-rsa x,-1,2027-02-30,4,root\n"
        "ann,,,,,\n"
        ",,1,,,\n"
        "carol,,1\n"
        "dave,,1,,,,,\n"
        "eve,,,2027-03-01,,\n"
        "root,,,,,\n"
        "666,-----BEGIN OPENSSH PRIVATE KEY-----,,,,\n"
    )
    wanted = [
        "3:1: name: 'bob_b' cannot be a name: it has '_' in it",
        "3:1: owner: 'root' cannot be a name: it is an account of the system",
        "3:1: key: the text is no list of public keys; the key is no base64",
        "3:1: gpus: '-1' is no whole number from 0 on",
        "3:1: expires: '2027-02-30' is no time",
        "3:1: memory: '4' is no size",
        "4:1: name: ann stands in line 2 already",
        "5:1: name: the name is missing",
        "6:1: 3 fields, and the header has 6",
        "7:1: 8 fields, and the header has 6",
        "8:1: expires: 2027-03-01 is over already",
        "9:1: name: 'root' cannot be a name: it is an account of the system",
        "10:1: name: '666' cannot be a name",
        "10:1: key: the text holds a private key; a private key; it must never be given away",
    ]
    assert len(told) == len(wanted), "\n".join(told)
    for text, start in zip(told, wanted, strict=True):
        assert text.startswith(start)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("", "1:1: the header is missing, such as name,key,gpus"),
        ("\n\n", "1:1: the header is missing"),
        ("name\n", "class.csv: there is no row below the header"),
        ("nmae,key\nann,\n", "1:1: unknown column 'nmae'; did you mean name?"),
        ("name,name\nann,bob\n", "1:1: the column name stands twice"),
        ("key\nx\n", "1:1: the column name is missing"),
        ('name,key\nann,"x', "2:1: the row is no CSV: unexpected end of data"),
    ],
)
def test_a_file_that_is_no_class_file(text, start):
    """What is wrong with the whole is told before its rows."""
    assert _told(text)[0].startswith(start)


def test_a_file_is_read_from_its_path(tmp_path):
    """The name in messages is the path given."""
    path = Path(tmp_path / "class.csv")
    path.write_text("name\n666\n", encoding="utf-8")
    with pytest.raises(LxgpuError) as raised:
        parse_class(read_source(path), now=NOW, zone=ZONE)
    assert raised.value.problems[0].where == f"{path}:2:1: name"
    assert raised.value.problems[0].excerpt == "666\n^"


@given(st.text(alphabet='name,key;"\r\n \t1aA\0é', max_size=60))
def test_any_text_is_rows_or_an_error_for_people(text):
    """No text makes anything but rows with good names, or a `bad_file`."""
    code, rows = "bad_file", ()
    try:
        rows = _parse(text)
    except LxgpuError as error:
        code = error.code
    assert code == "bad_file"
    assert len({row.name for row in rows}) == len(rows)
