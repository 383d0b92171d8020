"""Running the project's playbooks in tests, and what came of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parents[1] / "ansible"
PLAYBOOKS = ("site.yml", "upgrade.yml", "users.yml", "verify.yml")
_RECAP = re.compile(
    r"^(?P<host>\S+)\s+: ok=\d+\s+changed=(?P<changed>\d+)\s+unreachable=(?P<away>\d+)\s+failed=(?P<failed>\d+)",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Played:
    """One run: what it printed, and of its recap what was changed and whether anything failed."""

    output: str
    changed: int
    failed: bool


def ansible(program: str, *words: str, home: Path, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run one of Ansible's programs in the project's folder; gives the exit status and all it printed.

    What it keeps for itself goes below `home`.
    """
    argv = [str(Path(sys.executable).parent / program), *words]
    own = {"ANSIBLE_HOME": str(home), "ANSIBLE_NOCOLOR": "1", "ANSIBLE_REMOTE_TEMP": "/tmp/.ansible-${USER}"}  # noqa: S108 -- on the server
    done = subprocess.run(
        argv,
        cwd=FOLDER,
        env={**os.environ, **own, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    return done.returncode, done.stdout


def play(playbook: str, inventory: Path, *words: str, env: Mapping[str, str] | None = None) -> Played:
    """Run a playbook on the hosts of an inventory file, whose folder also takes what Ansible keeps."""
    _, output = ansible("ansible-playbook", "-i", str(inventory), playbook, *words, home=inventory.parent, env=env)
    rows = list(_RECAP.finditer(output))
    failed = not rows or any(int(row["away"]) or int(row["failed"]) for row in rows)
    return Played(output=output, changed=sum(int(row["changed"]) for row in rows), failed=failed)


def write_inventory(path: Path, host: str, values: Mapping[str, Any]) -> Path:
    """Write an inventory of one GPU server, and give its path back."""
    path.write_text(yaml.safe_dump({"gpu_servers": {"hosts": {host: dict(values)}}}), encoding="utf-8")
    return path
