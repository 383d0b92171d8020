"""`lxgpu image`: what gets in, what is used, and what may go."""

from __future__ import annotations

import pytest
from fakes.faults import Fault
from fakes.site import make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.policy.drift import TEMPLATE_PREFIX
from lxgpu.ports import Change, Ran
from lxgpu.services import imagestore
from lxgpu.services.images import READY


def _file(folder, text="an image"):
    path = folder / "image.tar"
    path.write_text(text)
    return path


def _templates(site):
    return {name for _, name in site.engine.machines if name.startswith(TEMPLATE_PREFIX)}


def _all_profiles(site):
    return [site.profile("base"), site.profile("cpu-only")]


def test_an_image_is_prepared_when_it_comes(tmp_path):
    """After build or import the first container is a copy: its template is there, and ls says so."""
    site = make_site(tmp_path)
    image = imagestore.bring(site, _file(tmp_path), alias="mine")
    (view,) = [view for view in imagestore.views(site) if view.name == "mine"]
    assert (view.fingerprint, view.prepared, view.containers, view.used) == (image.fingerprint, True, 0, False)
    (template,) = _templates(site)
    assert site.engine.instance(template).config["user.lxgpu.template"] == READY


def test_bringing_it_again_changes_nothing(tmp_path):
    """Repeating the command makes no second image and no second template."""
    site = make_site(tmp_path)
    first = imagestore.bring(site, _file(tmp_path), alias="mine")
    before = _templates(site)
    assert imagestore.bring(site, _file(tmp_path), alias="mine").fingerprint == first.fingerprint
    assert _templates(site) == before


def test_an_unusable_image_leaves_nothing_and_takes_no_name(tmp_path):
    """Its preparation failed: no image, no template, and the name leads where it led before."""
    site = make_site(tmp_path)
    old = site.engine.images()
    site.engine.programs["sh"] = lambda _argv, _stdin: Ran(3, "the image has no systemd\n")
    with pytest.raises(LxgpuError) as error:
        imagestore.bring(site, _file(tmp_path), alias="base")
    assert error.value.code == "image_unusable"
    assert "no systemd" in " ".join(error.value.why)
    assert site.engine.images() == old
    assert _templates(site) == set()


def test_an_interrupted_import_is_taken_up_again(tmp_path):
    """Ctrl-C while it is prepared: no name yet, no half template; the same command ends it."""
    site = make_site(tmp_path)
    good = site.engine.programs["sh"]

    def interrupted(_argv, _stdin):
        raise KeyboardInterrupt

    site.engine.programs["sh"] = interrupted
    with pytest.raises(KeyboardInterrupt):
        imagestore.bring(site, _file(tmp_path), alias="mine")
    assert [image.aliases for image in site.engine.images()] == [("base",), ()]
    assert _templates(site) == set()
    site.engine.programs["sh"] = good
    imagestore.bring(site, _file(tmp_path), alias="mine")
    assert [view.prepared for view in imagestore.views(site) if view.name == "mine"] == [True]


def test_a_template_that_cannot_be_removed_does_not_hide_the_interruption(tmp_path):
    """The interruption is what is told; what is left is said, and prune takes it away."""
    site = make_site(tmp_path)

    def interrupted(_argv, _stdin):
        site.engine.inject(Fault.ERROR, call="delete")
        raise KeyboardInterrupt

    site.engine.programs["sh"] = interrupted
    with pytest.raises(KeyboardInterrupt):
        imagestore.bring(site, _file(tmp_path), alias="mine")
    (left,) = _templates(site)
    assert any(left in line and "image prune" in line for line in site.say.lines)
    imagestore.prune(site, imagestore.waste(site, _all_profiles(site)))
    assert _templates(site) == set()
    assert [image.aliases for image in site.engine.images()] == [("base",)]


def test_what_is_used_is_never_pruned(tmp_path):
    """A container's image stays when its name has moved on, and so does the template of the image in use."""
    site = make_site(tmp_path)
    newcomer(site, "alice")
    (old,) = site.engine.images()
    new = imagestore.bring(site, _file(tmp_path), alias="base")
    found = imagestore.waste(site, _all_profiles(site), named=True)
    assert found.images == ()
    assert found.templates == ()
    (view,) = [view for view in imagestore.views(site) if view.fingerprint == old.fingerprint]
    assert (view.name, view.containers, view.used) == (None, 1, True)
    assert new.fingerprint != old.fingerprint


def test_what_nobody_uses_goes(tmp_path):
    """A former base image without containers goes with its template; the plan lists both first."""
    site = make_site(tmp_path)
    first = imagestore.bring(site, _file(tmp_path, "first"), alias="base")
    old = _templates(site)
    second = imagestore.bring(site, _file(tmp_path, "second"), alias="base")
    found = imagestore.waste(site, _all_profiles(site))
    assert first.fingerprint in {image.fingerprint for image in found.images}
    assert set(found.templates) == old
    assert {step.instance for step in found.plan().steps} >= old
    imagestore.prune(site, found)
    assert [image.fingerprint for image in site.engine.images()] == [second.fingerprint]
    assert _templates(site).isdisjoint(old)


def test_a_named_image_goes_only_when_asked_for(tmp_path):
    """Somebody gave it a name, so somebody may want it: --all takes it too."""
    site = make_site(tmp_path)
    imagestore.bring(site, _file(tmp_path), alias="mine")
    assert imagestore.waste(site, _all_profiles(site)).images == ()
    assert [image.aliases for image in imagestore.waste(site, _all_profiles(site), named=True).images] == [("mine",)]


def test_what_was_taken_into_use_meanwhile_stays(tmp_path):
    """Between the plan and the deed somebody made a container of it."""
    site = make_site(tmp_path)
    image = imagestore.bring(site, _file(tmp_path), alias="mine")
    found = imagestore.waste(site, _all_profiles(site), named=True)
    site.engine.create("quick", source=f"image:{image.fingerprint}", change=Change(), profiles=[])
    imagestore.prune(site, found)
    assert image.fingerprint in {one.fingerprint for one in site.engine.images()}


def test_a_template_in_another_hand_stays(tmp_path):
    """It is being made, so its lock is held."""
    site = make_site(tmp_path)
    imagestore.bring(site, _file(tmp_path), alias="mine")
    found = imagestore.waste(site, _all_profiles(site), named=True)
    site.locks.others.update(found.templates)
    imagestore.prune(site, found)
    assert _templates(site) == set(found.templates)


def test_a_container_that_only_sounds_like_a_template_stays(tmp_path):
    """Somebody else's instance is never touched, whatever its name."""
    site = make_site(tmp_path)
    site.engine.add_stranger(f"{TEMPLATE_PREFIX}mine", devices={})
    assert imagestore.waste(site, _all_profiles(site)).templates == ()


def test_two_at_once_do_not_meet(tmp_path):
    """While another lxgpu brings or prunes images, this one says so and changes nothing."""
    site = make_site(tmp_path)
    site.locks.others.add(imagestore.LOCK)
    for call in (
        lambda: imagestore.bring(site, _file(tmp_path), alias="mine"),
        lambda: imagestore.prune(site, imagestore.waste(site, _all_profiles(site))),
    ):
        with pytest.raises(LxgpuError) as error:
            call()
        assert error.value.code == "conflict"
    assert len(site.engine.images()) == 1
