"""The engines that the contract is held against: the fake, and a real LXD in a lab of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fakes.engine import FakeEngine

from lxgpu.drivers.engine import LxdEngine
from lxgpu.drivers.lxd_http import LxdSession
from lxgpu.drivers.lxd_wire import Deadline
from lxgpu.errors import LxgpuError
from lxgpu.lab import Lab, LabSpec, down, up
from lxgpu.model.gpu import DeviceNode, Gpu
from lxgpu.model.instance import Power
from lxgpu.ports import Change, Engine

LAB = f"ct{os.getpid()}"
"""Each run of the tests has its own, so that two runs do not meet."""


@dataclass
class Bench:
    """An engine to test, what it has, and instances that are taken away after the test."""

    engine: Engine
    pool: str
    network: str
    image: str
    gpus: tuple[Gpu, ...]
    socket: str = ""
    prefix: str = "ct"
    made: list[str] = field(default_factory=list)

    def name(self) -> str:
        """A name that no instance has; what bears it later is removed after the test."""
        self.made.append(f"{self.prefix}-{len(self.made)}")
        return self.made[-1]

    def make(self, *, running: bool = False, change: Change | None = None, source: str = "") -> str:
        """An instance of the base image, or of another source."""
        name = self.name()
        origin = source or f"image:{self.image}"
        self.engine.create(name, source=origin, change=change or Change(), profiles=["default"])
        if running:
            self.engine.start(name)
        return name

    def freeze(self, name: str) -> None:
        """Freezes an instance by hand, as `lxc pause` does; lxgpu itself never does."""
        if isinstance(self.engine, FakeEngine):
            self.engine.freeze(name)
            return
        session, deadline = LxdSession(self.socket, project="default"), Deadline(20)
        body = {"action": "freeze", "timeout": 10}
        answer = session.send("PUT", f"instances/{name}/state", deadline=deadline, what="freeze", body=body)
        operation = str(answer.json["operation"]).removeprefix("/1.0/")
        session.get(f"{operation}/wait", deadline=deadline, what="freeze")

    def clean(self) -> None:
        """Removes what the test made, whatever state it is in."""
        for name in self.made:
            seen = self.engine.instance(name)
            if seen and seen.power is not Power.STOPPED:
                self.engine.stop(name, timeout_s=20, force=True)
            self.engine.delete(name)


def _fake() -> Iterator[Bench]:
    cards = [
        Gpu(
            uuid=f"GPU-{number}",
            pci=f"0000:{number + 17:02x}:00.0",
            model="NVIDIA GeForce RTX 3090",
            host="host1",
            nodes=(DeviceNode(f"nvidia{number}", 195, number), DeviceNode(f"dri/card{number + 1}", 226, number + 1)),
        )
        for number in range(2)
    ]
    engine = FakeEngine(cards)
    image = engine.images()[0].fingerprint
    yield Bench(engine, "default", engine.net.name, image, engine.gpus())


@pytest.fixture(scope="session")
def contract_lab() -> Iterator[Lab]:
    """A lab of two cards, for as long as the contract tests take."""
    if os.geteuid() != 0:
        pytest.skip("a real LXD needs root")
    lab = up(LabSpec(name=LAB, gpus=2))
    yield lab
    down(LAB)


@pytest.fixture
def real_bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """The driver on the lab's LXD, or on the server whose socket and bridge LXGPU_CONTRACT names (an Incus).

    Such a server has an image `base`, a pool and a profile `default`, and two cards.
    """
    named = os.environ.get("LXGPU_CONTRACT")
    lab: Lab | None = None if named else request.getfixturevalue("contract_lab")
    socket, bridge = (str(lab.socket), lab.bridge) if lab else str(named).split(",")
    engine = LxdEngine(socket)
    base = next(image.fingerprint for image in engine.images() if "base" in image.aliases)
    found = Bench(engine, "default", bridge, base, engine.gpus(), socket=socket)
    yield found
    found.clean()


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.lab)])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """The engine under test."""
    if request.param == "fake":
        yield from _fake()
    else:
        yield request.getfixturevalue("real_bench")


@pytest.fixture
def restart_daemon(contract_lab: Lab) -> Callable[[], None]:
    """Kills the lab's LXD without warning and starts it again; containers live on."""

    def restart() -> None:
        os.kill(int((contract_lab.paths.run / "lxd.pid").read_text()), signal.SIGKILL)
        up(LabSpec(name=LAB, gpus=2))

    return restart


@pytest.fixture
def engine(bench: Bench) -> Engine:
    """The engine of the bench."""
    return bench.engine


@pytest.fixture
def refused() -> Callable[..., LxgpuError]:
    """Calls something and returns the LxgpuError it must raise, after checking its code."""

    def check(code: str, call: Callable[..., object], *args: object, **keywords: object) -> LxgpuError:
        with pytest.raises(LxgpuError) as caught:
            call(*args, **keywords)
        assert caught.value.code == code, (caught.value.code, caught.value.brief, caught.value.why)
        return caught.value

    return check


@pytest.fixture
def tarball(tmp_path: Path) -> Path:
    """A tiny unified image."""
    import io  # noqa: PLC0415 - one test needs these
    import tarfile  # noqa: PLC0415

    path = tmp_path / "tiny.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in {
            "metadata.yaml": b"architecture: x86_64\ncreation_date: 1700000000\nproperties: {description: tiny}\n",
            "rootfs/etc/hello": os.urandom(16),
        }.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path
