"""`metawheel regenerate`: upstream's news become wrappers in one go, and nothing else is touched."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup

from metawheel.check import check_site
from metawheel.family import load_families
from metawheel.publish.record import record
from tests.fakes.here import Here
from tests.fakes.pages import (
    CANONICAL,
    ROOT,
    SNAPSHOT,
    Answer,
    PageServer,
    metawheel,
    page,
    state,
    torch_links,
    write_family,
    write_pages,
)

# CacheControl leaves its temporary file of a response that broke off to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")

OLD = torch_links("2.7.1+cu118", "2.7.1+cu128")
MAC = torch_links("2.7.1", python="cp311", system="macosx_11_0_arm64")
NEW = torch_links("2.8.0+cu126", "2.8.0+cu128", "2.8.0+cu199")


def _told(here: Here, *arguments: str, code: int = 0, mirror: str = "") -> dict[str, Any]:
    ran = here.regenerate("--json", *arguments, mirror=mirror)
    assert ran.code == code, ran.err
    told: dict[str, Any] = json.loads(ran.out)
    assert told["exit_code"] == code
    return told


def _release(here: Here) -> None:
    """Note all of the site as published."""
    record(load_families(here.packages), here.site, [path.name for path in (here.site / "files").glob("*.whl")])


def _companions(here: Here, torch: str, *versions: str) -> list[str]:
    """Links to torchvision wheels whose METADATA, served beside them, names a torch."""
    links = torch_links(*versions, project="torchvision")
    for link in links:
        path = here.packages.parent / "up" / f"{link.partition('#')[0]}.metadata"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"Metadata-Version: 2.1\nRequires-Dist: torch=={torch}\n")
    return [f'{link}|data-core-metadata="true"' for link in links]


def test_a_new_release_becomes_wrappers_and_the_report_says_all_that_is_new(here: Here) -> None:
    write_family(here.packages)
    here.upstream([*OLD, *MAC])
    first = _told(here)
    assert first["changed"]
    assert first["wrappers"]["new"] == ["torch-cu118==2.7.1", "torch-cu128==2.7.1"]
    here.upstream([*OLD, *MAC, *NEW])
    told = _told(here)
    assert told["releases"] == [{"project": "torch", "version": "2.8.0"}]
    assert told["backends"] == [{"project": "torch", "local": label} for label in ("cu126", "cu199")]
    assert told["wrappers"]["new"] == [f"torch-{label}==2.8.0" for label in ("cu126", "cu128", "cu199")]
    assert told["wrappers"]["unchanged"] == 2
    assert told["check"] == {"ok": True, "findings": []}


def test_without_news_nothing_is_written_and_the_report_says_so(here: Here) -> None:
    write_family(here.packages)
    here.upstream(OLD)
    _told(here)
    before = state(here.packages), state(here.site)
    ran = here.regenerate()
    assert (ran.code, (state(here.packages), state(here.site)) == before) == (0, True)
    assert "no change" in ran.out
    assert _told(here)["changed"] is False


def test_a_source_that_is_down_is_no_lack_of_news(here: Here, server: PageServer) -> None:
    write_family(here.packages, "a-cpu", "cpu")
    other = write_family(here.packages).joinpath("family.toml")
    other.write_text(other.read_text().replace(CANONICAL, "https://other.example/whl/"))
    server.serve("/one/torch/", Answer(body=page(torch_links("2.7.1+cpu", "2.8.0+cpu")).encode()))
    server.serve("/two/torch/", Answer(body=page(OLD).encode()), Answer(status=404))
    arguments = ["--mirror", f"https://other.example/whl/={server.url}two/"]
    mirror = f"{CANONICAL}={server.url}one/"
    _told(here, *arguments, mirror=mirror)
    server.serve("/one/torch/", Answer(body=page(torch_links("2.7.1+cpu", "2.8.0+cpu", "2.9.0+cpu")).encode()))
    told = _told(here, *arguments, mirror=mirror, code=5)
    assert told["wrappers"]["new"] == ["torch-cpu==2.9.0"]
    (failed,) = [family for family in told["upstream"]["families"] if family["error"]]
    assert failed["family"] == "torch-cuda"
    assert (here.site / "simple" / "torch-cu118").is_dir(), "its wrappers stay"


def test_a_new_release_touches_its_own_wrappers_and_the_pages_that_list_them(here: Here) -> None:
    """One version, three backends, two companions."""
    write_family(here.packages, vision=True)
    vision = _companions(here, "2.7.1", "0.22.1+cu118", "0.22.1+cu128")
    here.upstream([*OLD, *MAC], torchvision=vision)
    _told(here)
    _release(here)
    before = state(here.site)
    more = _companions(here, "2.8.0", "0.23.0+cu126", "0.23.0+cu128")
    here.upstream([*OLD, *MAC, *NEW], torchvision=[*vision, *more])
    told = _told(here)
    assert told["wrappers"]["rebuilt"] == []
    assert told["wrappers"]["reissued"] == []
    after = state(here.site)
    touched = {Path(path) for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    files = {path.name for path in touched if path.parts[0] == "files"}
    assert files
    assert all("-2.8.0-" in name for name in files)
    pages = {path.parts[-2] for path in touched if path.suffix == ".json" and "simple" in path.parts}
    assert pages <= {"torch", "torchvision", "torch-cu126", "torch-cu128", "torch-cu199", "simple"}
    assert not any("cu118" in path.parts for path in touched), "the view of another backend stays as it is"


def test_a_change_to_a_released_wrapper_is_reported_as_a_reissue_with_its_reason(here: Here) -> None:
    write_family(here.packages)
    here.upstream(OLD)
    _told(here)
    _release(here)
    here.upstream([*OLD, *torch_links("2.7.1+cu128", python="cp312")])
    told = _told(here)
    (item,) = told["wrappers"]["reissued"]
    assert item == {"wrapper": "torch-cu128==2.7.1.post1", "reason": "now also for cp312 on linux x86_64"}
    assert told["wrappers"]["new"] == []
    assert "re-issued: torch-cu128==2.7.1.post1" in here_text(here)


def here_text(here: Here) -> str:
    return (here.site / "changes.atom").read_text(encoding="utf-8")


def test_a_broken_site_is_found_and_the_exit_code_says_so(here: Here) -> None:
    write_family(here.packages)
    here.upstream(OLD)
    _told(here)
    path = here.site / "simple" / "torch" / "index.html"
    path.write_text(path.read_text().replace("sha256=", "sha256=0"))
    assert _told(here, code=1)["check"]["ok"] is False


def test_a_first_sync_that_fails_is_told_with_its_source(here: Here) -> None:
    write_family(here.packages)
    ran = here.regenerate("--mirror", f"https://nowhere.example/={here.packages}")
    assert (ran.code, f"{CANONICAL}torch/" in ran.err) == (5, True)
    assert not here.site.exists()


def test_a_good_site_is_published_to_a_folder_and_noted(here: Here) -> None:
    write_family(here.packages)
    here.upstream(OLD)
    web = here.packages.parent / "web"
    told = _told(here, "--to-folder", str(web))
    assert told["published"]["written"]
    assert check_site(web) == []
    noted = (here.packages / "torch-cuda" / "released.jsonl").read_text()
    assert '"torch-cu118"' in noted
    here.upstream([*OLD, *torch_links("2.7.1+cu128", python="cp312")])
    told = _told(here, "--to-folder", str(web))
    assert told["wrappers"]["rebuilt"] == []
    assert {path.partition("-")[0] for path in told["published"]["written"] if path.endswith(".whl")} == {
        "files/torch_cu128"
    }
    assert check_site(web) == []


def test_a_broken_site_is_not_published(here: Here) -> None:
    write_family(here.packages)
    here.upstream(OLD)
    _told(here)
    path = here.site / "simple" / "torch" / "index.html"
    path.write_text(path.read_text().replace("sha256=", "sha256=0"))
    web = here.packages.parent / "web"
    assert _told(here, "--to-folder", str(web), code=1)["published"] is None
    assert not web.exists()


def test_a_failure_to_publish_is_in_the_report_too(here: Here) -> None:
    write_family(here.packages)
    here.upstream(OLD)
    ran = here.regenerate("--json", "--repository-url", "http://127.0.0.1:9/")
    assert ran.code == 12
    assert json.loads(ran.out)["published"]["error"] in ran.err


def test_what_cannot_be_emitted_is_told_with_its_reason(here: Here) -> None:
    write_family(here.packages)
    here.upstream([*OLD, *(link.partition("#")[0] for link in NEW)])
    told = _told(here)
    assert {(item["wrapper"], item["version"]) for item in told["left_out"]} == {
        (f"torch-{label}", "2.8.0") for label in ("cu126", "cu128", "cu199")
    }
    assert all("no sha256" in item["reason"] for item in told["left_out"])


def test_from_june_2025_to_today_only_new_wrappers_appear_and_what_was_released_stays(tmp_path: Path) -> None:
    june, today = SNAPSHOT / "as-of-2025-06" / "whl", SNAPSHOT / "whl"
    if not june.is_dir():
        pytest.skip("the snapshot of upstream's pages (../shared/upstream/pages) is not here")
    packages, site = tmp_path / "packages", tmp_path / "site"
    for family in ("torch-cpu", "torch-cuda"):
        (packages / family).mkdir(parents=True)
        shutil.copy(ROOT / "packages" / family / "family.toml", packages / family)
    for project in ("torchvision", "torchaudio"):  # no METADATA to pair by: no extras
        write_pages(tmp_path / "pypi", {project: page([f"{project}-0.0.1-py3-none-any.whl"])})

    def regenerate(pages: Path) -> dict[str, Any]:
        mirrors = ["--mirror", f"https://download.pytorch.org/whl/={pages}", "--mirror", f"pypi={tmp_path}/pypi"]
        ran = metawheel("regenerate", "-o", site, "--packages", packages, "--json", *mirrors, cache=tmp_path / "cache")
        assert ran.code == 0, ran.err
        told: dict[str, Any] = json.loads(ran.out)
        return told

    def wheels() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (site / "files").glob("*.whl")}

    first = regenerate(june)["wrappers"]["new"]
    before = wheels()
    record(load_families(packages), site, before)
    told = regenerate(today)["wrappers"]
    assert {key.partition("==")[2] for key in told["new"]} >= {"2.8.0", "2.13.0"}
    assert told["unchanged"] == len(first)
    assert (told["reissued"], told["yanked"], told["rebuilt"], told["removed"]) == ([], [], [], [])
    assert before.items() <= wheels().items()
    assert not regenerate(today)["changed"]


EVIL = "evil-package"
HOSTILE_ATTRIBUTES = [
    f'data-requires-python="&gt;=3.8&#10;Requires-Dist: {EVIL}"',
    f'data-requires-python="&gt;=3.8 ; {EVIL}"',
    f'data-yanked="&lt;script src={EVIL}&gt;&#10;Requires-Dist: {EVIL}&#27;[2J&quot;"',
    f'data-core-metadata="sha256=0&#10;{EVIL}"',
    f'data-dist-info-metadata="&quot;&gt;&lt;script&gt;{EVIL}"',
    f"onclick={EVIL}",
]
HOSTILE_NAMES = [
    f"cu128/..%2F..%2F{EVIL}-2.7.1+cu128-cp311-cp311-linux_x86_64.whl",
    f"cu128/torch-2.7.1+cu128;{EVIL}-cp311-cp311-linux_x86_64.whl",
    f"cu128/torch-2.7.1+cu128%0ARequires-Dist:{EVIL}-cp312-cp312-linux_x86_64.whl",
    f"cu128/torch-2.7.1+cu128-cp312-cp312-{EVIL}.whl",
    f"cu128/torch-2.7.1+<script>{EVIL}-cp312-cp312-linux_x86_64.whl",
    f"cu128/{EVIL}-1.0-py3-none-any.whl",
    f"cu128/torch-2.7.1+cu128'\"{EVIL}-cp312-cp312-linux_x86_64.whl",
]


@pytest.mark.parametrize("attribute", HOSTILE_ATTRIBUTES)
def test_a_hostile_attribute_reaches_no_requirement_line_and_no_markup(here: Here, attribute: str) -> None:
    write_family(here.packages)
    here.upstream([*(f"{link}|{attribute}" for link in OLD), *MAC])
    ran = here.regenerate()
    assert ran.code in (0, 6), ran.err
    assert all(char.isprintable() or char == "\n" for char in ran.out + ran.err)
    _assert_no_evil(here)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_hostile_name_reaches_no_path_no_requirement_line_and_no_markup(here: Here, name: str) -> None:
    write_family(here.packages)
    here.upstream([*OLD, *MAC, f"{name}#sha256={'0' * 64}"])
    ran = here.regenerate()
    assert ran.code == 0, ran.err
    assert all(char.isprintable() or char == "\n" for char in ran.out + ran.err)
    _assert_no_evil(here)


def test_fifty_megabytes_of_links_stop_with_a_sentence(here: Here, server: PageServer) -> None:
    write_family(here.packages)
    link = f'<a href="torch-2.7.1+cu128-cp311-cp311-linux_x86_64.whl">{"x" * 10_000}</a>'.encode()
    server.serve("/whl/torch/", Answer(body=link, endless=5_000))
    ran = here.regenerate(mirror=f"{CANONICAL}={server.url}whl/")
    assert ran.code in (5, 6)
    assert f"{CANONICAL}torch/: " in ran.err
    assert "the limit for a page" in ran.err
    assert not here.site.exists()


def _assert_no_evil(here: Here) -> None:
    """What upstream's page says beyond plain facts stands in the site as escaped text, or not at all."""
    root = here.packages.parent
    assert not [path for path in root.rglob("*") if EVIL in path.name]
    for path in here.site.rglob("*.metadata"):
        assert EVIL not in path.read_text(encoding="utf-8")
    for path in here.site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not BeautifulSoup(text, "html.parser").select(f"script[src*={EVIL}], [onclick]")
        assert f"<script src={EVIL}" not in text
    for path in here.packages.rglob("pyproject.toml"):
        assert EVIL not in path.read_text(encoding="utf-8")
    if here.site.exists():
        assert check_site(here.site) == []
