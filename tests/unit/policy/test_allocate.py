"""Numbers that are given out once."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

from hypothesis import given
from hypothesis import strategies as st

from lxgpu.policy import allocate


@given(taken=st.sets(st.integers(22000, 22009)))
def test_a_port_is_of_the_range_and_free_or_there_is_none(taken: set[int]) -> None:
    """Somebody else's port is never given out, and a free one is always found."""
    found = allocate.port(range(22000, 22010), taken)
    assert found is None if len(taken) == 10 else found in set(range(22000, 22010)) - taken


@given(taken=st.sets(st.integers(2, 254)))
def test_an_address_is_of_the_network_and_free(taken: set[int]) -> None:
    """Neither the bridge's own, nor the network's, nor broadcast, nor a taken one."""
    used = {f"10.1.2.{number}" for number in taken}
    found = allocate.address("10.1.2.1/24", used)
    if len(taken) == 253:
        assert found is None
    else:
        assert ip_address(found) in ip_network("10.1.2.0/24")
        assert found not in used | {"10.1.2.0", "10.1.2.1", "10.1.2.255"}


def test_the_host_accounts_number_is_kept_where_it_is_free() -> None:
    """Files in shared directories are the person's everywhere; a number of the system's or another's is not taken."""
    assert allocate.uid({2000}, wanted=1005) == 1005
    assert allocate.uid({1005}, wanted=1005) == allocate.FIRST_UID
    assert allocate.uid(set(), wanted=0) == allocate.FIRST_UID
