"""A site is replaced in one step: whoever reads it meets the old state or the new, and what stays is not touched."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from metawheel import swap
from metawheel.errors import OutputError
from metawheel.family import load_families
from metawheel.inputs import Options
from metawheel.ledger import load, save
from metawheel.swap import Stage, staged
from tests.fakes.ledgers import TORCH, build_site, torch_files, wheel, write_family

FILES = [file for file in [*torch_files(), *torch_files("1.12.1")] if file.project == "torch"]


def _snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of every file and of every folder."""
    found = {path.relative_to(folder).as_posix(): path.stat() for path in [folder, *folder.rglob("*")]}
    return {path: (stat.st_ino, stat.st_mtime_ns) for path, stat in found.items()}


def _list_more(place: Path) -> None:
    (family,) = load_families(place / "packages")
    new = wheel("torch-1.13.1+cu116-cp312-cp312-linux_x86_64.whl", "cu116")
    save(family.ledger_path, [*load(family.ledger_path), new])


def _content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METAWHEEL_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first")
    write_family(folder / "packages" / "torch", TORCH, FILES)
    build_site(folder / "packages", folder / "site")
    return folder


@pytest.fixture
def place(first: Path, tmp_path: Path) -> Path:
    shutil.copytree(first, tmp_path / "place")
    return tmp_path / "place"


def test_a_rebuild_with_nothing_changed_touches_nothing(place: Path) -> None:
    before = _snapshot(place / "site")
    built = build_site(place / "packages", place / "site")
    assert built.unchanged
    assert _snapshot(place / "site") == before
    assert {path.name for path in place.iterdir()} == {"packages", "site", "cache"}


def test_a_new_upstream_wheel_changes_its_wrappers_and_the_pages_that_list_them_only(place: Path) -> None:
    before, old = _snapshot(place / "site"), _content(place / "site")
    _list_more(place)
    built = build_site(place / "packages", place / "site")
    after, content = _snapshot(place / "site"), _content(place / "site")

    changed = {path for path in {*old, *content} if before.get(path) != after.get(path)} - {"metawheel.json"}
    folders = [f"{index}/{project}" for index in ("simple", "cu116/simple") for project in ("torch", "torch-cu116")]
    pages = {f"{folder}/index.{form}" for folder in folders for form in ("html", "json")}
    pages |= {"index.html", "wrappers/torch-cu116.html", "static/people.json"}  # for people
    pages |= {"CHANGES.json", "changes.atom"}
    wheels = {path for path in changed if path.startswith("files/torch_cu116-1.13.1-")}
    assert changed - wheels == pages
    assert wheels
    assert changed == set(built.changed)
    assert {path for path in {*old, *content} if old.get(path) != content.get(path)} == {*changed, "metawheel.json"}


def test_what_was_removed_from_a_ledger_is_gone_from_the_site(place: Path) -> None:
    (family,) = load_families(place / "packages")
    save(family.ledger_path, [file for file in FILES if str(file.release) == "1.13.1"])
    build_site(place / "packages", place / "site")
    assert not list((place / "site" / "files").glob("*-1.12.1-*"))
    assert list((place / "site" / "files").glob("*-1.13.1-*"))


@pytest.mark.parametrize(
    ("inside", "text"), [("notes.txt", "mine"), ("metawheel.json", "[1, 2]"), ("metawheel.json", '{"site": 99}')]
)
def test_a_folder_that_is_not_ours_is_refused_and_untouched(
    first: Path, tmp_path: Path, inside: str, text: str
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / inside).write_text(text, encoding="utf-8")
    before = _snapshot(theirs)
    with pytest.raises(OutputError, match="theirs"):
        build_site(first / "packages", theirs)
    assert _snapshot(theirs) == before
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_an_empty_folder_becomes_a_site(first: Path, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    assert not build_site(first / "packages", tmp_path / "site").unchanged
    assert _content(tmp_path / "site") == _content(first / "site")


@pytest.mark.parametrize("below", ["", "/site"])
def test_a_place_that_cannot_be_written_is_an_output_error(first: Path, tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(OutputError, match="file"):
        build_site(first / "packages", tmp_path / f"file{below}", Options(offline=True))
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def _lay(folder: Path, generation: int) -> None:
    """A state of which each part names its generation; pages name the files by their digests."""
    with staged(folder) as stage:
        data = f"{generation}" * 1000
        name = hashlib.sha256(data.encode()).hexdigest()
        stage.write(f"files/{name}", data.encode())
        for number in range(3):
            stage.write(f"simple/{number}/index.html", f"{generation} {name}\n".encode() * 100)
        stage.write("kept", b"always the same")
        stage.complete = True


def _state(folder: Path) -> int:
    """The generation that a folder holds; fails if it is not whole."""
    content = _content(folder)
    page = content["simple/0/index.html"]
    generation, name = page.decode().split("\n")[0].split()
    data = f"{generation}".encode() * 1000
    assert content == {
        f"files/{name}": data,
        "kept": b"always the same",
        **{f"simple/{number}/index.html": f"{generation} {name}\n".encode() * 100 for number in range(3)},
    }
    return int(generation)


def _stop(stage: Stage) -> None:
    stage.write("half", b"")
    raise KeyboardInterrupt


def test_an_exception_in_the_middle_leaves_the_old_state_and_nothing_else(tmp_path: Path) -> None:
    _lay(tmp_path / "site", 1)
    before = _snapshot(tmp_path / "site")

    with pytest.raises(KeyboardInterrupt), staged(tmp_path / "site") as stage:
        _stop(stage)
    assert _snapshot(tmp_path / "site") == before
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    _lay(tmp_path / "site", 1)
    shutil.copytree(tmp_path / "site", tmp_path / ".site.new-killed")
    (tmp_path / ".other.new-1").mkdir()
    _lay(tmp_path / "site", 2)
    assert {path.name for path in tmp_path.iterdir()} == {"site", ".other.new-1"}
    assert _state(tmp_path / "site") == 2


def test_a_site_that_is_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    _lay(tmp_path / "real", 1)
    (tmp_path / "site").symlink_to("real")
    _lay(tmp_path / "site", 2)
    assert _state(tmp_path / "real") == 2
    assert (tmp_path / "site").is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"real", "site"}


@pytest.mark.parametrize("below", [".", "files"])
def test_the_folder_that_one_is_in_is_not_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    _lay(tmp_path / "site", 1)
    monkeypatch.chdir(tmp_path / "site" / below)
    with pytest.raises(OutputError, match="you are in it"):
        _lay(tmp_path / "site", 2)
    assert _state(tmp_path / "site") == 1


def test_who_is_nowhere_is_in_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    _lay(tmp_path / "site", 1)
    assert _state(tmp_path / "site") == 1


def test_a_site_is_readable_for_a_web_server_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        _lay(tmp_path / "www" / "wheels" / "site", 1)
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "www", *(tmp_path / "www").rglob("*"))}
    assert modes == {0o755, 0o644}


def test_two_runs_do_not_write_one_folder_at_a_time(tmp_path: Path) -> None:
    _lay(tmp_path / "site", 1)
    with staged(tmp_path / "site"), pytest.raises(OutputError, match="another metawheel is writing it"):
        _lay(tmp_path / "site", 2)
    assert _state(tmp_path / "site") == 1, "and a state that is not complete takes no place"


def test_a_cache_that_cannot_be_written_is_an_output_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("METAWHEEL_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(OutputError, match="name another folder in METAWHEEL_CACHE"):
        _lay(tmp_path / "site", 1)


@dataclass
class _Watch:
    """Looks at a folder after every change to the file system, or stops before one of them."""

    folder: Path
    stop_at: int | None = None
    states: list[int] = field(default_factory=list)
    steps: int = 0

    def on(self, patch: pytest.MonkeyPatch) -> None:
        for name in ("rename", "replace", "unlink", "rmdir", "link", "mkdir", "chmod"):
            patch.setattr(os, name, self._wrapped(getattr(os, name)))
        patch.setattr(swap, "_exchange", self._wrapped(swap._exchange))

    def _wrapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            self.steps += 1
            if self.steps == self.stop_at:
                raise KeyboardInterrupt
            result = call(*args, **kwargs)
            if self.stop_at is None:
                self.states.append(_state(self.folder))
            return result

        return step


def test_at_every_step_the_old_state_or_the_new_is_there_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    _lay(site, 1)
    watch = _Watch(site)
    with monkeypatch.context() as patch:
        watch.on(patch)
        _lay(site, 2)
    assert watch.steps > 10
    assert watch.states == sorted(watch.states)
    assert set(watch.states) == {1, 2}


@pytest.mark.parametrize("exchange", [True, False], ids=["folders are exchanged", "folders cannot be exchanged"])
def test_stopped_at_any_step_a_whole_state_is_there_and_the_next_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, exchange: bool
) -> None:
    site = tmp_path / "site"
    if not exchange:
        monkeypatch.setattr(swap, "_exchange", lambda *_: False)
    _lay(site, 1)
    for step in range(1, 200):
        watch = _Watch(site, stop_at=step)
        before = _state(site)
        with monkeypatch.context() as patch:
            watch.on(patch)
            try:
                _lay(site, before + 1)
            except KeyboardInterrupt:
                if not exchange:  # the next run looks first
                    swap.tidy(site)
                assert _state(site) in (before, before + 1)
                continue
        break
    assert step > 10
    assert _state(site) == before + 1
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_a_disk_that_is_full_in_the_middle_is_an_output_error_and_the_old_state_stays(tmp_path: Path) -> None:
    site = tmp_path / "site"
    _lay(site, 1)
    with pytest.raises(OutputError, match=r"site: cannot be written: No space left on device"), staged(site):
        raise OSError(28, "No space left on device", "files/x")
    assert _state(site) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_a_file_system_without_hard_links_will_do(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    _list_more(place)
    other = shutil.copytree(place, place.with_name("other"))
    build_site(other / "packages", other / "site")
    monkeypatch.setattr(os, "link", refused)
    build_site(place / "packages", place / "site")
    assert _content(place / "site") == _content(other / "site")


def _look(site: Path, seen: list[int]) -> None:
    """Read a page and the file that it names, as a client does."""
    place = site / "simple" / "0" / "index.html"
    page = place.read_bytes()
    (line,) = set(page.decode().splitlines())
    assert page == f"{line}\n".encode() * 100, "a page is not whole"
    generation, name = line.split()
    try:
        data = (site / "files" / name).read_bytes()
    except FileNotFoundError:
        assert place.read_bytes() != page, "a page links a file that is not there"
    else:
        assert hashlib.sha256(data).hexdigest() == name, "a file is not whole"
        seen.append(int(generation))


def test_a_reader_meets_whole_states_only_while_the_site_is_rebuilt_again_and_again(tmp_path: Path) -> None:
    site, done = tmp_path / "site", threading.Event()
    _lay(site, 1)
    seen: list[int] = []
    failed: list[AssertionError] = []

    def read() -> None:
        while not done.is_set():
            # The system may find the site in the old state and look for the page when that has been removed.
            with suppress(FileNotFoundError):
                try:
                    _look(site, seen)
                except AssertionError as error:
                    failed.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for generation in range(2, 120):
            _lay(site, generation)
    finally:
        done.set()
        reader.join()
    _look(site, seen)
    assert failed == []
    assert seen == sorted(seen)
    assert seen[-1] == 119
