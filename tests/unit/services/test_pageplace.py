"""What is odd about where the page is served: told, each with what would be right; and nothing of what is usual."""

from __future__ import annotations

import pytest

from lxgpu.config.readers import Endpoint
from lxgpu.config.settings import WebSettings
from lxgpu.services.pageplace import metrics_told, oddities


@pytest.mark.parametrize(
    "web",
    [
        WebSettings(),
        WebSettings(url="http://localhost:8470"),
        WebSettings(port=80, url="http://localhost"),
        WebSettings(listen="::1", url="http://[::1]:8470"),
        WebSettings(url="https://gpu.lab.example"),
        WebSettings(url="http://gpu.lab.example"),
        WebSettings(url="https://localhost"),
        WebSettings(listen="10.0.0.5", url="https://gpu.lab.example"),
    ],
)
def test_what_is_usual_is_not_told(web):
    """The page's own port on this host, and proxies in front of it, wherever they are."""
    assert list(oddities(web)) == []


@pytest.mark.parametrize(
    "web",
    [
        WebSettings(port=9000),
        WebSettings(url="http://127.0.0.1:9000"),
        WebSettings(url="http://localhost"),
        WebSettings(url="http://[::1]"),
        WebSettings(url="http://127.0.0.2:80"),
    ],
)
def test_links_that_lead_elsewhere_are_told(web):
    """They name this very host and a port that is not the page's, said or left out."""
    (odd,) = oddities(web)
    assert odd.text == f"links lead to {web.url}, and the page listens on port {web.port}"
    assert "web.url" in odd.remedy


@pytest.mark.parametrize("listen", ["::", "10.0.0.5"])
def test_http_for_the_network_is_told(listen):
    """A session goes over the wire as it is."""
    (odd,) = oddities(WebSettings(listen=listen, url="http://gpu.lab.example:8470"))
    assert listen in odd.text
    assert "https" in odd.remedy


@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        (None, 0),
        (Endpoint("127.0.0.1", 9470), 0),
        (Endpoint("::1", 9470), 0),
        (Endpoint("::", 9470), 1),
        (Endpoint("10.0.0.5", 9470), 1),
    ],
)
def test_metrics_for_the_network_are_told(metrics, told):
    """They have names in them."""
    found = list(metrics_told(WebSettings(metrics=metrics)))
    assert len(found) == told
    assert all(str(metrics) in odd.text and "firewall" in odd.remedy for odd in found)
