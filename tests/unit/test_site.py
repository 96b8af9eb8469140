"""The site: its pages list exactly what there is, in every form and view, and a rebuild touches what changed only."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urljoin
from zipfile import ZipFile

import mousebender.simple
import pytest
from packaging.utils import parse_wheel_filename
from pypi_simple import ProjectPage
from simple_repository import parser as simple_repository

from metawheel import inputs
from metawheel.cli.build import incomplete
from metawheel.errors import UpstreamAlarm
from metawheel.family import load_families
from metawheel.inputs import Options, make_plan
from metawheel.ledger import load
from metawheel.model import UpstreamFile
from metawheel.upstream.mirrors import Mirror, mirrored
from tests.fakes.ledgers import (
    JAXLIB,
    TORCH,
    UPSTREAM,
    build_site,
    families_in,
    jaxlib_files,
    pypi_folder,
    torch_files,
    wheel,
    write_family,
)

BASE = "http://site.invalid/"
# As JAXLIB, with builds that have a label on a page of upstream's own.
MIXED = JAXLIB.replace(
    "[[plugin]]", f'[[source]]\nname = "up"\nkind = "links"\nurl = "{UPSTREAM}"\nprojects = ["jaxlib"]\n\n[[plugin]]'
)
LABELLED = wheel("jaxlib-0.4.4+cuda11-cp311-cp311-manylinux2014_x86_64.whl", "cuda11")


def _names(site: Path, project: str) -> set[str]:
    return {item.filename for item in _read(site, site / "simple" / project).packages}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    families_in(folder)
    return folder


@pytest.fixture(scope="module")
def pypi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pypi_folder(tmp_path_factory.mktemp("pypi"), jaxlib_files())


@pytest.fixture(scope="module")
def site(packages: Path, pypi: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("out") / "site"
    build_site(packages, folder, pypi=pypi)
    return folder


def _indexes(site: Path) -> list[Path]:
    return sorted(path.parent for path in site.glob("**/simple/index.html"))


def _pages(site: Path) -> list[Path]:
    return sorted(path.parent for index in _indexes(site) for path in index.glob("*/index.html"))


def _read(site: Path, page: Path) -> ProjectPage:
    url = f"{BASE}{page.relative_to(site).as_posix()}/"
    return ProjectPage.from_html(page.name, (page / "index.html").read_text(encoding="utf-8"), url)


def test_pages_list_exactly_the_wheels_on_disk(site: Path) -> None:
    merged = (path.parent for path in (site / "simple").glob("*/index.html"))
    urls = {item.url for page in merged for item in _read(site, page).packages}
    listed = {unquote(url.removeprefix(BASE)) for url in urls if url.startswith(BASE)}
    assert listed == {f"files/{path.name}" for path in (site / "files").glob("*.whl")}
    assert len(listed) > 10


def test_the_site_holds_the_planned_wrappers_and_nothing_else(packages: Path, site: Path) -> None:
    planned = {name for wrapper in make_plan(load_families(packages), Options()).wrappers for name in wrapper.wheels}
    assert {path.name for path in (site / "files").iterdir()} == planned | {f"{name}.metadata" for name in planned}


def test_every_sha256_and_metadata_hash_on_a_page_is_that_of_the_file(site: Path) -> None:
    for page in _pages(site):
        for item in _read(site, page).packages:
            if item.url.startswith(BASE):
                path = site / unquote(item.url.removeprefix(BASE))
                sidecar = path.with_name(f"{path.name}.metadata").read_bytes()
                assert item.digests == {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
                assert item.metadata_digests == {"sha256": hashlib.sha256(sidecar).hexdigest()}
                with ZipFile(path) as archive:
                    info = "-".join(path.name.split("-")[:2]) + ".dist-info"
                    assert archive.read(f"{info}/METADATA") == sidecar


def test_root_pages_list_exactly_the_project_pages(site: Path) -> None:
    for index in _indexes(site):
        there = {path.name for path in index.iterdir() if path.is_dir()}
        html = (index / "index.html").read_text(encoding="utf-8")
        assert {item["name"] for item in mousebender.simple.from_project_index_html(html)["projects"]} == there
        assert {item["name"] for item in json.loads((index / "index.json").read_bytes())["projects"]} == there
        assert {item.name for item in simple_repository.parse_html_project_list(html).projects} == there


Fact = tuple[str, str, object, object, object, object]
Reader = Callable[[str, str, Path, str], tuple[list[Fact], list[Fact]]]


def _key(base: str, name: str, url: str, sha256: object, python: object, yanked: object, metadata: object) -> Fact:
    return name, urljoin(base, url).partition("#")[0], sha256, python, yanked or False, json.dumps(metadata)


def _by_mousebender(html: str, data: str, page: Path, base: str) -> tuple[list[Fact], list[Fact]]:
    pages = mousebender.simple.from_project_details_html(html, page.name), json.loads(data)
    sidecar = "core-metadata"
    one, two = (
        [
            _key(base, f["filename"], f["url"], f["hashes"], f.get("requires-python"), f.get("yanked"), f.get(sidecar))
            for f in found["files"]
        ]
        for found in pages
    )
    return one, two


def _by_simple_repository(html: str, data: str, page: Path, base: str) -> tuple[list[Fact], list[Fact]]:
    pages = (
        simple_repository.parse_html_project_page(html, page.name),
        simple_repository.parse_json_project_page(data),
    )
    one, two = (
        [
            _key(base, f.filename, f.url, f.hashes, f.requires_python, f.yanked, f.dist_info_metadata)
            for f in found.files
        ]
        for found in pages
    )
    return one, two


def _by_pypi_simple(html: str, data: str, page: Path, base: str) -> tuple[list[Fact], list[Fact]]:
    pages = ProjectPage.from_html(page.name, html, base), ProjectPage.from_json_data(json.loads(data), base)
    one, two = (
        [
            _key(base, f.filename, f.url, f.digests, f.requires_python, f.yanked_reason, f.metadata_digests)
            for f in found.packages
        ]
        for found in pages
    )
    return one, two


@pytest.mark.parametrize("read", [_by_mousebender, _by_simple_repository, _by_pypi_simple])
def test_html_and_json_say_the_same(site: Path, read: Reader) -> None:
    for page in _pages(site):
        base = f"{BASE}{page.relative_to(site).as_posix()}/"
        html, data = ((page / name).read_text(encoding="utf-8") for name in ("index.html", "index.json"))
        one, two = read(html, data, page, base)
        assert one == two
        assert [fact[0] for fact in one] == [item.filename for item in _read(site, page).packages]


def test_json_pages_list_their_versions(site: Path) -> None:
    for page in _pages(site):
        data = json.loads((page / "index.json").read_bytes())
        assert set(data["versions"]) == {str(parse_wheel_filename(file["filename"])[1]) for file in data["files"]}
        assert data["name"] == page.name
        sized = all("size" in file for file in data["files"])
        assert data["meta"]["api-version"] == ("1.1" if sized else "1.0")  # PEP 700 asks for every size


def test_upstream_links_carry_the_ledgers_facts_and_no_other(packages: Path, site: Path) -> None:
    ledger = {file.filename: file for family in load_families(packages) for file in load(family.ledger_path)}
    seen = set()
    for page in _pages(site):
        for item in _read(site, page).packages:
            if not item.url.startswith(BASE):
                file = ledger[item.filename]
                assert item.digests == {"sha256": file.sha256}
                assert not item.has_metadata
                assert item.requires_python == file.requires_python
                assert item.url == (file.url or f"https://files.invalid/{file.filename}")
                seen.add(item.filename)
    assert seen == set(ledger)


def _site_of(tmp_path: Path, files: Iterable[UpstreamFile], options: Options | None = None) -> Path:
    write_family(tmp_path / "packages" / "torch", TORCH, files)
    build_site(tmp_path / "packages", tmp_path / "site", options)
    return tmp_path / "site"


@pytest.mark.parametrize(("metadata", "stated"), [("0" * 64, {"sha256": "0" * 64}), ("true", True)])
def test_a_metadata_hash_is_handed_on_where_upstream_serves_metadata(
    tmp_path: Path, metadata: str, stated: object
) -> None:
    first, *others = [file for file in torch_files() if file.project == "torch"]
    site = _site_of(tmp_path, [replace(first, metadata=metadata), *others])
    data = json.loads((site / "simple" / "torch" / "index.json").read_bytes())
    found = {file["filename"]: file["core-metadata"] for file in data["files"] if "core-metadata" in file}
    assert found == {first.filename: stated}


def test_a_view_lists_its_backend_and_plain_builds_only_and_is_part_of_the_merged_site(site: Path) -> None:
    merged = {page.name: _read(site, page).packages for page in _pages(site) if page.parent.parent == site}
    views = [index for index in _indexes(site) if index.parent != site]
    assert {view.parent.name for view in views} == {"cpu", "cu116", "cu117", "cuda12"}
    for view in views:
        backend = view.parent.name
        for page in (path.parent for path in view.glob("*/index.html")):
            found = _read(site, page).packages
            assert found
            theirs = {(item.filename, tuple(item.digests.items())) for item in merged[page.name]}
            assert {(item.filename, tuple(item.digests.items())) for item in found} <= theirs
            if page.name in ("torch", "torchvision"):
                labels = {parse_wheel_filename(item.filename)[1].local for item in found}
                assert labels == {backend, None}, "plain builds too: macOS gets them"
            elif page.name.startswith("torch"):
                assert page.name == f"torch-{backend}"


def test_without_pypi_the_pages_that_stay_incomplete_are_named_and_what_it_costs(tmp_path: Path) -> None:
    packages, site = tmp_path / "packages", tmp_path / "site"
    write_family(packages / "jaxlib", MIXED, [LABELLED, *jaxlib_files("0.4.4"), *jaxlib_files()])
    empty = pypi_folder(tmp_path / "empty", [])
    built = build_site(packages, site, pypi=empty)
    assert built.incomplete == ("jax-cuda12-pjrt", "jax-cuda12-plugin", "jaxlib")
    assert "jaxlib" in incomplete(built)
    assert "uv looks no further than the first index" in incomplete(built)
    assert _names(site, "jaxlib") == {LABELLED.filename}
    assert not (site / "simple" / "jax-cuda12-plugin").exists(), "a client then asks its next index"
    full = pypi_folder(tmp_path / "pypi", [*jaxlib_files("0.4.4"), *jaxlib_files()])
    again = build_site(packages, site, pypi=full)
    assert again.incomplete == ()
    assert again.built == 0
    assert (site / "simple" / "jax-cuda12-plugin").is_dir()
    assert {file.filename for file in jaxlib_files() if file.project == "jaxlib"} < _names(site, "jaxlib")


def test_a_page_of_pypi_with_another_sha256_than_the_ledger_is_an_alarm(tmp_path: Path) -> None:
    write_family(tmp_path / "packages" / "jaxlib", JAXLIB, jaxlib_files())
    first, *others = jaxlib_files()
    pypi = pypi_folder(tmp_path / "pypi", [replace(first, sha256="f" * 64), *others])
    with pytest.raises(UpstreamAlarm, match=first.filename):
        build_site(tmp_path / "packages", tmp_path / "site", pypi=pypi)
    assert not (tmp_path / "site").exists()


def test_a_hash_that_the_ledger_lacks_is_no_alarm(tmp_path: Path) -> None:
    write_family(tmp_path / "packages" / "jaxlib", JAXLIB, [replace(file, sha256=None) for file in jaxlib_files()])
    pypi = pypi_folder(tmp_path / "pypi", jaxlib_files())
    build_site(tmp_path / "packages", tmp_path / "site", Options(allow_unhashed=True), pypi=pypi)


def test_two_ledgers_that_disagree_on_a_files_sha256_are_an_alarm(tmp_path: Path) -> None:
    write_family(tmp_path / "packages" / "one", TORCH, torch_files())
    other = [replace(file, sha256="f" * 64) for file in torch_files()]
    write_family(tmp_path / "packages" / "two", f'prefix = "acme-"\n{TORCH}', other)
    with pytest.raises(UpstreamAlarm, match="two ledgers disagree"):
        build_site(tmp_path / "packages", tmp_path / "site")


def test_a_mirror_rewrites_the_targets_of_upstream_links(tmp_path: Path) -> None:
    mirror = Mirror.parse(f"{UPSTREAM}=http://mirror.invalid/torch/")
    site = _site_of(tmp_path, torch_files(), Options(mirrors=(mirror,)))
    for page in _pages(site):
        assert UPSTREAM not in (page / "index.html").read_text(encoding="utf-8")
        assert UPSTREAM not in (page / "index.json").read_text(encoding="utf-8")
    found = {item.filename: item.url for item in _read(site, site / "simple" / "torch").packages}
    for file in torch_files():
        if file.project == "torch":
            assert found[file.filename] == f"http://mirror.invalid/torch/{(file.url or '').removeprefix(UPSTREAM)}"


def test_a_mirror_s_folder_is_the_same_wherever_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    relative = Mirror.parse(f"{UPSTREAM}=100%25 here")
    assert relative == Mirror.parse(f"{UPSTREAM}={tmp_path / '100%25 here'}")
    monkeypatch.chdir("/")
    assert mirrored(f"{UPSTREAM}torch-1%2Bcpu.whl", [relative]) == (tmp_path / "100%25 here/torch-1+cpu.whl").as_uri()


def test_what_an_installer_compiled_makes_no_other_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "metawheel"
    shutil.copytree(Path(inputs.__file__).parent, program, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(inputs, "__file__", str(program / "inputs.py"))
    before = inputs.digest([], Options())
    (program / "templates" / "__pycache__").mkdir()
    (program / "templates" / "__pycache__" / "hatch_build.cpython-312.pyc").write_bytes(b"compiled at noon")
    assert inputs.digest([], Options()) == before
    (program / "templates" / "people" / "people.js").write_text("", encoding="utf-8")
    assert inputs.digest([], Options()) != before


HOSTILE = """<script>alert("1")</script>&'</a>"""


def test_hostile_text_from_upstream_is_escaped_on_every_page_and_read_back_as_it_was(tmp_path: Path) -> None:
    files = [replace(file, yanked=HOSTILE) for file in torch_files() if file.project == "torch"]
    site = _site_of(tmp_path, files)
    for page in _pages(site):
        for name in ("index.html", "index.json"):
            assert name.endswith("json") or "<script" not in (page / name).read_text(encoding="utf-8")
        reasons = {item.yanked_reason for item in _read(site, page).packages}
        assert reasons == {HOSTILE}
        assert {file["yanked"] for file in json.loads((page / "index.json").read_bytes())["files"]} == {HOSTILE}
