"""Traces are read as they are, or refused with every mistake in its place: tables in tests/cases/simulate."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
import yaml

from lxgpu.errors import LxgpuError
from lxgpu.simulate.readers import read

CASES = Path(__file__).parents[2] / "cases/simulate"
READ = yaml.safe_load((CASES / "traces.yaml").read_text())
REFUSED = yaml.safe_load((CASES / "refused.yaml").read_text())
LAB = "job_id,group,gpus,submit_s,duration_s\n"


def written(folder: Path, content: str | bytes) -> Path:
    """A file with that content, byte for byte."""
    path = folder / "trace.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refusal(path: Path) -> LxgpuError:
    """Why a file is refused."""
    with pytest.raises(LxgpuError) as caught:
        read(path)
    assert caught.value.code == "bad_file"
    return caught.value


@pytest.mark.parametrize("case", READ, ids=[case["promise"] for case in READ])
def test_a_trace_is_read_as_it_is(case, tmp_path):
    """A trace is read as it is."""
    found = read(written(tmp_path, case["text"]))
    assert len(found.jobs) == len(case["jobs"])
    for job, wanted in zip(found.jobs, case["jobs"], strict=True):
        assert {name: getattr(job, name) for name in wanted} == wanted
    assert case.get("source", "") in found.source
    assert "start" not in case or found.start == case["start"]


@pytest.mark.parametrize("case", REFUSED, ids=[case["promise"] for case in REFUSED])
def test_a_file_with_mistakes_is_refused(case, tmp_path):
    """A file with mistakes is refused."""
    path = written(tmp_path, case["text"])
    problems = refusal(path).problems
    assert [problem.where for problem in problems] == [f"{path}:{place}" for place in case["where"]]
    for problem, words in zip(problems, case["says"], strict=True):
        assert words in problem.text


def test_a_mistake_is_shown_with_a_caret_below_its_value(tmp_path):
    """A mistake is shown with a caret below its value."""
    (problem,) = refusal(written(tmp_path, LAB + "a,g,1,0,x\n")).problems
    assert problem.excerpt == "a,g,1,0,x\n        ^"


def test_a_file_that_is_all_wrong_is_not_listed_to_its_end(tmp_path):
    """A file that is all wrong is not listed to its end."""
    told = refusal(written(tmp_path, LAB + "a,g,1,0,x\n" * 5000))
    assert len(told.problems) == 20
    assert told.brief.endswith("has at least 20 mistakes")
    assert refusal(written(tmp_path, LAB + "a,g,1,0,x\n" * 19)).brief.endswith("has 19 mistakes")


def test_a_gzipped_file_is_read_whatever_its_name(tmp_path):
    """A gzipped file is read whatever its name."""
    text = LAB + "".join(f"{at},g,1,0,5\n" for at in range(2000))
    assert read(written(tmp_path, gzip.compress(text.encode()))).jobs == read(written(tmp_path, text)).jobs


@pytest.mark.parametrize("cut", [3, 40, -5], ids=["in its head", "in its data", "in its check sum"])
def test_a_gzipped_file_that_was_cut_off_is_refused(cut, tmp_path):
    """A gzipped file that was cut off is refused."""
    packed = gzip.compress((LAB + "".join(f"{number},g,1,0,5\n" for number in range(2000))).encode())
    assert "cannot be read" in refusal(written(tmp_path, packed[:cut])).brief


@pytest.mark.parametrize("content", [b"", b"\n \r\n", b"\xef\xbb\xbf", gzip.compress(b"", mtime=0)])
def test_an_empty_file_says_what_is_wanted(content, tmp_path):
    """An empty file says what is wanted."""
    error = refusal(written(tmp_path, content))
    assert error.brief.endswith("is empty")
    assert "job_id,group,gpus,submit_s,duration_s" in error.fix


def test_a_file_without_jobs_says_why(tmp_path):
    """A file without jobs says why."""
    (problem,) = refusal(written(tmp_path, LAB)).problems
    assert problem.text == "there is no job in it: only a header"
    (problem,) = refusal(written(tmp_path, LAB + "a,g,0,0,5\n")).problems
    assert problem.text == "there is no job in it: 1 of 1 rows without a GPU left out"


@pytest.mark.parametrize("content", [b"\xff\xfej\x00o\x00", (LAB + "a,ü,1,0,5\n").encode("latin-1")])
def test_text_that_is_no_utf8_is_refused(content, tmp_path):
    """Text that is no UTF-8 is refused."""
    (problem,) = refusal(written(tmp_path, content)).problems
    assert problem.text == "this is no UTF-8 text"


def test_a_line_that_does_not_end_is_not_read_into_memory(tmp_path):
    """A line of a terabyte (all of it a hole in the disk) is refused at once."""
    endless = tmp_path / "endless.csv"
    endless.touch()
    os.truncate(endless, 1 << 40)
    (problem,) = refusal(endless).problems
    assert problem.text == "the line is too long for a trace"


def test_what_is_no_file_is_refused(tmp_path):
    """What is no file is refused."""
    assert refusal(tmp_path).why == ("Is a directory",)
    assert refusal(tmp_path / "missing").why == ("No such file or directory",)
