"""The cache of base images: built once a recipe, shared by all labs, never half there."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lxgpu.lab.image import build_root
from lxgpu.lab.image_recipe import SUITE, recipe_key
from lxgpu.lab.paths import cache_dir
from lxgpu.lab.programs import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PREFIX, HALF = "base-", ".build-"
KEPT_S = 30 * 24 * 3600
METADATA = """\
architecture: {architecture}
creation_date: {created}
properties:
  description: lxgpu base, Debian {suite}
  os: Debian
  release: {suite}
templates: {{}}
"""


def cached_image() -> Path:
    """Where the image of the present recipe lies, or would."""
    return cache_dir() / f"{PREFIX}{recipe_key()}.tar"


def ensure_image(progress: Callable[[str], None]) -> Path:
    """The base image as a tar that LXD can import; built when there is none of the present recipe yet."""
    image = cached_image()
    if image.exists():
        os.utime(image)
        return image
    with _locked(progress):
        if not image.exists():
            _build(image, progress)
        return image


def purge_cache() -> None:
    """Remove all cached images, waiting for a build that is under way."""
    if cache_dir().is_dir():
        with _locked(lambda _: None):
            for path in cache_dir().glob(f"{PREFIX}*"):
                path.unlink()
            _remove_halves()


def _build(image: Path, progress: Callable[[str], None]) -> None:
    progress("image: building the base image, once (about a minute)")
    _remove_halves()
    _remove_old()
    work = Path(tempfile.mkdtemp(prefix=HALF, dir=image.parent))
    try:
        root = work / "rootfs"
        root.mkdir(mode=0o755)
        build_root(root, progress)
        metadata = METADATA.format(architecture=os.uname().machine, created=int(time.time()), suite=SUITE)
        (work / "metadata.yaml").write_text(metadata)
        progress("image: packing")
        fresh = work / "image.tar"
        tar = ["tar", "--numeric-owner", "--xattrs", "--one-file-system", "-C", str(work), "-cf", str(fresh)]
        run([*tar, "metadata.yaml", "rootfs"], limit=600)
        fresh.replace(image)
    finally:
        shutil.rmtree(work)
    progress(f"image: ready, {image.stat().st_size >> 20} MiB in {image}")


def _remove_halves() -> None:
    for folder in cache_dir().glob(f"{HALF}*"):
        shutil.rmtree(folder)


def _remove_old() -> None:
    """Images of other recipes go when nobody has built or wanted one for a month."""
    for path in cache_dir().glob(f"{PREFIX}*"):
        if time.time() - path.stat().st_mtime > KEPT_S:
            path.unlink()


@contextmanager
def _locked(progress: Callable[[str], None]) -> Iterator[None]:
    cache_dir().mkdir(mode=0o755, parents=True, exist_ok=True)
    with (cache_dir() / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("image: waiting for a build that is under way")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
