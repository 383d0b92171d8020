"""Keys out of a person's home, which root reads and the person writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lxgpu.errors import LxgpuError
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
