"""ansible-lint has nothing to say."""

from __future__ import annotations

from playbooks import FOLDER, ansible


def test_the_production_profile_finds_nothing(tmp_path):
    """Offline, every file, warnings count too (.ansible-lint says so)."""
    status, output = ansible("ansible-lint", "--offline", "--nocolor", home=tmp_path)
    assert status == 0, output
    assert "Profile 'production' was required, and it passed" in output


def test_a_fault_would_be_noticed(tmp_path):
    """The check above can fail."""
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("- hosts: all\n  tasks:\n    - shell: echo hello\n")
    rules = ["--config-file", str(FOLDER / ".ansible-lint")]
    status, output = ansible("ansible-lint", "--offline", "--nocolor", *rules, str(wrong), home=tmp_path)
    assert status != 0
    assert "no-changed-when" in output
