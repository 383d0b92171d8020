"""`lxgpu web --link` and `lxgpu keys invite`: words that do not fit are refused before anything is made."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    "words",
    [
        ("web", "--link", "alice", "--port", "8080"),
        ("web", "--link", "--listen", "10.0.0.1"),
        ("web", "--link", "alice", "--close", "alice"),
        ("web", "--close", "--port", "1"),
        ("web", "--port", "65536"),
        ("web", "--listen", "lab.example"),
        ("web", "--link", ""),
        ("web", "--close", ""),
        ("web", "--dry-run"),
        ("keys", "invite", "alice", "--for", "31d"),
        ("keys", "invite", "alice", "--withdraw", "--for", "1d"),
        ("keys", "invite", "Alice B"),
        ("keys", "invite"),
    ],
)
def test_words_that_do_not_fit_make_no_pass(lxgpu, tmp_path, words):
    """Status 2, a remedy, and no file."""
    ran = lxgpu(*words, env={"LXGPU_STATE_DIR": str(tmp_path), "LXGPU_CONFIG": "", "LXGPU_RUN_DIR": str(tmp_path)})
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "error[" in ran.stderr
    assert list(tmp_path.iterdir()) == []
