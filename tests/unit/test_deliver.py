"""Publishing as static files: one step, nothing of what was published changes, and only a whole site goes out."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from metawheel import released
from metawheel.check import check_site
from metawheel.cli import app
from metawheel.errors import MetawheelError, OutputError, PublishError
from metawheel.model import Artifact
from metawheel.publish import deliver
from metawheel.publish.deliver import Delivered, to_folder, to_store
from metawheel.publish.store import Store, content_type
from metawheel.site import MANIFEST, Manifest
from metawheel.swap import Stage, staged
from tests.fakes.ledgers import TORCH, build_site, torch_files, write_family

FILES = [file for file in torch_files() if file.project == "torch"]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METAWHEEL_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sites: `new` has one more release than `old`, and an old release yanked."""
    folder = tmp_path_factory.mktemp("sites")
    old = [file for file in torch_files("1.12.1") if file.project == "torch"]
    for name, files in (("old", old), ("new", [*(replace(file, yanked="broken") for file in old), *FILES])):
        write_family(folder / f"packages-{name}" / "torch", TORCH, files)
        build_site(folder / f"packages-{name}", folder / name)
    return folder


@pytest.fixture
def old(sites: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sites / "old", tmp_path / "old"))


@pytest.fixture
def new(sites: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sites / "new", tmp_path / "new"))


@pytest.fixture
def web(tmp_path: Path) -> Path:
    return tmp_path / "web" / "root"


def _content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _identity(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of every file and of every folder."""
    found = {path.relative_to(folder).as_posix(): path.stat() for path in [folder, *folder.rglob("*")]}
    return {path: (stat.st_ino, stat.st_mtime_ns) for path, stat in found.items()}


def _edit(site: Path, edit: Callable[[Manifest], Manifest]) -> None:
    manifest = Manifest.load(site)
    assert manifest is not None
    (site / MANIFEST).write_bytes(edit(manifest).dump())


def _refused(kind: type[MetawheelError], match: str, site: Path, folder: Path, **how: Any) -> None:
    """Publishing is refused, and not a file in the folder or beside it is touched."""
    before = _identity(folder.parent) if folder.parent.exists() else None
    with pytest.raises(kind, match=match):
        to_folder(site, folder, **how)
    assert (_identity(folder.parent) if folder.parent.exists() else None) == before


def test_a_published_folder_is_the_site_as_a_whole(new: Path, web: Path) -> None:
    (new / "notes.txt").write_text("mine", encoding="utf-8")  # no part of the site
    done = to_folder(new, web)
    (new / "notes.txt").unlink()
    assert _content(web) == _content(new)
    assert check_site(web) == []
    assert done == Delivered(written=(*sorted(_content(new).keys() - {MANIFEST}), MANIFEST))
    assert [path.name for path in web.parent.iterdir()] == ["root"]
    assert not any(path.stat().st_mode & 0o022 for path in web.rglob("*"))


def test_publishing_the_same_state_again_touches_nothing(new: Path, web: Path) -> None:
    to_folder(new, web)
    before = _identity(web.parent)
    assert to_folder(new, web) == Delivered(unchanged=len(_content(new)) - 1)
    assert _identity(web.parent) == before


def test_an_update_leaves_what_did_not_change_the_same_files(old: Path, new: Path, web: Path) -> None:
    to_folder(old, web)
    before, first = _identity(web), _content(web)
    done = to_folder(new, web)
    after, second = _identity(web), _content(web)
    assert second == _content(new)
    assert set(done.written) == {path for path in second if first.get(path) != second[path]}
    assert done.unchanged == len(second) - len(done.written)
    same = set(second) - set(done.written)
    assert {path for path in same if path.startswith("files/")} == {path for path in first if path.startswith("files/")}
    assert {path: before[path] for path in same} == {path: after[path] for path in same}


def test_what_is_damaged_in_the_folder_is_put_right(new: Path, web: Path) -> None:
    to_folder(new, web)
    page = web / "simple" / "torch" / "index.html"
    page.unlink()
    page.write_text("damaged", encoding="utf-8")
    assert to_folder(new, web).written == ("simple/torch/index.html", MANIFEST)
    assert _content(web) == _content(new)


def test_a_folder_that_is_not_ours_is_refused(new: Path, web: Path) -> None:
    web.mkdir(parents=True)
    (web / "index.html").write_text("mine", encoding="utf-8")
    _refused(OutputError, "is not a site of metawheel", new, web)


def test_a_folder_without_a_site_cannot_be_published(tmp_path: Path, web: Path) -> None:
    _refused(OutputError, "metawheel build", tmp_path / "nothing", web)


def test_a_folder_inside_the_site_is_refused(new: Path) -> None:
    _refused(OutputError, "lies in the site", new, new / "web")


def test_a_site_published_to_itself_stays_as_it_is(new: Path) -> None:
    before = _identity(new)
    assert to_folder(new, new).written == ()
    assert _identity(new) == before


@pytest.mark.parametrize("path", ["files/{wheel}", "files/{wheel}.metadata", "simple/index.json"])
@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_a_site_that_is_not_whole_is_not_published(old: Path, new: Path, web: Path, path: str, damage: str) -> None:
    to_folder(old, web)
    name = next(path.name for path in sorted((new / "files").glob("*-1.13.1-*.whl")))
    place = new / path.format(wheel=name)
    place.unlink()
    if damage == "changed":
        place.write_bytes(b"damaged")
    _refused(OutputError, f"{place.name}: .*metawheel check", new, web)


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "simple/../../secret"])
def test_a_manifest_that_points_out_of_its_site_is_refused(new: Path, web: Path, path: str) -> None:
    (new.parent / "secret").write_bytes(b"")
    _edit(new, lambda manifest: replace(manifest, pages={**manifest.pages, path: "0" * 64}))
    _refused(OutputError, "is missing", new, web)


def test_a_published_wheel_never_gets_other_content_under_its_name(old: Path, new: Path, web: Path) -> None:
    name = next(path.name for path in sorted((old / "files").glob("*.whl")))

    def other(manifest: Manifest) -> Manifest:
        changed: Artifact = replace(manifest.wheels[name], sha256="0" * 64)
        return replace(manifest, wheels={**manifest.wheels, name: changed})

    to_folder(old, web)
    _edit(web, other)
    with pytest.raises(PublishError, match=name) as caught:
        to_folder(new, web, allow_removal=True)
    assert caught.value.exit_code == 12
    _refused(PublishError, "never changes under its name", new, web)


def test_a_published_wheel_is_removed_only_on_demand(old: Path, new: Path, web: Path) -> None:
    to_folder(new, web)
    lost = _content(new).keys() - _content(old).keys()
    _refused(PublishError, r"\(and \d+ more\) is published but not in this site", old, web)
    assert to_folder(old, web, allow_removal=True).removed == tuple(sorted(lost))
    assert _content(web) == _content(old)


def test_a_folder_that_another_run_changed_meanwhile_is_left_alone(old: Path, new: Path, web: Path) -> None:
    @contextmanager
    def later(folder: Path) -> Iterator[Stage]:
        patch.undo()
        to_folder(new, folder)
        with staged(folder) as stage:
            yield stage

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deliver, "staged", later)
        with pytest.raises(OutputError, match="meanwhile"):
            to_folder(old, web)
    assert _content(web) == _content(new)


def test_what_a_run_killed_between_two_renames_took_away_is_put_back_and_still_counts_as_published(
    old: Path, new: Path, web: Path
) -> None:
    to_folder(new, web)
    published = _content(web)
    web.rename(web.parent / ".root.new-abc-old")  # where folders cannot be exchanged
    shutil.copytree(old, web.parent / ".root.new-abc")
    with pytest.raises(PublishError, match="not in this site"):
        to_folder(old, web)
    assert _content(web) == published
    assert [path.name for path in web.parent.iterdir()] == ["root"]


def test_what_cannot_be_recorded_is_not_published(new: Path, web: Path) -> None:
    def refuse() -> None:
        raise OutputError("the disk is full")

    with pytest.raises(OutputError, match="the disk is full"):
        to_folder(new, web, begun=refuse)
    assert not web.exists()


class Shelf:
    """A store in memory, which takes nothing but files while it is `broken`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.broken = False
        self.objects: dict[str, bytes] = {}

    def paths(self) -> dict[str, int]:
        return {path: len(content) for path, content in self.objects.items()}

    def manifest(self) -> Manifest:
        return Manifest.parse(self.objects[MANIFEST], MANIFEST, "")

    def sha256(self, path: str) -> str:
        return hashlib.sha256(self.objects[path]).hexdigest()

    def put(self, path: str, content: bytes) -> None:
        if self.broken and not path.startswith("files/"):
            raise PublishError(f"{self.url}: did not answer")
        self.objects[path] = content

    def delete(self, path: str) -> None:
        del self.objects[path]


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    made = Shelf("s3://bucket/prefix")
    monkeypatch.setattr(Store, "open", lambda *_: made)
    return made


def test_a_wheel_that_a_store_has_in_another_size_is_noticed(new: Path, shelf: Shelf) -> None:
    to_store(new, shelf.url, lambda done, total: None)
    name = next(path for path in sorted(shelf.objects) if path.endswith(".whl"))
    shelf.objects[name] += b"x"
    before = dict(shelf.objects)
    with pytest.raises(PublishError, match=f"{name.removeprefix('files/')} was published with other content"):
        to_store(new, shelf.url, lambda done, total: None)
    assert shelf.objects == before


def test_a_store_that_breaks_off_leaves_recorded_what_it_has(tmp_path: Path, shelf: Shelf) -> None:
    family = write_family(tmp_path / "packages" / "torch", TORCH, FILES)
    build_site(tmp_path / "packages", tmp_path / "site")
    where = ["--packages", str(tmp_path / "packages"), "--to-store", shelf.url]
    shelf.broken = True
    done = CliRunner().invoke(app, ["publish", str(tmp_path / "site"), *where])
    assert "did not answer" in str(done.exception)
    wheels = {path.removeprefix("files/") for path in shelf.objects if path.endswith(".whl")}
    assert wheels
    assert {name for item in released.load(family) for name in item.wheels} == wheels
    shelf.broken = False
    assert CliRunner().invoke(app, ["publish", str(tmp_path / "site"), *where]).exit_code == 0


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("files/torch_cpu-1.0-py3-none-any.whl", "application/octet-stream"),
        ("files/torch_cpu-1.0-py3-none-any.whl.metadata", "text/plain; charset=utf-8"),
        ("simple/torch-cpu/", "text/html; charset=utf-8"),
        ("simple/index.html", "text/html; charset=utf-8"),
        ("cu116/simple/torch/index.json", "application/vnd.pypi.simple.v1+json"),
        ("metawheel.json", "application/json"),
        ("changes.atom", "application/atom+xml"),
    ],
)
def test_a_stores_objects_have_the_media_types_of_the_simple_api(path: str, kind: str) -> None:
    assert content_type(path) == kind


def test_every_kind_of_file_of_a_site_but_wheels_has_a_media_type(new: Path) -> None:
    kinds = {path: content_type(path) for path in _content(new) if not path.endswith(".whl")}
    assert [path for path, kind in kinds.items() if kind == "application/octet-stream"] == []


@pytest.mark.parametrize("url", ["bucket/prefix", "https://bucket/prefix", "s3://", "s3://name:secret@bucket/x"])
def test_an_address_that_is_no_buckets_is_refused(new: Path, url: str) -> None:
    with pytest.raises(PublishError, match="s3://bucket/prefix") as caught:
        to_store(new, url, lambda done, total: None)
    assert "secret" not in str(caught.value)


def test_an_endpoint_with_a_password_in_it_is_refused_and_not_repeated(new: Path) -> None:
    with pytest.raises(PublishError, match="set those for boto3") as caught:
        to_store(new, "s3://bucket", lambda done, total: None, endpoint_url="http://name:secret@127.0.0.1:9/")
    assert "secret" not in str(caught.value)


def test_without_boto3_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("boto3", "boto3.session"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(PublishError, match="its extra, s3"):
        Store.open("s3://bucket/prefix")
