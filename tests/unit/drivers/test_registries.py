"""How the host reaches package registries, as pip's own files, variables and the proxies say."""

from __future__ import annotations

import pytest

from lxgpu.drivers.registries import host_registries

OTHER = "https://pypi.lab.example/simple"


def reach(folder, texts=(), **environ):
    """What is found where these are pip's files, the strongest last."""
    files = []
    for number, text in enumerate(texts):
        files.append(str(folder / f"{number}.conf"))
        (folder / f"{number}.conf").write_text(text)
    bundle = folder / "bundle.pem"
    bundle.write_bytes(b"the host's")
    return host_registries(environ, files=(*files, str(folder / "missing.conf")), bundles=("/none", str(bundle)))


def test_a_host_that_says_nothing_takes_the_usual_ones(tmp_path):
    """No variable, and the certificates that the host trusts."""
    found = reach(tmp_path, PATH="/bin", HOME="/root")
    assert (found.environment, found.certificates) == ({}, b"the host's")


def test_the_stronger_counts(tmp_path):
    """A variable over the person's file over the host's; a section for install over global."""
    host = f"[global]\nindex-url = {OTHER}/a\ntimeout = 5\nretries = 1\n[install]\ntrusted-host = a.lab.example\n"
    own = f"[global]\nindex_url = {OTHER}/b\nretries = 2\n"
    found = reach(tmp_path, [host, own], PIP_RETRIES="3").environment
    assert found == {
        "PIP_INDEX_URL": f"{OTHER}/b",
        "PIP_TIMEOUT": "5",
        "PIP_RETRIES": "3",
        "PIP_TRUSTED_HOST": "a.lab.example",
    }


def test_places_of_this_host_mean_nothing_inside(tmp_path):
    """Folders and files are left out, addresses beside them stay; what is not about the way there is not handed on."""
    text = f"[global]\nfind-links = /opt/wheels\nextra-index-url = file:///opt/simple {OTHER}\nuser = yes\n"
    assert reach(tmp_path, [text]).environment == {"PIP_EXTRA_INDEX_URL": OTHER}
    assert reach(tmp_path, ["[global]\nindex-url = file:///opt/simple\n"]).environment == {}


def test_pips_own_certificates_count_more(tmp_path):
    """Those of a file or a variable; where they cannot be read, the host's."""
    own = tmp_path / "own.pem"
    own.write_bytes(b"pip's")
    assert reach(tmp_path, [f"[global]\ncert = {own}\n"]).certificates == b"pip's"
    assert reach(tmp_path, PIP_CERT=str(own)).certificates == b"pip's"
    assert reach(tmp_path, PIP_CERT=str(tmp_path / "none.pem")).certificates == b"the host's"


def test_proxies_are_handed_on(tmp_path):
    """In both spellings."""
    proxies = {
        "http_proxy": "http://proxy.example:3128",
        "HTTPS_PROXY": "http://proxy.example:3128",
        "no_proxy": ".example",
    }
    assert reach(tmp_path, **proxies, SOME_PROXY_LIKE="x").environment == proxies


@pytest.mark.parametrize("text", ["no section\n", "[global]\nindex-url = a\nindex-url = b\n", "\udcff"])
def test_a_broken_file_says_nothing(tmp_path, text):
    """As pip's next installation would complain of it, where somebody sees it."""
    (tmp_path / "broken.conf").write_text(text, errors="surrogateescape")
    assert host_registries({}, files=(str(tmp_path / "broken.conf"),), bundles=()).environment == {}
