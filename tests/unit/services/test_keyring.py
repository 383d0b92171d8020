"""Keys out of a person's home, which root reads and the person writes."""

from __future__ import annotations

import os
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.site import make_site

from lxgpu.errors import LxgpuError
from lxgpu.services import keyring
from lxgpu.services.keyring import own_text

LINE = "ssh-ed25519 AAAA laptop\n"
THEIRS, OTHERS = 54321, 54322


def owned(path: Path, uid: int, *, mode: int = 0o600) -> Path:
    """A file of somebody's."""
    path.write_text(LINE)
    path.chmod(mode)
    os.chown(path, uid, uid)
    return path


def test_their_own_file_is_read(tmp_path: Path) -> None:
    """Also through a link of theirs; and there may be none at all."""
    keys = owned(tmp_path / "keys", THEIRS)
    link = tmp_path / "authorized_keys"
    link.symlink_to(keys)
    assert own_text(link, uid=THEIRS) == LINE
    assert own_text(tmp_path / "none", uid=THEIRS) == ""
    assert own_text(keys / "below", uid=THEIRS) == ""
    assert own_text(owned(tmp_path / "shared", OTHERS, mode=0o644), uid=THEIRS) == LINE


@pytest.mark.timeout(10)
@pytest.mark.parametrize("what", ["secret", "link", "pipe", "device", "folder", "loop"])
def test_what_is_not_theirs_is_refused(tmp_path: Path, what: str) -> None:
    """No secret of another is read through a link, and no pipe or device holds lxgpu up."""
    place = tmp_path / "authorized_keys"
    if what == "secret":
        owned(place, OTHERS)
    elif what == "link":
        place.symlink_to(owned(tmp_path / "secret", 0))
    elif what == "pipe":
        os.mkfifo(place)
        os.chown(place, THEIRS, THEIRS)
    elif what == "device":
        place.symlink_to("/dev/zero")
    elif what == "folder":
        place.mkdir()
    else:
        place.symlink_to(place)
    with pytest.raises(LxgpuError) as caught:
        own_text(place, uid=THEIRS)
    assert caught.value.code == "not_allowed"


LDIF = """dn: uid=alice,ou=people,dc=lab,dc=example
sshPublicKey: {plain}
sshPublicKey:: {packed}

"""


@pytest.fixture
def ldap(tmp_path: Path) -> Path:
    """The example of a keys command, with a directory that answers what `ldif` holds and notes what it is asked."""
    program = tmp_path / "ldapsearch"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" >>"$0.asked"\ncat "$0.ldif"\nexit $(cat "$0.status")\n')
    program.chmod(0o755)
    (tmp_path / "ldapsearch.status").write_text("0")
    return program


def _keys(site, ldap, name):
    """What a container for that person would let in."""
    script = Path(__file__).parents[3] / "packaging" / "keys-from-ldap"
    words = ("/usr/bin/env", f"PATH={ldap.parent}:{os.environ['PATH']}", str(script))
    return keyring.keys_for(replace(site, settings=replace(site.settings, keys_command=words)), name)


def test_the_example_of_a_keys_command_asks_a_directory(tmp_path, ldap):
    """Keys as they are and packed ones; the name stands in the question as it is."""
    site = make_site(tmp_path)
    plain, packed = (site.login.new_key(comment)[1] for comment in ("laptop", "office"))
    text = LDIF.format(plain=plain, packed=b64encode(f"{packed}\n".encode()).decode())
    (tmp_path / "ldapsearch.ldif").write_text(text)
    assert [key.comment for key in _keys(site, ldap, "alice")] == ["laptop", "office"]
    assert "(uid=alice)" in (tmp_path / "ldapsearch.asked").read_text().splitlines()


def test_a_directory_that_fails_is_an_error_and_no_way_in(tmp_path, ldap):
    """No pair is made for somebody whose keys are only out of reach, and nobody asks for what is no name."""
    site = make_site(tmp_path)
    (tmp_path / "ldapsearch.ldif").write_text("")
    (tmp_path / "ldapsearch.status").write_text("52")
    for name in ("alice", "alice)(uid=*", "-x"):
        with pytest.raises(LxgpuError) as raised:
            _keys(site, ldap, name)
        assert raised.value.code == "unavailable"
    assert "*" not in (tmp_path / "ldapsearch.asked").read_text()
