"""Settings: flag > variable > file > default, and where each value came from."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from lxgpu.config.readers import TABLE, Endpoint
from lxgpu.config.settings import Channel, HostSettings, load_settings
from lxgpu.config.settingsview import settings_rows
from lxgpu.config.sshplace import SshPlace, ssh_place
from lxgpu.errors import LxgpuError

EXAMPLE = Path(__file__).resolve().parents[3] / "packaging" / "config.example.yaml"
NOWHERE = {"LXGPU_CONFIG": ""}


def _config(folder: Path, text: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_flag_over_variable_over_file_over_default(tmp_path):
    """Each level wins over those below, and the origin says which one it was."""
    path = _config(tmp_path, "pool: file\nimage: file\nnetwork:\n  bridge: file\nworkers: 2\n")
    variables = {"LXGPU_CONFIG": str(path), "LXGPU_IMAGE": "variable", "LXGPU_NETWORK_BRIDGE": "variable"}
    found = load_settings({"network.bridge": "flag"}, variables)
    assert (found.pool, found.image, found.network.bridge, found.profile) == ("file", "variable", "flag", "base")
    assert found.workers == 2
    assert {key: found.origins[key] for key in ("config", "pool", "image", "network.bridge", "profile", "hosts")} == {
        "config": "LXGPU_CONFIG",
        "pool": f"{path}:1",
        "image": "LXGPU_IMAGE",
        "network.bridge": "--set network.bridge",
        "profile": "default",
        "hosts": "default",
    }


@pytest.mark.parametrize("setting", TABLE, ids=lambda setting: setting.key)
def test_each_setting_has_a_variable_a_flag_and_a_place_in_the_file(setting, tmp_path):
    """What `config show` prints for a setting can be given in each of the three ways, with the same outcome."""
    other = {"workers": "9", "network.ports": "3000-3001", "network.listen": "10.1.2.3", "nvidia": "off"}
    other |= {"device_rule": "bpf", "quota_unenforced": "refuse", "backup.every": "2h", "backup.keep": "3d"}
    other |= {"web.listen": "10.1.2.3", "web.port": "443", "web.url": "https://gpu.lab.example"}
    other |= {"web.metrics": "off"}
    text = other.get(setting.key, "/x/y" if setting.default.startswith("/") or not setting.default else "other")
    text = {"network.address": "gpu1.lab", "homes": "/homes", "backup.to": "nas"}.get(setting.key, text)
    section, _, name = setting.key.rpartition(".")
    path = _config(tmp_path, f"{section}: {{{name}: {text}}}\n" if section else f"{name}: {text}\n")
    ways = [
        load_settings({setting.key: text}, NOWHERE),
        load_settings({}, {setting.variable: text}),
        load_settings({"config": str(path)}, NOWHERE),
    ]
    rows = [{row.key: row for row in settings_rows(found)}[setting.key] for found in ways]
    assert [row.value for row in rows] == [text] * 3
    assert [row.origin for row in rows] == [setting.flag, setting.variable, f"{path}:1"]


def test_the_example_is_the_defaults():
    """The file that admins start from writes out what holds without it."""
    example, silent = load_settings({"config": str(EXAMPLE)}, {}), load_settings({}, NOWHERE)
    unlike = {"config", "origins"}
    for field in dataclasses.fields(example):
        if field.name not in unlike:
            assert getattr(example, field.name) == getattr(silent, field.name), field.name


def test_hosts_channels_and_images(tmp_path):
    """The structured settings arrive as values."""
    path = _config(
        tmp_path,
        "hosts: [{name: gpu1, engine: incus, socket: /run/i.sock}, {name: gpu2, ssh: root@gpu2}]\n"
        'channels: [{kind: mail, to: "localhost:25", sender: a@b}, {kind: command, to: /bin/tell}]\n'
        'images: {jammy: "ubuntu:22.04"}\n',
    )
    found = load_settings({"config": str(path)}, {})
    assert found.hosts == (
        HostSettings("gpu1", engine="incus", socket="/run/i.sock"),
        HostSettings("gpu2", ssh="root@gpu2"),
    )
    assert found.channels == (Channel("mail", "localhost:25", "a@b"), Channel("command", "/bin/tell"))
    assert found.images == {"jammy": "ubuntu:22.04"}
    assert found.origins["channels"] == f"{path}:2"


def test_hosts_of_which_cards_are_lent(tmp_path):
    """This one, and others with a socket; on those the network is their own as far as it says so."""
    network = "network: {bridge: br0, listen: 192.0.2.1, ports: 22000-22999}\n"
    hosts = "hosts: [{name: a}, {name: b, socket: /run/b, bridge: br1}, {name: c, ssh: c}]\n"
    found = load_settings({"config": str(_config(tmp_path, network + hosts))}, {})
    assert [one.name for one in found.lending] == ["a", "b"]
    assert found.on(found.hosts[0]) is found
    there = found.on(found.hosts[1])
    assert (there.network.bridge, there.network.listen) == ("br1", "192.0.2.1")
    assert there.network.ports == found.network.ports


@pytest.mark.parametrize(
    ("hosts", "told"),
    [
        ("[{name: a, ssh: root@a}]", "1:24: hosts[0].ssh: the first host is the one that lxgpu runs on"),
        ("[{name: a, probe: x}]", "1:26: hosts[0].probe: the first host is the one that lxgpu runs on"),
        ("[{name: a}, {name: b}]", "1:20: hosts[1]: ssh is missing"),
        ("[{name: a}, {name: b, ssh: 'root@'}]", "1:35: hosts[1].ssh: 'root@' is no place for SSH; places are given"),
        ("[{name: a}, {name: b, ssh: 'b:0'}]", "1:35: hosts[1].ssh: 'b:0' is no place for SSH"),
        (
            "[{name: a, listen: 192.0.2.1}]",
            "1:27: hosts[0].listen: of the host that lxgpu runs on it is network.listen",
        ),
        ("[{name: a}, {name: b, ssh: b, bridge: br1}]", "1:46: hosts[1].bridge: it is only looked at"),
        ("[{name: a}, {name: b, ssh: b, socket: /s}]", "1:46: hosts[1].socket: cards behind ssh are only looked at"),
        ('[{name: a}, {name: b, probe: "\'x"}]', '1:37: hosts[1].probe: "\'x" is no command: No closing quotation'),
    ],
)
def test_hosts_that_cannot_be_asked(tmp_path, hosts, told):
    """Refused when they are read, with line and column."""
    path = _config(tmp_path, f"hosts: {hosts}\n")
    with pytest.raises(LxgpuError) as raised:
        load_settings({"config": str(path)}, {})
    (problem,) = raised.value.problems
    assert f"{problem.where.removeprefix(f'{path}:')}: {problem.text}".startswith(told)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("gpu2", SshPlace("root", "gpu2")),
        ("ops@gpu2.lab.example:2222", SshPlace("ops", "gpu2.lab.example", 2222)),
        ("[2001:db8::2]", SshPlace("root", "2001:db8::2")),
        ("ops@[2001:db8::2]:22", SshPlace("ops", "2001:db8::2")),
        ("192.0.2.7", SshPlace("root", "192.0.2.7")),
    ],
)
def test_places_of_hosts(text, place):
    """As `ssh` takes them, with root's account unless said."""
    assert ssh_place(text) == place


@pytest.mark.parametrize("text", ["", "-oProxyCommand=x", "a b", "a:", "a:99999", "@a", "::1", "a@b@c", "a;b", "a\n"])
def test_places_that_are_none(text):
    """Nothing that a program could take for an option or a command."""
    with pytest.raises(LxgpuError):
        ssh_place(text)


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        ("web.url", "https://lab.example/gpu", "leave out /gpu"),
        ("web.url", "ftp://lab.example", "https://gpu.lab.example"),
        ("web.url", "https://lab.example?x", "https://gpu.lab.example"),
        ("web.url", "https://lab.example:0", "https://gpu.lab.example"),
        ("web.metrics", "9470", "127.0.0.1:9470"),
        ("web.metrics", "lab.example:9470", "127.0.0.1:9470"),
        ("web.metrics", "::1:9470", "[::1]:9470"),
        ("web.metrics", "[127.0.0.1]:9470", "127.0.0.1:9470"),
        ("web.metrics", "127.0.0.1:99999", "127.0.0.1:9470"),
        ("web.metrics", "127.0.0.1:", "127.0.0.1:9470"),
    ],
)
def test_places_of_the_page_that_are_none(key, text, why):
    """Refused when they are read, with the form that is right."""
    with pytest.raises(LxgpuError) as raised:
        load_settings({key: text}, NOWHERE)
    assert repr(text) in raised.value.brief
    assert why in " ".join(raised.value.why)


@pytest.mark.parametrize(
    ("text", "found"),
    [("10.0.0.5:9100", Endpoint("10.0.0.5", 9100)), ("[::1]:9470", Endpoint("::1", 9470)), ("off", None)],
)
def test_where_metrics_are_told(text, found):
    """An address and a port, or nowhere; shown as it is written."""
    settings = load_settings({"web.metrics": text}, NOWHERE)
    assert settings.web.metrics == found
    assert {row.key: row.value for row in settings_rows(settings)}["web.metrics"] == text


def test_a_slash_at_the_end_of_the_page_is_no_path():
    """As browsers show it."""
    assert load_settings({"web.url": "https://gpu.lab.example/"}, NOWHERE).web.url == "https://gpu.lab.example"


def test_every_mistake_of_the_file_is_told_at_once(tmp_path):
    """The complete list, each with line and column."""
    path = _config(
        tmp_path,
        "hosts:\n"
        "  - {name: a, engine: docker, socket: x, foo: 1}\n"
        "  - {name: a, ssh: root@a}\n"
        "  - 3\n"
        "network: {brigde: b, listen: 10.1.2, ports: 22000}\n"
        "pol: default\n"
        "image: [base]\n"
        "kernel_log: x\n"
        "workers: 400\n"
        "nvidia: yes\n"
        "keys_command: keys-of\n"
        "backup: {every: 5}\n"
        "channels: [{kind: mail}, {kind: webhook, to: x}, {kind: sms}]\n"
        "images: 3\n"
        "pool:\n"
        "pool: x\n",
    )
    with pytest.raises(LxgpuError) as raised:
        load_settings({"config": str(path)}, {})
    told = [f"{problem.where.removeprefix(f'{path}:')}: {problem.text}" for problem in raised.value.problems]
    wanted = [
        "2:23: hosts[0].engine: 'docker' is not one of auto, lxd, incus",
        "2:39: hosts[0].socket: 'x' is no whole path",
        (
            "2:42: hosts[0].foo: unknown name; known are name, engine, socket, project, ssh, probe, bridge, listen, "
            "address"
        ),
        "3:5: hosts[1]: each host needs a name of its own",
        "4:5: hosts[2]: a mapping (name: value) is wanted",
        "5:11: network.brigde: unknown name; did you mean bridge?",
        "5:30: network.listen: '10.1.2' is no IP address; 0.0.0.0 is every IPv4 address",
        "5:45: network.ports: '22000' is no range of ports; ports are given like 22000-22999, from 1024 to 65535",
        "6:1: pol: unknown name; did you mean pool?",
        "7:8: image: text is wanted: the image that containers are made of",
        "8:13: kernel_log: 'x' is no whole path; a path in the settings starts with /",
        "9:10: workers: '400' is no number of workers; 1 to 64 can work at once",
        "10:9: nvidia: 'yes' is not one of auto, on, off",
        "11:15: keys_command: 'keys-of' does not start with a whole path",
        "12:17: backup.every: '5' is no duration",
        "13:12: channels[0]: to is missing: a mail server, a URL, or a program",
        "13:46: channels[1].to: 'x' is no URL",
        "13:50: channels[2]: kind must be one of mail, webhook, command",
        "14:9: images: a mapping (name: source) is wanted",
        "15:6: pool: text is wanted: the storage pool of containers and homes",
        "16:1: pool: given twice, first in line 15",
    ]
    assert len(told) == len(wanted), "\n".join(told)
    for text, start in zip(told, wanted, strict=True):
        assert text.startswith(start)


@pytest.mark.parametrize(
    ("flags", "variables", "brief"),
    [
        ({}, {"LXGPU_WORKERS": "x"}, "LXGPU_WORKERS: 'x' is no number of workers"),
        ({"network.ports": "5-6"}, {}, "--set network.ports: '5-6' is no range of ports"),
        ({"colour": "red"}, {}, "there is no setting colour"),
    ],
)
def test_a_wrong_flag_or_variable_is_named(flags, variables, brief):
    """The message begins with what was said wrongly."""
    with pytest.raises(LxgpuError) as raised:
        load_settings(flags, NOWHERE | variables)
    assert raised.value.code == "usage"
    assert raised.value.brief == brief


def test_a_file_that_was_asked_for_must_be_there(tmp_path):
    """The default file may be missing; one named by flag or variable may not."""
    for flags, variables in (({"config": str(tmp_path / "no")}, {}), ({}, {"LXGPU_CONFIG": str(tmp_path / "no")})):
        with pytest.raises(LxgpuError, match="cannot be read"):
            load_settings(flags, variables)


def test_relative_paths_on_the_command_line_count_from_here(tmp_path, monkeypatch):
    """As everywhere in a shell; in the file they are refused."""
    monkeypatch.chdir(tmp_path)
    assert load_settings({"policy": "p.yaml"}, NOWHERE).policy == tmp_path / "p.yaml"
    with pytest.raises(LxgpuError):
        load_settings({"config": str(_config(tmp_path, "policy: p.yaml\n"))}, {})


def test_settings_cost_no_pydantic_and_without_a_file_no_yaml(tmp_path):
    """Every command reads them; 150 ms would be felt."""
    program = (
        "import sys; import lxgpu.config.profiles, lxgpu.config.inforce;"
        "from lxgpu.config.settings import load_settings;"
        "load_settings({}, {'LXGPU_CONFIG': sys.argv[1]} if sys.argv[1:] else {});"
        "print(sorted({'yaml', 'pydantic'} & set(sys.modules)))"
    )
    for words, loaded in (([], "[]"), ([str(_config(tmp_path, "pool: a\n"))], "['yaml']")):
        if not words and Path("/etc/lxgpu/config.yaml").exists():
            continue
        ran = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
        assert ran.stdout.strip() == loaded
