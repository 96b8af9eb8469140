"""The pages for people: all that the plan has is on them, and nothing in them can be made to do anything."""

from __future__ import annotations

import dataclasses
import json
import re
from itertools import chain, groupby
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from bs4 import BeautifulSoup, Tag

from metawheel.check import check_site
from metawheel.coverage import coverage, platform_name
from metawheel.errors import FamilyError
from metawheel.family import Family, load_families, load_family
from metawheel.inputs import Options, make_plan
from metawheel.model import Artifact, Omission, Platform
from metawheel.people.overview import backend_name, group
from metawheel.people.pages import pages
from metawheel.people.setups import PLACEHOLDER, clients, platform_values, python_name, python_values
from metawheel.plan import Plan
from metawheel.site import HostedFiles
from metawheel.upstream.mirrors import Mirror
from tests.fakes.ledgers import PACKAGES, TORCH, UPSTREAM, build_site, families_in, torch_files, write_family

BASE = "http://site.invalid/"
HOSTILE = "</code></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\u202e"
KINDS = (
    "torch-cpu",
    "torch-cu116",
    "torch-cu128",
    "torch-cuda",
    "jaxlib-cuda11",
    "jaxlib-cuda11-cudnn82",
    "jax-cuda13",
)
MARKUP = re.compile(r"[^/]+\.html|wrappers/.+\.html")


def wheels_of(plan: Plan) -> dict[str, Artifact]:
    """Made-up wheels of a plan."""
    names = [name for wrapper in plan.wrappers for name in wrapper.wheels]
    return {
        name: Artifact(filename=name, sha256=f"{n:064x}", size=n, metadata_sha256="") for n, name in enumerate(names)
    }


def rendered(families: tuple[Family, ...], plan: Plan, url: str = "") -> dict[str, bytes]:
    return pages(families, plan, wheels_of(plan), HostedFiles(urls={}), url=url)


def soups(found: dict[str, bytes]) -> dict[str, BeautifulSoup]:
    """The HTML pages, read as browsers read them."""
    return {path: BeautifulSoup(page, "html5lib") for path, page in found.items() if MARKUP.fullmatch(path)}


@pytest.fixture(scope="module")
def families() -> tuple[Family, ...]:
    return load_families(PACKAGES)


@pytest.fixture(scope="module")
def everything(families: tuple[Family, ...]) -> Plan:
    """All that the repository's own ledgers give."""
    return make_plan(families, Options())


@pytest.fixture(scope="module")
def plan(everything: Plan) -> Plan:
    """Some of it, of every kind: the pages of all are large to hold as trees."""
    return dataclasses.replace(
        everything,
        wrappers=tuple(wrapper for wrapper in everything.wrappers if wrapper.name in KINDS),
        omissions=tuple(omission for omission in everything.omissions if omission.wrapper in KINDS),
    )


@pytest.fixture(scope="module")
def found(families: tuple[Family, ...], plan: Plan) -> dict[str, bytes]:
    return rendered(families, plan)


@pytest.fixture(scope="module")
def read(found: dict[str, bytes]) -> dict[str, BeautifulSoup]:
    return soups(found)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple[Family, ...], Plan]:
    """A family of one release, for pages that are looked at in every detail."""
    family = write_family(tmp_path_factory.mktemp("small") / "torch", TORCH, torch_files())
    return (family,), make_plan((family,), Options())


def _change(plan: Plan, **changes: object) -> Plan:
    """A plan whose torch-cu116 is another."""
    changed = (
        dataclasses.replace(wrapper, **changes) if wrapper.name == "torch-cu116" else wrapper  # type: ignore[arg-type]
        for wrapper in plan.wrappers
    )
    return dataclasses.replace(plan, wrappers=tuple(changed))


def _body(page: BeautifulSoup, version: str) -> Tag:
    body = page.find(id=f"v{version}")
    assert isinstance(body, Tag)
    return body


def _table(table: Tag) -> list[list[str]]:
    return [[cell.get_text() for cell in row.find_all(["th", "td"])] for row in table.find_all("tr")]


def test_every_version_is_on_its_wrappers_page_with_its_lines_files_and_hashes(
    families: tuple[Family, ...], everything: Plan
) -> None:
    wheels = wheels_of(everything)
    found = rendered(families, everything)
    for name, wrappers in groupby(everything.wrappers, key=lambda wrapper: wrapper.name):
        page = BeautifulSoup(found.pop(f"wrappers/{name}.html"), "html5lib")
        bodies = {str(body["id"]): body for body in page.select(".body") if str(body["id"]).startswith("v")}
        for wrapper in wrappers:
            body = bodies.pop(f"v{wrapper.version}")
            codes = [code.get_text().splitlines() for code in body.select("pre > code")]
            assert codes == [list(wrapper.requires), *(list(lines) for _, lines in wrapper.extras)]
            rows = [row for row in body.select("table.files tbody tr") if row.td is not None]
            said = {(str(row.td.get_text()), row.find_all("td")[2].get_text().strip()) for row in rows if row.td}
            names = {name: wheels[name].sha256 for name in wrapper.wheels}
            names |= {file.filename: str(file.sha256) for file in wrapper.files}
            assert said == {(name.split("-", 2)[2].removesuffix(".whl"), sha256) for name, sha256 in names.items()}
            assert {str(link["href"]) for link in body.select("table.files a")} == {
                *(f"../files/{name}" for name in wrapper.wheels),
                *(file.url for file in wrapper.files if file.url is not None),
            }
        assert not bodies
    assert not [path for path in found if path.startswith("wrappers/")]


def test_a_versions_map_has_every_cell_in_words(plan: Plan, read: dict[str, BeautifulSoup]) -> None:
    for wrapper in plan.wrappers:
        table = _body(read[f"wrappers/{wrapper.name}.html"], wrapper.version).select_one("table.map")
        assert table is not None
        covered = coverage(wrapper)
        header, *rows = _table(table)
        assert header == ["Platform", *(python_name(python) for python in covered.interpreters)]
        assert [row[1:] for row in rows] == [[build or "–" for build in builds] for _, builds in covered.rows]


def test_the_map_of_all_versions_names_the_newest_that_covers_a_cell(
    plan: Plan, read: dict[str, BeautifulSoup]
) -> None:
    table = read["wrappers/torch-cu116.html"].select_one("table.map")
    assert table is not None
    header, *rows = _table(table)
    versions = [wrapper for wrapper in plan.wrappers if wrapper.name == "torch-cu116"]  # oldest first
    said = {(row[0], python): text for row in rows for python, text in zip(header[1:], row[1:], strict=True)}
    for (platform, python), text in said.items():
        there = [
            wrapper.version
            for wrapper in versions
            for cell in wrapper.cells
            if (platform_name(cell.platform), python_name(cell.python)) == (platform, python)
        ]
        since = f"from {there[0]}" if len(there) > 1 else ""
        assert text == (f"{there[-1]}{since}" if there else "–")


def test_colour_never_says_more_than_text(read: dict[str, BeautifulSoup]) -> None:
    cells = read["wrappers/torch-cu116.html"].select(".version table.map td")
    for cell in cells:
        kind = "none" if cell.get_text() == "–" else "own" if "+" in cell.get_text() else "plain"
        assert cell["class"] == [kind]
    assert {str(cell["class"][0]) for cell in cells} == {"own", "plain", "none"}
    plain_is_its_own = read["wrappers/torch-cpu.html"].select(".version table.map td")
    assert {str(cell["class"][0]) for cell in plain_is_its_own} == {"own", "none"}


def test_the_matrix_is_the_plan(families: tuple[Family, ...], plan: Plan, read: dict[str, BeautifulSoup]) -> None:
    left_out = {(omission.wrapper, omission.version) for omission in plan.omissions}
    emitted = {(wrapper.name, wrapper.release): wrapper for wrapper in plan.wrappers}
    seen = set()
    tables = read["matrix.html"].select("table.matrix")
    assert len(tables) == len({family.project for family in families})
    for table in tables:
        header, *rows = _table(table)
        for row in rows:
            for name, text in zip(header[1:], row[1:], strict=True):
                key = (name, row[0])
                wrapper = emitted.get(key)
                platforms = {cell.platform for cell in wrapper.cells} if wrapper else ()
                assert text == (str(len(platforms)) if wrapper else "?" if key in left_out else "–")
                seen.add(key)
    assert seen >= emitted.keys()


def test_every_link_leads_to_a_page_a_place_on_it_or_upstream(
    plan: Plan, found: dict[str, bytes], read: dict[str, BeautifulSoup]
) -> None:
    there = {"changes.atom", "simple/", *found, *(f"files/{name}" for name in wheels_of(plan))}
    there |= {f"simple/{wrapper.name}/" for wrapper in plan.wrappers}
    there |= {f"{wrapper.view}/simple/" for wrapper in plan.wrappers}
    upstream = {file.url for wrapper in plan.wrappers for file in wrapper.files}
    places = {path: {tag["id"] for tag in page.select("[id]")} for path, page in read.items()}
    for path, page in read.items():
        for tag in page.select("[href], [src]"):
            url = str(tag.get("href") or tag.get("src"))
            if url in upstream:
                continue
            target = urlsplit(urljoin(BASE + path, url))
            assert url == "#main" or target.path.lstrip("/") in there, f"{path}: {url}"
            if target.fragment and target.fragment.partition("=")[0] != "wrapper":  # that is the picker's
                assert unquote(target.fragment) in places[target.path.lstrip("/")]


def test_the_policy_is_strict_and_pages_hold_to_it(read: dict[str, BeautifulSoup]) -> None:
    for path, page in read.items():
        policy = page.find("meta", attrs={"http-equiv": "Content-Security-Policy"})
        assert isinstance(policy, Tag)
        directives = {name: rest for name, *rest in map(str.split, str(policy["content"]).split(";"))}
        assert directives["default-src"] == ["'none'"]
        assert set(chain(*directives.values())) == {"'none'", "'self'"}
        # What comes before the policy is not under it.
        assert policy.find_all_previous(["script", "link", "style"]) == []
        for tag in page.find_all(True):
            assert tag.name not in {"style", "iframe", "object", "embed", "base"}
            assert tag.name != "script" or (not tag.get_text() and tag["src"])
            assert not [name for name in tag.attrs if name.startswith("on") or name == "style"], path


def _hostile(small: tuple[tuple[Family, ...], Plan], text: str) -> tuple[tuple[Family, ...], Plan]:
    families, plan = small
    wrapper = next(wrapper for wrapper in plan.wrappers if wrapper.name == "torch-cu116")
    files = tuple(dataclasses.replace(file, url=f"javascript:{text}", yanked=text) for file in wrapper.files)
    omission = Omission(wrapper=wrapper.name, version=wrapper.release, what=text, reason=text)
    older = Omission(wrapper=wrapper.name, version="0.1", what=text, reason=text)
    line = f"torch==1 ; platform_version == '{text.replace(chr(34), '').replace(chr(39), '')}'"
    changes = {"summary": text, "yanked": text, "reissued": text, "requires": (line,), "extras": ((text, (text,)),)}
    bad = _change(plan, files=files, **changes)
    return families, dataclasses.replace(bad, omissions=(omission, older))


def test_upstreams_text_is_text_wherever_it_stands(small: tuple[tuple[Family, ...], Plan]) -> None:
    calm = soups(rendered(*_hostile(small, "harmless")))
    wild = soups(rendered(*_hostile(small, HOSTILE)))
    for path, page in wild.items():
        assert [tag.name for tag in page.find_all(True)] == [tag.name for tag in calm[path].find_all(True)]
        assert not page.select("script:not([src]), img, [onerror]")
        assert all(urlsplit(str(link["href"])).scheme in ("", "https") for link in page.select("[href]"))
        assert page.get_text().count("<script>alert(1)</script>") == calm[path].get_text().count("harmless")
    assert wild["wrappers/torch-cu116.html"].get_text().count(HOSTILE) >= 8


def test_a_yank_and_a_reissue_are_shown_with_their_reasons(small: tuple[tuple[Family, ...], Plan]) -> None:
    families, plan = small
    read = soups(rendered(families, _change(plan, yanked="broken on Tuesdays", reissued="upstream lost a wheel")))
    page = read["wrappers/torch-cu116.html"]
    assert [notice.get_text() for notice in page.select(".notice")] == [
        "Yanked. broken on Tuesdays",
        "Re-issue of 1.13.1. upstream lost a wheel",
    ]
    assert [badge.get_text() for badge in page.select("summary .badge")] == ["yanked", "re-issued"]
    link = read["matrix.html"].find("a", href="wrappers/torch-cu116.html#v1.13.1")
    assert isinstance(link, Tag)
    assert link.get_text() == "4*"
    assert "yanked" in str(link["aria-label"])


def test_a_yank_without_a_reason_is_a_yank(small: tuple[tuple[Family, ...], Plan]) -> None:
    families, plan = small
    page = soups(rendered(families, _change(plan, yanked="")))["wrappers/torch-cu116.html"]
    assert [notice.get_text() for notice in page.select(".notice")] == ["Yanked. Upstream gives no reason."]


def test_a_yanked_version_is_not_the_newest_and_covers_nothing(small: tuple[tuple[Family, ...], Plan]) -> None:
    families, plan = small
    cu116 = next(wrapper for wrapper in plan.wrappers if wrapper.name == "torch-cu116")
    newer = dataclasses.replace(cu116, version="1.13.1.post1", yanked="broken")
    (groups,) = group(families, dataclasses.replace(plan, wrappers=(*plan.wrappers, newer)))
    page = next(page for page in groups.pages if page.name == "torch-cu116")
    assert [wrapper.version for wrapper in page.versions] == ["1.13.1.post1", "1.13.1"]
    assert page.newest == cu116
    assert {cell.newest for _, row in page.reach for cell in row if cell is not None} == {"1.13.1"}


def test_without_javascript_the_front_page_has_every_wrapper_and_every_client(
    plan: Plan, read: dict[str, BeautifulSoup]
) -> None:
    front = read["index.html"]
    names = {link.get_text() for link in front.select("table.list th a")}
    assert names == {wrapper.name for wrapper in plan.wrappers}
    assert [section["data-client"] for section in front.select("section.client")] == ["uv", "pip", "poetry", "pdm"]
    assert not front.select("section.client[hidden]")
    assert front.select("form[hidden]")  # of no use without it
    for code in front.select("code[data-template]"):
        assert "${" not in code.get_text()
    assert PLACEHOLDER in front.select("section.client")[0].get_text()


def test_the_sites_address_is_in_the_commands_where_the_build_knows_it(small: tuple[tuple[Family, ...], Plan]) -> None:
    front = soups(rendered(*small, url="https://wheels.example.org/"))["index.html"]
    assert PLACEHOLDER not in front.get_text()
    uv = front.select_one("#client-uv")
    assert uv is not None
    assert 'url = "https://wheels.example.org/simple/"' in uv.get_text()


def test_the_set_ups_are_the_safe_ones(read: dict[str, BeautifulSoup]) -> None:
    steps = {client.key: "\n".join(step.text for step in client.steps) for client in clients()}
    assert steps.keys() == {"uv", "pip", "poetry", "pdm"}
    for line in "\n".join(steps.values()).splitlines():
        assert "--require-hashes" in line or "--extra-index-url" not in line
        assert "unsafe" not in line
        assert "explicit" not in line
    assert "--generate-hashes" in steps["pip"]
    assert 'priority = "supplemental"' in steps["poetry"]
    assert "${wrapper} = { source =" in steps["poetry"]
    assert "include_packages = [${packages}]" in steps["pdm"]
    assert "--platform ${pdm}" in steps["pdm"]


def test_the_data_has_every_cell_of_the_plan(plan: Plan, found: dict[str, bytes]) -> None:
    data = json.loads(found["static/people.json"])
    pythons = [python["key"] for python in data["pythons"]]
    said = {
        (name, version["version"], platform, pythons[number], build)
        for name, wrapper in data["wrappers"].items()
        for version in wrapper["versions"]
        for platform, builds in version["builds"].items()
        for build, numbers in builds.items()
        for number in numbers
    }
    planned = {
        (w.name, w.version, str(cell.platform), cell.python, cell.build) for w in plan.wrappers for cell in w.cells
    }
    assert said == planned
    assert {platform for _, _, platform, _, _ in said} <= data["platforms"].keys()


def test_what_the_picker_offers_is_what_there_is(plan: Plan, read: dict[str, BeautifulSoup]) -> None:
    offered = {
        name: {str(box["value"]) for box in read["index.html"].select(f'input[name="{name}"]')}
        for name in ("wrapper", "python", "platform", "extra")
    }
    assert offered["wrapper"] == {wrapper.name for wrapper in plan.wrappers}
    assert offered["python"] == {cell.python for wrapper in plan.wrappers for cell in wrapper.cells}
    assert offered["platform"] == {str(cell.platform) for wrapper in plan.wrappers for cell in wrapper.cells}
    assert offered["extra"] == {extra for wrapper in plan.wrappers for extra, _ in wrapper.extras}


def test_a_site_of_direct_wrappers_shows_no_commands_that_would_fail(small: tuple[tuple[Family, ...], Plan]) -> None:
    families, _ = small
    front = soups(rendered(families, make_plan(families, Options(flavour="direct"))))["index.html"]
    assert not front.select("form, script, section.client")
    assert "direct" in front.get_text()


def test_a_site_without_wrappers_says_so() -> None:
    read = soups(rendered((), Plan(wrappers=(), omissions=(), date="")))
    assert sorted(read) == ["index.html", "matrix.html"]
    assert all("has no wrappers" in page.get_text() for page in read.values())


def test_upstreams_files_are_linked_where_the_site_links_them(small: tuple[tuple[Family, ...], Plan]) -> None:
    families, plan = small
    hosted = _change(plan, files=tuple(dataclasses.replace(f, url=None) for f in plan.wrappers[0].files[:2]))
    known, unknown = hosted.wrappers[1].files
    assert hosted.wrappers[1].name == "torch-cu116"
    found = pages(
        families,
        hosted,
        wheels_of(hosted),
        HostedFiles(urls={known.filename: "https://pypi.invalid/1"}, missing=frozenset({unknown.filename})),
        (
            Mirror(origin=UPSTREAM, target="https://mirror.invalid/"),
            Mirror(origin="https://pypi.invalid/", target="https://m.invalid/"),
        ),
    )
    read = soups(found)
    links = [str(link["href"]) for link in read["wrappers/torch-cu116.html"].select("table.files a")][-1:]
    assert links == ["https://m.invalid/1"]
    assert UPSTREAM not in found["wrappers/torch-cu117.html"].decode()
    assert "https://mirror.invalid/" in found["wrappers/torch-cu117.html"].decode()
    assert str(unknown.sha256) in read["wrappers/torch-cu116.html"].get_text()


def test_the_same_plan_gives_the_same_bytes_and_a_new_release_changes_its_pages_only(
    families: tuple[Family, ...], plan: Plan, found: dict[str, bytes]
) -> None:
    assert rendered(families, plan) == found
    newest = [wrapper for wrapper in plan.wrappers if wrapper.name == "torch-cu128"][-1]
    before = dataclasses.replace(plan, wrappers=tuple(wrapper for wrapper in plan.wrappers if wrapper != newest))
    wheels = wheels_of(plan)
    old = pages(families, before, wheels, HostedFiles(urls={}))
    changed = {path for path in found if found[path] != old.get(path)}
    assert changed == {"index.html", "matrix.html", "static/people.json", "wrappers/torch-cu128.html"}


def test_pages_are_for_everyone(read: dict[str, BeautifulSoup]) -> None:
    for page in read.values():
        assert page.html is not None
        assert page.html["lang"] == "en"
        skip = page.body.find("a") if page.body is not None else None
        assert isinstance(skip, Tag)
        assert page.find(id=str(skip["href"]).removeprefix("#")) == page.find("main")
        assert page.find("meta", attrs={"name": "viewport"}) is not None
        assert len(page.find_all("h1")) == 1
        for table in page.find_all("table"):
            assert isinstance(table, Tag)
            assert all(cell.get("scope") for cell in table.find_all("th"))
            assert table.find("caption") is not None
        ids = [tag["id"] for tag in page.select("[id]")]
        assert len(ids) == len(set(ids))


def test_a_built_site_has_the_pages_and_check_finds_no_fault(tmp_path: Path) -> None:
    families_in(tmp_path / "packages")
    build_site(tmp_path / "packages", tmp_path / "site")
    there = {path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*.html")}
    assert {"index.html", "matrix.html", "wrappers/torch-cu116.html", "wrappers/torch-cuda.html"} <= there
    assert check_site(tmp_path / "site") == []
    (tmp_path / "site" / "matrix.html").write_text("<title>mine</title>", encoding="utf-8")
    assert [finding.where for finding in check_site(tmp_path / "site")] == ["matrix.html"]


@pytest.mark.parametrize("name", ["wrappers", "static", "index.html", "matrix.html"])
def test_no_view_takes_the_place_of_a_page(tmp_path: Path, name: str) -> None:
    text = TORCH.replace('view = "{backend}"', f'view = "{name}"')
    family = write_family(tmp_path / "torch", text, torch_files())
    with pytest.raises(FamilyError, match="cannot be a folder of a site"):
        make_plan((load_family(family.folder),), Options())


@pytest.mark.parametrize(
    ("view", "name"),
    [
        ("cpu", "CPU"),
        ("cu92", "CUDA 9.2"),
        ("cu128", "CUDA 12.8"),
        ("cuda12", "CUDA 12"),
        ("rocm6.2", "ROCm 6.2"),
        ("xpu", "XPU"),
        ("other", "other"),
        (None, "newest"),
    ],
)
def test_backends_are_named_as_people_name_them(view: str | None, name: str) -> None:
    assert backend_name(view) == name


@pytest.mark.parametrize(
    ("python", "name", "requires"),
    [
        ("cp38", "3.8", ">=3.8,<3.9"),
        ("cp313t", "3.13t", ">=3.13,<3.14"),
        ("py3", "3", ">=3,<4"),
        ("pp310", "3.10", ">=3.10,<3.11"),
    ],
)
def test_interpreters_become_what_clients_take(python: str, name: str, requires: str) -> None:
    values = python_values(python)
    assert (values["interpreter"], values["requires_python"]) == (name, requires)
    assert not values["python"].endswith("t")


@pytest.mark.parametrize(
    ("platform", "pdm", "launcher"),
    [
        (Platform("linux", "x86_64"), "linux", "python"),
        (Platform("linux", "aarch64"), "manylinux_2_28_aarch64", "python"),
        (Platform("darwin", "arm64"), "macos_arm64", "python"),
        (Platform("darwin", "x86_64"), "macos_x86_64", "python"),
        (Platform("win32", "AMD64"), "windows", "py -"),
        (Platform("win32", "ARM64"), "windows_arm64", "py -"),
    ],
)
def test_platforms_become_what_clients_take(platform: Platform, pdm: str, launcher: str) -> None:
    values = platform_values(platform)
    assert (values["pdm"], values["launcher"]) == (pdm, launcher)
