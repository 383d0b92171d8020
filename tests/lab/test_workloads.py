"""Profiles that bring software, on a real LXD: JupyterLab and Triton serve real requests, without a GPU.

Their packages come from the registries that this machine's own pip and apt use; where these cannot be reached, the
tests fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import House, house_for, until
from tunnel import ask, kernel, tunnel

from lxgpu.lab import Lab, processes, state

pytestmark = pytest.mark.lab
MIB = 1 << 20
MODEL = """
import triton_python_backend_utils as triton

class TritonPythonModel:
    def execute(self, requests):
        given = [triton.get_input_tensor_by_name(one, "IN").as_numpy() for one in requests]
        return [triton.InferenceResponse([triton.Tensor("OUT", {})]) for one in given]
"""
CONFIG = """
backend: "python"
input [{ name: "IN" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [-1] }]
instance_group [{ kind: KIND_CPU }]
"""
WHEEL = """
import zipfile
with zipfile.ZipFile("mine-1-py3-none-any.whl", "w") as wheel:
    wheel.writestr("mine.py", "FACTOR = 3")
    wheel.writestr("mine-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: mine\\nVersion: 1\\n")
    wheel.writestr("mine-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr("mine-1.dist-info/RECORD", "")
"""
MODELS = {
    "thrice": "import mine\n" + MODEL.format("one * mine.FACTOR"),
    "twice": MODEL.format("one * 2"),
    "sum": MODEL.format("one.sum(keepdims=True)"),
    "broken": "import nothing_of_that_name",
}


@pytest.fixture(scope="module")
def house(lab: Lab) -> Iterator[House]:
    """Both images are built before anybody has a container of them."""
    for house in house_for(lab):
        for profile in ("jupyter", "triton"):
            ran = house.run("image", "build", "--profile", profile, limit_s=500)
            assert ran.status == 0, ran.err
        yield house


@pytest.fixture(scope="module")
def alice(house: House) -> House:
    """Alice has a notebook, and a card."""
    house.ok("create", "alice", "--profile", "jupyter", "--gpus", "1")
    return house


@pytest.fixture(scope="module")
def bob(house: House) -> House:
    """Bob serves models."""
    house.ok("create", "bob", "--profile", "triton")
    return house


def token_of(house: House, name: str) -> str:
    """What `jupyter lab list` tells a person who has logged in."""
    (found,) = re.findall(r"http://127\.0\.0\.1:8888/\?token=(\w+)", house.ssh(name, "jupyter lab list").out)
    return str(found)


def held(house: House, card: str) -> list[tuple[int, str, int]]:
    """Host's pid, container and memory of the processes on a card whose command is a kernel's, as `lxgpu ps` says."""
    rows = house.ok("ps", "-o", "json").items
    return [(row["pid"], row["instance"], row["memory_bytes"]) for row in rows
            if row["gpu"] == card and "ipykernel_launcher" in row["command"]]  # fmt: skip


def test_a_cell_runs_behind_the_tunnel(alice: House, tmp_path: Path) -> None:
    """As alice, in a kernel of her server, reached by the lines of ssh-config; without the token nobody gets in."""
    token = token_of(alice, "alice")
    with tunnel(alice, "alice", "jupyter", tmp_path) as ports:
        assert ask(ports[8888], "/api/kernels")[0] == 403
        with kernel(ports[8888], token) as one:
            said = one.cell("import getpass, os; print(getpass.getuser(), 6 * 7, os.environ['CUDA_DEVICE_ORDER'])")
        assert said == "alice 42 PCI_BUS_ID\n"
        assert ask(ports[8888], "/lab", token=token)[0] == 200
        assert ask(ports[8888], "/api/kernels", token=token)[1][0]["execution_state"] == "idle"


def test_an_idle_kernel_is_seen_holding_memory(alice: House, tmp_path: Path) -> None:
    """`ps` names it as a kernel, with its memory, while the card does nothing; it ends when the card is given back."""
    card = alice.card_of("alice")
    with tunnel(alice, "alice", "jupyter", tmp_path) as ports, kernel(ports[8888], token_of(alice, "alice")) as one:
        pid = host_pid(alice.init("alice"), int(one.cell("import os; print(os.getpid())")))
        with state.editing(alice.lab) as nvml:
            nvml.jobs.append(f"proc {card.index} {pid} {processes.started_at(pid)} 4096 C 0")
        assert held(alice, card.uuid) == [(pid, "alice", 4096 * MIB)]
        (row,) = [row for row in alice.ok("gpus", "-o", "json").items if row["uuid"] == card.uuid]
        assert (row["utilization_percent"], row["memory_used_bytes"] >= 4096 * MIB) == (0, True)
    alice.ok("release", "alice", "--all", "--yes")
    assert until(lambda: not Path(f"/proc/{pid}").exists()), "its server buries it when it next looks"
    assert alice.sh("alice", "systemctl is-active jupyter") == "active"


def host_pid(init: int, inside: int) -> int:
    """The host's pid of a process of a container."""
    space = Path(f"/proc/{init}/ns/pid").readlink()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            (line,) = [line for line in (folder / "status").read_text().splitlines() if line.startswith("NSpid:")]
            if int(line.split()[-1]) == inside and (folder / "ns" / "pid").readlink() == space:
                return int(folder.name)
        except OSError:  # it has ended meanwhile
            continue
    raise AssertionError(inside)


def test_what_pip_installs_outlives_the_system(alice: House) -> None:
    """It lies in the home, and kernels see it; the server, and what it is made of, do not."""
    install(alice, "alice")
    python = "/opt/venv/bin/python"
    assert alice.ssh("alice", f"{python} -c 'import mine; print(mine.__file__)'").out.startswith("/home/alice/.local/")
    assert alice.ssh("alice", f"{python} -s -c 'import mine'").status == 1
    assert alice.ssh("alice", "test -w /opt/venv/lib").status == 1


def install(house: House, name: str) -> None:
    """A person installs a package, as they are used to."""
    ran = house.ssh(
        name, f"cat >wheel.py <<'END'\n{WHEEL}END\npython3 wheel.py; /opt/venv/bin/pip install -q --no-index *.whl"
    )
    assert ran.status == 0, ran.err


def test_the_service_is_back_after_a_restart_and_a_rebuild(alice: House) -> None:
    """By itself, as alice, with the token her browser knows."""
    token = token_of(alice, "alice")
    for verb in ("restart", "rebuild"):
        alice.ok(verb, "alice", "--yes")
        assert until(lambda: alice.ssh("alice", "systemctl is-active jupyter").out == "active\n")
        assert alice.ssh("alice", "cat ~/.jupyter/token").out == token, verb
    assert alice.sh("alice", "ps -o user= -p $(systemctl show -P MainPID jupyter)") == "alice"


def put(house: House, name: str, model: str, program: str) -> None:
    """A model, into a person's folder of models, by the person."""
    folder = f"models/{model}"
    script = f"mkdir -p {folder}/1 && cat >{folder}/1/model.py <<'END'\n{program}\nEND\n"
    assert house.ssh(name, script + f"cat >{folder}/config.pbtxt <<'END'\n{CONFIG}\nEND\n").status == 0


def test_models_answer_and_a_broken_one_takes_none_down(bob: House, tmp_path: Path) -> None:
    """Put into the folder while the server runs; HTTP, health and metrics through the tunnel; own packages count."""
    install(bob, "bob")
    for model, program in MODELS.items():
        put(bob, "bob", model, program)
    given = {"inputs": [{"name": "IN", "shape": [3], "datatype": "FP32", "data": [1, 2, 3.5]}]}
    with tunnel(bob, "bob", "triton", tmp_path) as ports:

        def states() -> dict[str, str]:
            _, found = ask(ports[8000], "/v2/repository/index", {})
            return {one["name"]: one.get("state", "") for one in found}

        wanted = {"twice": "READY", "thrice": "READY", "sum": "READY", "broken": "UNAVAILABLE"}
        assert until(lambda: states() == wanted, limit_s=60), states()
        assert ask(ports[8000], "/v2/health/ready")[0] == 200
        for model, numbers in (("twice", [2.0, 4.0, 7.0]), ("thrice", [3.0, 6.0, 10.5]), ("sum", [6.5])):
            status, answer = ask(ports[8000], f"/v2/models/{model}/infer", given)
            assert (status, answer["outputs"][0]["data"]) == (200, numbers)
        assert ask(ports[8000], "/v2/models/broken/infer", given)[0] in {400, 404}
        assert 'nv_inference_request_success{model="sum",version="1"} 1' in ask(ports[8002], "/metrics")[1]


def test_a_card_that_comes_is_looked_for(bob: House) -> None:
    """The server starts anew when a card is lent, since it looks for cards when it starts."""
    before = bob.sh("bob", "systemctl show -P MainPID triton")
    bob.ok("attach", "bob", "--gpus", "1")
    assert until(lambda: bob.sh("bob", "systemctl show -P MainPID triton") not in {before, "0"})
    bob.ok("release", "bob", "--all", "--yes")
    assert until(lambda: bob.sh("bob", "systemctl is-active triton", check=False) == "active", limit_s=60)
