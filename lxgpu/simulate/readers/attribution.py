"""Whose data it is: the words that must be shown with results on the public traces."""

from __future__ import annotations

from collections.abc import Iterable

from lxgpu.simulate.jobs import Job

PHILLY = "Philly trace: Jeon et al., USENIX ATC'19, github msr-fiddle/philly-traces, CC-BY-4.0; subset and re-formatted"
CHRONUS = "deadlines: ChronusArtifact, MIT"
_CLUSTERS = frozenset(
    {
        "6214e9",
        "11cb48",
        "6c71a0",
        "b436b2",
        "103959",
        "ee9e8c",
        "0e4a51",
        "ed69ec",
        "7f04ca",
        "2869ce",
        "e13805",
        "23dbec",
        "51b7ef",
        "925e2b",
        "795a4c",
    }
)
"""The virtual clusters of the Philly trace: whoever has only these as groups was made from it."""


def of_philly(jobs: Iterable[Job]) -> str:
    """The attribution, if every group is a virtual cluster of Philly; empty for a lab's own file of that kind."""
    groups = {job.group for job in jobs}
    return PHILLY if groups and groups <= _CLUSTERS else ""


def of_chronus(jobs: Iterable[Job]) -> str:
    """The attribution of a mix that Chronus made from Philly."""
    philly = of_philly(jobs)
    return f"{philly}; {CHRONUS}" if philly else ""
