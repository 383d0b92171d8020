"""What the daemon serves, as sections of its turns: the containers' sockets, and the door of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from lxgpu.config.settings import PAGE_FOLDER
from lxgpu.errors import LxgpuError

if TYPE_CHECKING:
    from lxgpu.api.serving import Sockets
    from lxgpu.services.guest import Guests
    from lxgpu.services.site import Site

_PAGE_CONNECTIONS, _PAGE_THREADS = 64, 4


def doors(
    wake: Callable[[], None], *, guest_folder: Callable[[str], str], page_folder: Callable[[], str]
) -> Mapping[str, Callable[[Site], tuple[str, ...]]]:
    """The sections by name; each is called at every turn, and gives what troubles it while it goes on.

    They are made at the first turn, since their libraries take a third of a second. `wake` lets the next turn begin.
    The folders are a container's and the page's, made where they are not there.
    """
    both = Doors(wake, guest_folder, page_folder)
    return {"guest sockets": both.guests, "the page's door": both.page}


class Doors:
    """Both kinds of sockets, over the same uses; each has a loop and threads of its own, so that neither waits."""

    def __init__(
        self, wake: Callable[[], None], guest_folder: Callable[[str], str], page_folder: Callable[[], str]
    ) -> None:
        self._wake, self._guest_folder, self._page_folder = wake, guest_folder, page_folder
        self._site: Site | None = None
        self._uses: Guests | None = None
        self._guests: Sockets | None = None
        self._page: Sockets | None = None

    def guests(self, site: Site) -> tuple[str, ...]:
        """Serve the containers there are; those that could not be served, with the reason.

        Raises:
            LxgpuError: `unavailable`, when nobody can be.
        """
        self._site = site
        if self._guests is None:
            self._guests = self._guest_sockets()
        rows = site.inventory.read().instances
        # One of a single run has no `gpu`, and its folder goes with it at any moment.
        return _followed(self._guests, [row.name for row in rows if row.state == "ready" and not row.throw_away])

    def page(self, site: Site) -> tuple[str, ...]:
        """Serve the page's process.

        Raises:
            LxgpuError: `unavailable`.
        """
        self._site = site
        if self._page is None:
            self._page = self._page_sockets()
        return _followed(self._page, [PAGE_FOLDER])

    def close(self) -> None:
        """Close all sockets; the daemon itself just ends."""
        for sockets in (self._guests, self._page):
            if sockets is not None:
                sockets.close()
        self._guests = self._page = None

    def _guest_sockets(self) -> Sockets:
        try:
            from lxgpu.api.app import guest_apps  # noqa: PLC0415
            from lxgpu.api.serving import Sockets  # noqa: PLC0415
        except ImportError as error:
            raise _without("`gpu` inside is answered by nobody", error) from error
        return Sockets(guest_apps(self._asked()), self._guest_folder)

    def _page_sockets(self) -> Sockets:
        try:
            from lxgpu.api.page import page_app  # noqa: PLC0415
            from lxgpu.api.serving import Bounds, Sockets  # noqa: PLC0415
        except ImportError as error:
            raise _without("the page can show, and change nothing", error) from error
        from lxgpu.services.visits import Visits  # noqa: PLC0415

        app = page_app(Visits(self._now), self._asked())
        bounds = Bounds(connections=_PAGE_CONNECTIONS, pace_s=0.0, threads=_PAGE_THREADS, thread_name="page")
        return Sockets(lambda _: app, lambda _: self._page_folder(), bounds)

    def _asked(self) -> Guests:
        from lxgpu.services.guest import Guests  # noqa: PLC0415

        self._uses = self._uses or Guests(self._now, self._wake)
        return self._uses

    def _now(self) -> Site:
        assert self._site is not None  # noqa: S101 -- nobody is served before the first turn
        return self._site


def _followed(sockets: Sockets, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{name}: {text}" for name, text in sorted(sockets.follow(names).items()))


def _without(what: str, error: ImportError) -> LxgpuError:
    fix = "install lxgpu with all that it names as its needs, and restart the daemon"
    return LxgpuError("unavailable", what, why=str(error), fix=fix)
