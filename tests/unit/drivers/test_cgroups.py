"""Cgroups of hosts that are not this one: paths as data, whole trees as files."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.drivers.cgroups import Cgroups, instance_part, within
from lxgpu.drivers.limits import count_cpus, read_limits
from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Limits

CASES = Path(__file__).parents[2] / "cases" / "cgroups"
PARTS = yaml.safe_load((CASES / "parts.yaml").read_text())
TREES = yaml.safe_load((CASES / "trees.yaml").read_text())
INIT = 4242


def laid_out(root: Path, files: dict[str, str]) -> Cgroups:
    """The files of a case below a directory."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Cgroups(root)


@pytest.mark.parametrize("case", PARTS, ids=[case["path"] for case in PARTS])
def test_the_part_of_a_path_that_is_a_containers(case):
    """Every known form of a container's cgroup is told from the host's own and from LXD's monitor."""
    assert instance_part(case["path"]) == case["part"]


@pytest.mark.parametrize("case", TREES, ids=[case["name"] for case in TREES])
def test_limits_and_members_of_a_recorded_host(case, tmp_path):
    """Limits come from the container's top cgroup, members from all below it, whatever the version."""
    cgroups = laid_out(tmp_path, case["files"])
    assert read_limits(cgroups, INIT) == Limits(**case["limits"])
    assert cgroups.members(INIT) == set(case["members"])
    if "contained" in case:
        assert cgroups.contained() == set(case["contained"])


@pytest.mark.parametrize("path", ["0::/", "0::/init.scope", "4:pids:/\n0::/"])
def test_what_is_in_no_cgroup_of_its_own_is_no_container(path, tmp_path):
    """The host's top is never taken for a container's: its members are everybody."""
    cgroups = laid_out(tmp_path, {**TREES[0]["files"], f"proc/{INIT}/cgroup": path + "\n"})
    for ask in (lambda: cgroups.members(INIT), lambda: read_limits(cgroups, INIT)):
        with pytest.raises(LxgpuError) as raised:
            ask()
        assert raised.value.code == "unavailable"


def test_an_init_moved_into_a_cgroup_of_its_own_hides_nobody(tmp_path):
    """Root inside may move its init below the top; the container stays what it is."""
    files = {**TREES[0]["files"], f"proc/{INIT}/cgroup": "0::/lxc.payload.alice/mine/deep\n"}
    assert laid_out(tmp_path, files).members(INIT) == {4242, 4300, 4301}


@given(name=st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True), below=st.sampled_from(["", "/a", "/a/b.scope"]))
def test_a_name_with_a_suffix_is_another_container(name, below):
    """`alice` and `alice-1` never share a part, however deep the process runs."""
    part = instance_part(f"/lxc.payload.{name}{below}")
    assert part == f"/lxc.payload.{name}"
    assert not within(f"/lxc.payload.{name}-1{below}", part)
    assert within(f"{part}{below}", part)


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 8)), max_size=6))
def test_cpus_of_a_list_are_counted(spans):
    """Single numbers and spans add up."""
    text = ",".join(str(first) if more == 0 else f"{first}-{first + more}" for first, more in spans)
    assert count_cpus(text + "\n") == sum(more + 1 for _, more in spans)
