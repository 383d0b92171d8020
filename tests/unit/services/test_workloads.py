"""What a profile brings: packages when its template is made, services that answer before a container counts as made."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace

import pytest
from fakes.site import make_site, newcomer

from lxgpu.config.profiles import load_profile
from lxgpu.errors import LxgpuError
from lxgpu.model.profile import Profile, Service
from lxgpu.policy.drift import TEMPLATE_PREFIX
from lxgpu.ports import Ran, Registries
from lxgpu.services import access, ending, imagestore
from lxgpu.services.images import CERTIFICATES

NOTEBOOK = Service("notebook", title="Notebook", command="/bin/notebook", ports=(8888,), hint="see the manual")
PROFILE = Profile("base", pip=("jupyterlab~=4.4",), services=(NOTEBOOK, Service("second", "Second", "/bin/second")))


@pytest.fixture
def site(tmp_path):
    """A host whose profile has two services; `silent` are those that do not answer."""
    return make_site(tmp_path, profiles={"base": PROFILE})


def fails(site, *names, said="notebook: no such module\n"):
    """Let services of these names not answer."""
    usual = site.engine.programs["sh"]

    def shell(argv, stdin):
        if tuple(argv[3:4]) == ("start",):
            return Ran(1, said) if argv[4] in names else Ran(0, "")
        return usual(argv, stdin)

    site.engine.programs["sh"] = shell


def started(site):
    """The services that were waited for, in order."""
    return [argv[4] for _, argv in site.engine.ran if argv[3:4] == ("start",)]


def test_a_container_is_made_when_its_services_answer(site):
    """Each of them is waited for, after the person's account was given."""
    newcomer(site, "alice")
    assert started(site) == ["notebook", "second"]
    account = next(argv[2] for name, argv in site.engine.ran if name == "alice" and "owner.conf" in argv[2])
    assert "/etc/systemd/system/notebook.service" in account


def test_one_that_does_not_answer_leaves_nothing(site):
    """In a home that was made just now: no container, no home, and what the service said."""
    fails(site, "second")
    with pytest.raises(LxgpuError) as error:
        newcomer(site, "alice")
    assert (error.value.code, error.value.brief) == ("service_failed", "Second does not answer in alice")
    assert error.value.why == ("notebook: no such module",)
    assert "lxgpu image build --profile base" in error.value.fix
    assert site.engine.instance("alice") is None
    assert not site.engine.has_volume(site.settings.pool, "home-alice")


def test_in_a_home_that_was_there_it_is_said(site):
    """What is wrong may lie there, and only inside can its person mend it."""
    newcomer(site, "alice")
    ending.delete(site, "alice", purge=False)
    fails(site, "notebook")
    newcomer(site, "alice")
    (told,) = [line for line in site.say.lines if "does not answer" in line]
    assert told == (
        "Notebook does not answer in alice (notebook: no such module); lxgpu exec alice -- systemctl status notebook"
    )


def test_packages_come_as_the_host_gets_them(site):
    """Its variables and certificates are there for the one program that installs, which takes the latter away."""
    given = []
    usual = site.engine.run

    def run(name, argv, *, environment, timeout_s, stdin=b""):
        given.append((name, dict(environment), argv[2]))
        return usual(name, argv, environment=environment, timeout_s=timeout_s, stdin=stdin)

    site.engine.run = run
    reach = Registries({"PIP_INDEX_URL": "https://pypi.lab.example/simple"}, b"certificates")
    newcomer(replace(site, registries=lambda: reach), "alice")
    templates = [one for one in given if one[0].startswith(TEMPLATE_PREFIX)]
    assert [one[1] for one in templates] == [{**reach.environment, "PIP_CERT": CERTIFICATES}]
    assert site.engine.machines["default", templates[0][0]].files[CERTIFICATES].content == b"certificates"
    assert f"rm -f {CERTIFICATES}" in templates[0][2]
    assert not any(one[1] for one in given if one[0] == "alice")


def test_packages_that_cannot_be_had_are_told_with_the_command_to_try_again(site):
    """No template is left, nor anything of a container."""
    site.engine.programs["sh"] = lambda _argv, _stdin: Ran(1, "ERROR: No matching distribution found\n")
    with pytest.raises(LxgpuError) as error:
        newcomer(site, "alice")
    assert error.value.code == "image_unusable"
    assert error.value.fix.startswith("lxgpu image build --profile base --alias base tries again")
    assert not site.engine.machines


def test_an_image_is_prepared_for_a_profile_beforehand(site):
    """`image build --profile`: then create makes no template; a second time nothing is done."""
    imagestore.prepare(site, "base", PROFILE)
    before, ran = set(site.engine.machines), len(site.engine.ran)
    imagestore.prepare(site, "base", PROFILE)
    assert len(site.engine.ran) == ran
    newcomer(site, "alice")
    assert set(site.engine.machines) - before == {("default", "alice")}


@pytest.mark.parametrize("name", ["jupyter", "triton"])
def test_the_scripts_of_a_shipped_profile_are_whole(name, tmp_path):
    """A shell reads both scripts, and systemd each unit, without a word."""
    profile = load_profile(name, None)
    shipped = make_site(tmp_path, profiles={"base": profile})
    newcomer(shipped, "alice")
    scripts = [argv[2] for _, argv in shipped.engine.ran if argv[:2] == ("sh", "-c")]
    for script in scripts:
        done = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    unit = scripts[0].split("<<'UNIT'\n")[-1].partition("\nUNIT\n")[0]
    (service,) = profile.services
    assert f"ExecStart={service.command}\n" in unit
    path = tmp_path / f"{name}.service"
    lines = [f"{line.partition('=')[0]}=/bin/true" if line.startswith("Exec") else line for line in unit.splitlines()]
    path.write_text("\n".join(lines) + "\n")
    done = subprocess.run(
        [shutil.which("systemd-analyze") or "systemd-analyze", "verify", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in done.stderr.splitlines() if path.name in line and "man page" not in line] == []


def test_the_lines_for_a_service_are_apart_from_the_containers_own(site):
    """A name of its own with the ports forwarded; one without ports has none."""
    way = access.Door("alice", "base", "alice.host1", "gpu1.lab.example", "198.51.100.7", 22000, "alice", ())
    assert access.tunnels(site.texts, way, PROFILE.services) == (
        "# Notebook: ssh -N alice-notebook, then http://127.0.0.1:8888; see the manual\n"
        "Host alice-notebook\n    HostName gpu1.lab.example\n    Port 22000\n    User alice\n"
        "    HostKeyAlias alice.host1\n    ServerAliveInterval 30\n"
        "    LocalForward 8888 127.0.0.1:8888\n    ExitOnForwardFailure yes\n"
    )
    assert "LocalForward" not in access.stanza(site.texts, way)
