"""Names are refused before any work is done, with the rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.errors import LxgpuError
from lxgpu.model.names import RULE, check_name, check_person, name_fault, person_fault


@pytest.mark.parametrize("name", ["a", "alice", "bob-2", "a-b-c", "x" * 63, "n1", "dev"])
def test_good_names_pass(name):
    """Lower-case letter first, then letters, digits and hyphens, 63 at most."""
    assert check_name(name) == name


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("666demon", "starts with '6'"),
        ("test1.0", "has '.' in it"),
        ("a_b", "has '_' in it"),
        ("bob-", "ends with a hyphen"),
        ("x" * 64, "64 characters, and 63 are the most"),
        ("", "is empty"),
        ("-a", "starts with '-'"),
        ("Alice", "starts with 'A'"),
        ("aLice", "has 'L' in it"),
        ("a b", "has ' ' in it"),
        ("a\n", "has '\\n' in it"),
        ("é", "starts with 'é'"),
        ("aé", "has 'é' in it"),
        ("a٣", "has '٣' in it"),
        ("../a", "starts with '.'"),
        ("trash-bob", "keeps this name for itself"),
        ("lxgpu-template", "keeps this name for itself"),
        ("any", "keeps this name for itself"),
    ],
)
def test_bad_names_are_refused_with_the_rule(name, fault):
    """B47: what is wrong is said, and the rule with it."""
    with pytest.raises(LxgpuError) as raised:
        check_name(name)
    assert raised.value.code == "bad_name"
    assert fault in raised.value.brief
    assert raised.value.why == (RULE,)


@pytest.mark.parametrize(("name", "better"), [("a_b", "a-b"), ("Bob Smith", "bob-smith"), ("bob-", "bob"), ("666", "")])
def test_a_name_that_would_do_is_offered(name, better):
    """The nearest good name, where there is one."""
    with pytest.raises(LxgpuError) as raised:
        check_name(name)
    assert raised.value.fix == (f"{better} would do" if better else "")


@pytest.mark.parametrize("name", ["root", "daemon", "sshd", "nobody", "www-data", "systemd-network", "lxd"])
def test_accounts_of_the_system_are_no_people(name):
    """A person is an account inside; those of the system are taken. As names of containers they pass."""
    assert not name_fault(name)
    with pytest.raises(LxgpuError, match="an account of the system"):
        check_person(name)


def test_a_persons_name_fits_linux():
    """Useradd makes no account of more than 32 characters."""
    assert check_person("x" * 32)
    with pytest.raises(LxgpuError, match="a Linux account has 32 at most"):
        check_person("x" * 33)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=70))
def test_a_name_that_passes_is_a_host_name(name):
    """Whatever passes is plain ASCII that DNS, LXD, paths and shells take as it is."""
    if not name_fault(name):
        assert name.isascii()
        assert name.replace("-", "").isalnum()
        assert name == name.lower()
        assert name[0].isalpha()
        assert name[-1] != "-"
    assert person_fault(name) or not name_fault(name)
