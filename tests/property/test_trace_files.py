"""Whatever a trace file holds: it is read, or refused with the place of each mistake, and never anything else."""

from __future__ import annotations

import gzip
import tempfile
from math import isfinite
from pathlib import Path

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lxgpu.errors import LxgpuError
from lxgpu.simulate.readers import read

_CASES = yaml.safe_load((Path(__file__).parents[1] / "cases/simulate/traces.yaml").read_text())
GOOD = [case["text"].encode() for case in _CASES]
PIECES = [
    b"",
    b"\n",
    b"\r",
    b",",
    b"|",
    b";",
    b'"',
    b"-1",
    b"nan",
    b"inf",
    b"1e999",
    b"\x00",
    b"\xff",
    b"0",
    "é".encode(),
]


@st.composite
def spoilt(draw):
    """A good file with some bytes taken out and others put in."""
    content = draw(st.sampled_from(GOOD))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        end = draw(st.integers(start, min(len(content), start + 8)))
        content = content[:start] + draw(st.sampled_from(PIECES) | st.binary(max_size=4)) + content[end:]
    return content


def tried(content):
    """What is read of it, or the refusal, and the path."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace"
        path.write_bytes(content)
        try:
            return read(path), None, str(path)
        except LxgpuError as refused:
            return None, refused, str(path)


def held_to(content):
    """Reads it, and holds the answer against what is promised."""
    found, refused, path = tried(content)
    if refused is not None:
        assert refused.code == "bad_file"
        assert path in refused.brief
        assert refused.problems or refused.why or refused.fix
        for problem in refused.problems:
            assert problem.where.startswith(path)
            assert all(line.isprintable() for line in problem.excerpt.split("\n"))
        return
    assert found.jobs
    assert [job.submit_s for job in found.jobs] == sorted(job.submit_s for job in found.jobs)
    for job in found.jobs:
        assert job.gpus > 0
        assert job.duration_s >= 0
        assert isfinite(job.submit_s + job.duration_s + job.asked_s + (job.deadline_s or 0))


@given(spoilt())
@example(b"job_id,group,gpus,submit_s,duration_s\n" + b"\x1f\x8b")
@settings(max_examples=300, deadline=None)
def test_a_spoilt_trace_is_read_or_refused(content):
    """A good file with a few bytes changed is read, or refused with the places."""
    held_to(content)


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda tail: b"\x1f\x8b" + tail))
@settings(max_examples=200, deadline=None)
def test_noise_is_refused(content):
    """Bytes that are nothing are refused."""
    held_to(content)


@given(spoilt())
@settings(max_examples=50, deadline=None)
def test_gzip_changes_nothing(content):
    """A gzipped file is read, or refused, as the plain one."""
    plain, packed = tried(content), tried(gzip.compress(content))
    assert [plain[0] and plain[0].jobs, plain[1] and [problem.text for problem in plain[1].problems]] == [
        packed[0] and packed[0].jobs,
        packed[1] and [problem.text for problem in packed[1].problems],
    ]
