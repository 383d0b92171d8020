"""How Slurm's lists of resources name GPUs."""

from __future__ import annotations

import pytest

from lxgpu.simulate.readers.sacct import gpus_in


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("", None),
        ("cpu=8,mem=64G,node=1,billing=8", None),
        ("gres/gpu=2", 2),
        ("billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=64G,node=1", 2),
        ("gres/gpu:a100=2,gres/gpu:a40=1", 3),
        ("gres/gpu:a100_1g.5gb=2", 2),
        ("cpu=1,gres/gpumem=10G,gres/gpuutil=5", None),
        ("gpu:2", 2),
        ("gpu:tesla:2", 2),
        ("gpu:1080:2", 2),
        ("gres/gpu:1080=2,gres/gpu=2", 2),
        ("gpu:a100:2(S:0-1)", 2),
        ("gpu:a100:2(IDX:0,1),gpu:v100:1(IDX:3)", 3),
        ("gres:gpu:1", 1),
        ("gpu:0", 0),
        ("mps:100,gpu:1", 1),
        ("craynetwork:1", None),
    ],
)
def test_gpus_are_found_in_a_list_of_resources(text, gpus):
    """GPUs are found in a list of resources."""
    assert gpus_in(text) == gpus
