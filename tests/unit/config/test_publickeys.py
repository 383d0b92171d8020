"""Public keys as people hand them in; the cases are in tests/cases/keys/."""

from __future__ import annotations

import re
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.config.keys import parse_keys
from lxgpu.errors import LxgpuError

CASES = Path(__file__).resolve().parents[2] / "cases" / "keys"


def _blob(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _point(size: int) -> bytes:
    return b"\x04" + bytes(range(1, size))


BLOBS = {
    "ed": _blob(b"ssh-ed25519", bytes(range(32))),
    "ed2": _blob(b"ssh-ed25519", bytes(range(32, 64))),
    "rsa": _blob(b"ssh-rsa", b"\x01\x00\x01", b"\x00" + b"\xc5" * 256),
    "rsa512": _blob(b"ssh-rsa", b"\x01\x00\x01", b"\x00" + b"\xc5" * 64),
    "p256": _blob(b"ecdsa-sha2-nistp256", b"nistp256", _point(65)),
    "p384": _blob(b"ecdsa-sha2-nistp384", b"nistp384", _point(97)),
    "p521": _blob(b"ecdsa-sha2-nistp521", b"nistp521", _point(133)),
    "sked": _blob(b"sk-ssh-ed25519@openssh.com", bytes(range(32)), b"ssh:"),
    "skp256": _blob(b"sk-ecdsa-sha2-nistp256@openssh.com", b"nistp256", _point(65), b"ssh:"),
    "mldsa": _blob(b"ssh-mldsa44@example.com", b"x" * 40),
    "edcut": _blob(b"ssh-ed25519", bytes(range(32)))[:30],
    "edshort": _blob(b"ssh-ed25519", bytes(range(31))),
}


def _filled(text: str) -> str:
    """A text of the cases with its keys put in."""
    return re.sub(r"<([a-z0-9]+)>", lambda match: b64encode(BLOBS[match[1]]).decode(), text)


def _cases() -> list[Any]:
    found = []
    for path in sorted(CASES.glob("*.yaml")):
        found += [pytest.param(case, id=case["id"]) for case in yaml.safe_load(path.read_text(encoding="utf-8"))]
    return found


GOOD = [case for case in _cases() if "keys" in case.values[0]]
BAD = [case for case in _cases() if "problems" in case.values[0]]


@pytest.mark.parametrize("case", GOOD)
def test_good_keys_come_out_whole(case):
    """Type, key, options and comment as they were; lines mended."""
    assert [key.text for key in parse_keys(_filled(case["text"]))] == [_filled(line) for line in case["keys"]]


@pytest.mark.parametrize("case", GOOD)
def test_what_comes_out_goes_in_again(case):
    """What comes out is read as it was written, each key on a line of its own, as text and in YAML."""
    keys = parse_keys(_filled(case["text"]))
    lines = [key.text for key in keys]
    assert [key.text for key in parse_keys("\n".join(lines))] == lines
    assert yaml.safe_load(yaml.safe_dump({"keys": lines}, allow_unicode=True))["keys"] == lines


@pytest.mark.parametrize("case", BAD)
def test_every_bad_line_is_told_at_once_by_its_number(case):
    """The list is complete, and nothing of a private key is in it."""
    with pytest.raises(LxgpuError) as raised:
        parse_keys(_filled(case["text"]))
    error = raised.value
    assert error.code == "bad_key"
    assert case.get("brief", "is no list of public keys") in error.brief
    told = [f"{problem.where.removeprefix('line ')}: {problem.text}" for problem in error.problems]
    assert len(told) == len(case["problems"]), "\n".join(told)
    for text, start in zip(told, case["problems"], strict=True):
        assert text.startswith(start)
    if "secret" in case:
        shown = " ".join([error.brief, error.fix, *error.why, *told, *(problem.excerpt for problem in error.problems)])
        assert case["secret"] not in shown


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_keys_of_openssh_have_the_fingerprint_that_openssh_prints(kind, tmp_path):
    """Real pairs by ssh-keygen: the public part is taken, the private one refused."""
    path = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "bob: #1", "-f", str(path)], check=True)
    (key,) = parse_keys(path.with_suffix(".pub").read_text(encoding="utf-8"))
    printed = subprocess.run(["ssh-keygen", "-lf", str(path)], check=True, capture_output=True, text=True).stdout
    assert key.fingerprint in printed.split()
    assert key.comment == "bob: #1"
    with pytest.raises(LxgpuError, match="holds a private key"):
        parse_keys(path.read_text(encoding="utf-8"))


def test_a_file_is_named_with_the_line():
    """Which file, which line."""
    with pytest.raises(LxgpuError) as raised:
        parse_keys("\nhello\n", name="bob.pub")
    assert raised.value.problems[0].where == "bob.pub:2"


LINES = st.sampled_from(
    [
        "ssh-ed25519 ",
        _filled("<ed>"),
        _filled("<rsa>"),
        "ssh-rsa ",
        ' from="',
        '"',
        "\\",
        ",",
        "\n",
        "\r\n",
        "#",
        " ",
        "bob",
        "-----BEGIN ",
    ]
)


@given(st.lists(LINES | st.text(max_size=5), max_size=12).map("".join))
def test_any_text_is_keys_or_an_error_for_people(text):
    """No text makes anything but keys that read back as they are, or a `bad_key`."""
    try:
        keys = parse_keys(text)
    except LxgpuError as error:
        keys, code = (), error.code
    else:
        code = "bad_key"
    again = parse_keys("\n".join(key.text for key in keys)) if keys else ()
    assert code == "bad_key"
    assert [key.text for key in again] == [key.text for key in keys]
