"""`lxgpu run`: whatever becomes of the program, of its runner or of LXD, nothing of the container is left."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from fakes.faults import Fault, KilledError, When
from fakes.mortal import MortalInventory
from fakes.relay import FakeRelay
from fakes.site import lab_policy, make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.inventory.memory import MemoryInventory
from lxgpu.model.gpu import Slot
from lxgpu.model.instance import InstanceKind, InstanceState, Limits
from lxgpu.model.quota import Terms
from lxgpu.model.request import CreateRequest, GpuRequest
from lxgpu.policy.fairness import used_s
from lxgpu.services import access, ending, keys, observe, renaming, renewal, reshape, runs, snapshots
from lxgpu.services.listing import instance_items
from lxgpu.services.provision import create
from lxgpu.services.readback import read_back
from lxgpu.services.recover import recover
from lxgpu.services.runs import Job
from lxgpu.services.site import Site
from lxgpu.services.tick import tick

MOST_WRITES = 80
JOB = Job(("pytest", "-q", "--token=secret"), limit_s=60.0)
NAME = "run-alice-a1b2c3"


def wanted(*, owner: str = "alice", gpus: int = 1, name: str = NAME) -> CreateRequest:
    """What `lxgpu run --gpus N` asks for."""
    return CreateRequest(gpus=GpuRequest(instance=name, owner=owner, more=gpus), kind=InstanceKind.RUN, lease_s=60)


def run(site: Site, relay: FakeRelay | None = None, job: Job = JOB, **more: object) -> tuple[int, list[str]]:
    """A run to its end: the status, and what was warned of."""
    warned: list[str] = []
    return runs.run(site, wanted(**more), job, relay or FakeRelay(), warned.append), warned


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Alice has a machine of her own, and it holds no card; there are two."""
    made = make_site(tmp_path)
    newcomer(made, "alice")
    return made


def world(site: Site) -> dict[str, object]:
    """Everything there is, without times."""
    records = site.inventory.read()
    return {
        "instances": [(row.name, row.state, row.running) for row in records.instances],
        "held": [(row.instance, str(row.slot)) for row in records.assignments],
        "people": [(row.name, row.uid, row.ssh_port) for row in records.persons],
        "keys": [(row.person, row.fingerprint) for row in records.keys],
        "machines": {name: found.power for (_, name), found in site.engine.machines.items()},
        "volumes": sorted(site.engine.disks["default"]),
        "open": [row.kind for row in records.operations if row.live],
        "files": sorted(name for name, _ in site.board.files if name != "alice"),
    }


def whole(site: Site) -> None:
    """No card is lent, and each that was is proven free since."""
    records = site.inventory.read()
    assert not records.assignments
    assert all(row.proven(site.probe.boot_id()) and not row.quarantine for row in records.slots)
    assert not [name for found in site.engine.machines.values() for name in found.devices if name.startswith("gpu-")]


def ticks(site: Site) -> None:
    """A tick, and those that follow while something waits: a container found down may only be about to come up."""
    tick(site)
    while any(row.live for row in site.inventory.read().operations):
        site.clock.sleep(1)
        tick(site)


def dies(_call: object) -> None:
    """Kill -9 of the runner, while its program runs."""
    raise KilledError


def stands(site: Site, **more: object) -> None:
    """A run whose runner has died: its container is there, and its card lent."""
    with pytest.raises(KilledError):
        run(site, FakeRelay(during=dies), **more)
    assert site.inventory.read().instance(NAME) is not None


def test_the_status_is_the_programs_and_nothing_is_left(site: Site) -> None:
    """It runs beside the person's own machine, with a card; afterwards all is as it was, and the card proven free."""
    before, seen = world(site), []

    def look(_call: object) -> None:
        row = site.inventory.read().instance(NAME)
        seen.append((row.owner, row.kind, row.state, len(site.inventory.read().held_by(NAME))))

    assert run(site, FakeRelay(status=7, during=look)) == (7, [])
    assert seen == [("alice", InstanceKind.RUN, InstanceState.READY, 1)]
    assert world(site) == before
    whole(site)


def test_history_has_the_program_without_its_words(site: Site) -> None:
    """What was run, how it ended, and nothing that may be a secret."""
    run(site, FakeRelay(status=3), job=replace(JOB, words=("/usr/bin/pytest", "--token=secret")))
    events = site.inventory.events(subject=NAME)
    assert [event.kind for event in reversed(events)] == ["attached", "created", "ran", "released", "deleted"]
    assert next(event.detail for event in events if event.kind == "ran") == {"program": "pytest", "status": 3}
    assert "secret" not in repr([*events, *site.inventory.read().operations])


def test_it_has_neither_home_nor_login_nor_key(site: Site) -> None:
    """Home, port and keys are those of the person's own machine, which goes on with them."""
    devices: dict[str, object] = {}
    run(site, FakeRelay(during=lambda _call: devices.update(site.engine.machines["default", NAME].devices)))
    assert not {"home", "ssh"} & set(devices)
    assert {"root", "eth0", "lxgpu"} <= set(devices)
    assert site.engine.machines["default", "alice"].devices["home"]["source"] == "home-alice"
    assert [key.person for key in site.inventory.read().keys] == ["alice"]


def test_a_person_without_a_container_may_run(tmp_path: Path) -> None:
    """Several at once; the person keeps number and port for life, and no key is made for them."""
    site = make_site(tmp_path)

    def another(_call: object) -> None:
        assert run(site, owner="carol", name="run-carol-000002") == (0, [])

    assert run(site, FakeRelay(during=another), owner="carol") == (0, [])
    records = site.inventory.read()
    assert ([row.name for row in records.persons], records.instances, records.keys) == (["carol"], (), ())
    assert "carol" in site.engine.server().promises["user.lxgpu.promises"]
    assert newcomer(site, "carol").owner == "carol"


def test_what_the_policy_refuses_leaves_nothing(tmp_path: Path) -> None:
    """The quota is the owner's, with what their own machine holds; status 5."""
    site = make_site(tmp_path, policy=lab_policy(limit=1))
    newcomer(site, "alice", gpus=1)
    before, relay = world(site), FakeRelay()
    with pytest.raises(LxgpuError) as refused:
        run(site, relay)
    assert (refused.value.code, refused.value.status) == ("over_limit", 5)
    assert world(site) == before
    assert not relay.carried


def test_what_a_run_used_is_its_owners_use(site: Site) -> None:
    """Though nothing of it is left: who uses much by runs waits like who uses much otherwise."""
    run(site, FakeRelay(during=lambda _call: site.clock.sleep(3600)))
    begun = site.clock.now() - timedelta(days=1)
    now = replace(observe.snapshot(site), past=site.inventory.closed_since(begun))
    assert used_s(now, "alice", begun) == 3600


def test_without_a_free_card_it_does_not_wait(site: Site) -> None:
    """Status 7 at once, as with create."""
    newcomer(site, "bob", gpus=2)
    before = world(site)
    with pytest.raises(LxgpuError) as refused:
        run(site)
    assert refused.value.status == 7
    assert world(site) == before


def test_a_signal_before_there_is_a_program_undoes_it(site: Site) -> None:
    """Nothing is run, and nothing left."""
    before, relay = world(site), FakeRelay()
    relay.interrupted = True
    with pytest.raises(KeyboardInterrupt):
        run(site, relay)
    assert world(site) == before
    assert not relay.carried
    whole(site)


def test_an_error_of_lxds_while_the_program_runs_leaves_nothing(site: Site) -> None:
    """Somebody stops the container with lxc: the error is told, and what is left is taken away."""
    before = world(site)

    def fails(_call: object) -> None:
        raise LxgpuError("engine", "run pytest: Instance is not running")

    with pytest.raises(LxgpuError, match="not running"):
        run(site, FakeRelay(during=fails))
    assert world(site) == before


def test_what_cannot_be_taken_away_now_the_next_tick_takes(site: Site) -> None:
    """LXD fails at the end: the status is the program's, it is warned, and a tick makes up for it."""
    before = world(site)

    def fails(_call: object) -> None:
        site.engine.inject(Fault.ERROR, call="stop", name=NAME)

    status, warned = run(site, FakeRelay(status=7, during=fails))
    assert status == 7
    assert [NAME in line for line in warned] == [True]
    tick(site)
    assert world(site) == before
    whole(site)


@pytest.mark.parametrize("then", [tick, recover], ids=["tick", "command"])
def test_a_runner_that_was_killed_leaves_nothing_for_long(site: Site, then: Callable[[Site], object]) -> None:
    """The next tick or command takes the container away, and says so in the history."""
    before = world(site)
    stands(site)
    then(site)
    assert world(site) == before
    whole(site)
    assert [event.kind for event in site.inventory.events(subject=NAME) if event.kind == "abandoned"] == ["abandoned"]


def test_one_whose_runner_lives_is_left_alone(site: Site) -> None:
    """Ticks and commands go by, whatever they do for others."""
    kept: list[bool] = []

    def others(_call: object) -> None:
        tick(site)
        recover(site)
        kept.append(site.inventory.read().instance(NAME).state is InstanceState.READY)
        assert not [name for name, _ in site.board.files if name == NAME], "nobody logs in, and files could outlive it"

    assert run(site, FakeRelay(during=others)) == (0, [])
    assert kept == [True]


@pytest.mark.parametrize("then", [ticks, recover], ids=["ticks", "command"])
@pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
def test_killed_at_any_write_to_the_inventory(tmp_path: Path, when: When, then: Callable[[Site], object]) -> None:
    """Before or after each commit, from the first to the last."""
    for number in range(1, MOST_WRITES):
        site = make_site(tmp_path, inventory=MortalInventory(MemoryInventory()))
        newcomer(site, "alice")
        before = world(site)
        site.inventory.writes, site.inventory.death = 0, (number, when)
        try:
            run(site)
        except KilledError:
            site.inventory.death = None
            then(site)
            assert world(site) == before, f"killed {when} write {number}"
            whole(site)
        else:
            assert number > 10, "it was never killed"
            return
    pytest.fail("the run does not end")


@pytest.mark.parametrize("then", [ticks, recover], ids=["ticks", "command"])
@pytest.mark.parametrize("when", list(When))
def test_killed_at_any_write_to_lxd(tmp_path: Path, when: When, then: Callable[[Site], object]) -> None:
    """Before, after, or with the write still on its way."""
    for number in range(1, MOST_WRITES):
        site = make_site(tmp_path)
        newcomer(site, "alice")
        before = world(site)
        site.engine.kill(when, write=site.engine.writes + number)
        try:
            run(site)
        except KilledError:
            then(site)
            assert world(site) == before, f"killed {when} write {number}"
            whole(site)
        else:
            assert number > 5, "it was never killed"
            return
    pytest.fail("the run does not end")


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.HALF])
def test_one_fault_of_lxd_at_any_write(tmp_path: Path, fault: Fault) -> None:
    """Errors, lost answers, late writes, stale ETags: nothing is left, by itself or by some ticks."""
    for number in range(1, MOST_WRITES):
        site = make_site(tmp_path)
        newcomer(site, "alice")
        before, writes = world(site), site.engine.writes
        site.engine.inject(fault, write=writes + number)
        with suppress(LxgpuError):
            run(site)
        for _ in range(3):
            with suppress(LxgpuError):
                ticks(site)
        assert world(site) == before, f"{fault} at write {number}"
        whole(site)
        if site.engine.writes - writes < number:
            return
    pytest.fail("the run does not end")


@pytest.mark.parametrize("then", [ticks, recover], ids=["ticks", "command"])
def test_killed_twice(site: Site, then: Callable[[Site], object]) -> None:
    """And whoever takes it away is killed too: the third does."""
    before = world(site)
    stands(site)
    site.engine.kill(When.AFTER, write=site.engine.writes + 2)
    with pytest.raises(KilledError):
        then(site)
    then(site)
    assert world(site) == before
    whole(site)


def test_an_admin_ends_a_run_whole(site: Site) -> None:
    """`lxgpu delete` keeps nothing of it, and leaves the owner's home and keys alone."""
    before = world(site)
    stands(site)
    ending.delete(site, NAME, purge=False)
    assert world(site) == before


@pytest.mark.parametrize(
    "act",
    [
        lambda site: renaming.rename(site, NAME, "bob"),
        lambda site: reshape.resize(site, NAME, Limits(cpu=2)),
        lambda site: renewal.rebuild(site, NAME, image=""),
        lambda site: snapshots.take_snapshot(site, NAME, "s1"),
        lambda site: ending.suspend(site, NAME, reason="holidays"),
        lambda site: access.door(site.engine, site.probe, site.inventory.read(), site.settings, NAME),
    ],
    ids=["rename", "resize", "rebuild", "snapshot", "suspend", "ssh"],
)
def test_what_is_for_lasting_containers_is_refused(site: Site, act: Callable[[Site], object]) -> None:
    """It would be lost with it, or touch the owner's home."""
    stands(site)
    with pytest.raises(LxgpuError) as refused:
        act(site)
    assert refused.value.code == "throw_away"


def test_keys_go_to_the_persons_own_machine(site: Site) -> None:
    """A run of theirs is no place for them, and in nobody's way."""
    stands(site)
    (key,) = site.inventory.read().keys
    keys.remove(site, "alice", key.fingerprint)
    assert site.inventory.read().keys == ()


def test_a_rebuilt_inventory_knows_a_run(site: Site) -> None:
    """By the container's own mark: it is taken away as if nothing had happened, and no home or key comes of it."""
    stands(site)
    found = read_back(observe.look(site), site.engine.server().promises, now=site.clock.now())
    assert found.troubles == []
    assert {row.name: row.kind for row in found.instances} == {"alice": InstanceKind.OWN, NAME: InstanceKind.RUN}
    assert [key.person for key in found.keys] == ["alice"]


def test_lists_show_it_as_a_run_without_login(site: Site) -> None:
    """Whoever looks sees whose it is and what it holds."""
    stands(site)
    items = instance_items(site.inventory.read(), site.engine.instances(), "gpu1")
    shown = {item["name"]: (item["owner"], item["kind"], item["ssh"]["port"], len(item["gpus"])) for item in items}
    assert shown == {"alice": ("alice", "own", 22000, 0), NAME: ("alice", "run", None, 1)}


def test_a_folder_goes_in_and_what_is_asked_for_comes_back(site: Site) -> None:
    """The program starts in it; what cannot be handed back is warned of and changes no status."""
    relay = FakeRelay(status=4)
    job = replace(JOB, copy="/srv/checkout", fetch=("report.xml",))
    assert run(site, relay, job) == (4, [])
    assert relay.handed == ["in /srv/checkout", "out /srv/checkout"]
    assert [call.folder for call, streams in relay.carried if streams is None] == ["/work"]


@pytest.mark.parametrize(
    ("given", "caller", "owner"), [("", "alice", "alice"), ("carol", "root", "carol"), ("", "dave", "dave")]
)
def test_whose_quota_it_is(tmp_path: Path, given: str, caller: str, owner: str) -> None:
    """The person named, else the caller, who is in the inventory or in the policy."""
    policy = replace(lab_policy(), users={"dave": Terms(limit=1)})
    site = make_site(tmp_path, policy=policy)
    newcomer(site, "alice")
    assert runs.whose(site, given, caller) == owner


@pytest.mark.parametrize("caller", ["root", "eve", "Not A Name"])
def test_an_account_that_nobody_knows_has_to_say_whose_it_is(site: Site, caller: str) -> None:
    """Numbers and ports are for life, so no service's account gets them by the way."""
    with pytest.raises(LxgpuError) as refused:
        runs.whose(site, "", caller)
    assert refused.value.code == "usage"


def test_cards_may_be_chosen_by_nobody_else_meanwhile(site: Site) -> None:
    """A card of a run is held as any other."""
    seen: list[set[Slot]] = []

    def hold(_call: object) -> None:
        seen.append({row.slot for row in site.inventory.read().held_by(NAME)})
        newcomer(site, "bob", gpus=1)

    run(site, FakeRelay(during=hold))
    assert not seen[0] & {row.slot for row in site.inventory.read().held_by("bob")}


def test_the_first_run_of_somebody_new_is_undone_beside_the_second(site: Site) -> None:
    """Zoe is known to the policy alone; while her first container is undone her second one counts on her."""
    real, begun = site.engine.start, []

    def start(name: str, **more: object) -> object:
        if not begun:
            begun.append(name)
            create(site, wanted(owner="zoe", gpus=0, name="run-zoe-bbbbbb"))
            raise LxgpuError("engine", "no start for this one")
        return real(name, **more)

    site.engine.start = start  # what LXD does when it is asked the first time
    with pytest.raises(LxgpuError, match="no start"):
        create(site, wanted(owner="zoe", gpus=0, name="run-zoe-aaaaaa"))
    records = site.inventory.read()
    assert [row.name for row in records.instances if row.owner == "zoe"] == ["run-zoe-bbbbbb"]
    assert records.person("zoe") is not None
    assert not [row for row in records.operations if row.live]


def test_a_name_that_is_taken_ends_nobody_elses_run(site: Site) -> None:
    """Two runs of one name, against all odds: the second is refused, the first goes on."""
    refused = []

    def again(_call: object) -> None:
        with pytest.raises(LxgpuError) as error:
            run(site)
        refused.append(error.value.code)
        assert site.inventory.read().instance(NAME) is not None

    assert run(site, FakeRelay(during=again)) == (0, [])
    assert refused == ["conflict"]


def test_a_signal_in_the_last_moment_of_the_copy_is_meant_for_all_of_it(site: Site, tmp_path: Path) -> None:
    """What was copied ended well all the same: the program does not begin."""
    relay = FakeRelay()
    (tmp_path / "code").mkdir()

    def heard(_call: object) -> None:
        relay.hear(15)

    relay.during = heard
    status, _ = run(site, relay, Job(("pytest",), limit_s=60.0, copy=str(tmp_path / "code")))
    assert (status, len(relay.carried)) == (143, 1)
