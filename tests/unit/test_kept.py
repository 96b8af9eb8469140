"""What was published is served as it was, with its wheels, cells and files; yanked where it is no longer right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from metawheel.model import Released, UpstreamFile
from metawheel.project import render_project
from tests.fakes.ledgers import JAXLIB, TORCH, UPSTREAM, expanded, jaxlib_files, wheel
from tests.fakes.records import CP312, FILES, FIRST, NEW_CELL, RECORD, by_key, plan_of, record_of, yank


def test_what_was_released_is_made_again_from_the_record_though_descriptions_moved_on() -> None:
    again = plan_of(FILES, RECORD, text=TORCH.replace("PyTorch {version} for", "PyTorch {version} made for"))
    assert [render_project(w) for w in again.wrappers] == [render_project(w) for w in FIRST.wrappers]


def test_a_released_wrapper_that_no_rule_emits_any_more_stays_and_is_yanked() -> None:
    text = TORCH.replace("backend = 'cu\\d+'", "backend = 'cu117'")
    found = by_key(plan_of(FILES, RECORD, text=text))
    assert found["torch-cu116==1.13.1"].yanked == "no longer emitted"
    assert found["torch-cu116==1.13.1"].cells
    assert found["torch-cu116==1.13.1"].files, "who has locked it still finds its files"


def test_a_corrected_hash_reissues_the_direct_flavour_only() -> None:
    files = [replace(f, sha256="f" * 64) if f.filename.startswith("torch-1.13.1+cu116-cp311") else f for f in FILES]
    assert set(by_key(plan_of(files, RECORD))) == set(by_key(FIRST))
    first = plan_of(FILES, flavour="direct")
    found = by_key(plan_of(files, record_of(first.wrappers), flavour="direct"))
    assert set(found) - set(by_key(first)) == {"torch-cu116==1.13.1.post1"}
    assert "another sha256" in (found["torch-cu116==1.13.1"].yanked or "")


@pytest.mark.parametrize("flavour", ["pinned", "direct"])
@pytest.mark.parametrize("is_hashed", [True, False])
def test_a_wrapper_that_was_reissued_keeps_its_cells_and_its_files(flavour: str, is_hashed: bool) -> None:
    files = [file if is_hashed else replace(file, sha256=None) for file in FILES]
    first = plan_of(files, flavour=flavour, allow_unhashed=True)
    before = by_key(first)["torch-cu117==1.13.1"]
    plain = wheel(f"torch-1.13.1-{CP312}.whl", "cpu")  # no line of the first one installs it there
    now = plan_of([*files, NEW_CELL[-1], plain], record_of(first.wrappers), flavour=flavour, allow_unhashed=True)
    kept = by_key(now)[before.key]
    assert (kept.family, kept.reissued) == (before.family, None)
    assert set(kept.files) == ({*before.files, NEW_CELL[-1]} if flavour == "pinned" else set())
    assert {replace(cell, abi="none") for cell in before.cells} == set(kept.cells)


def test_a_wrapper_that_was_reissued_is_yanked_with_the_reissue() -> None:
    second = record_of(w for w in plan_of(NEW_CELL, RECORD).wrappers if w.reissued)
    files = yank(NEW_CELL, lambda f: f.project == "torch" and f.local == "cu117")
    found = by_key(plan_of(files, [*RECORD, *second]))
    assert {found[f"torch-cu117==1.13.1{post}"].yanked for post in ("", ".post1")} == {"broken on this card"}


def test_an_address_that_upstream_no_longer_lists_is_withdrawn() -> None:
    first = plan_of(FILES, flavour="direct")
    gone = next(f for f in FILES if f.filename.startswith("torch-1.13.1+cu117-cp311"))
    moved = [replace(f, url=f"{f.url}".replace("/cu117/", "/new/")) if f == gone else f for f in FILES]
    found = by_key(plan_of(moved, record_of(first.wrappers), flavour="direct"))
    reason = f"re-issued as 1.13.1.post1: {gone.url} was withdrawn or has another sha256"
    assert found["torch-cu117==1.13.1"].yanked == reason


@pytest.mark.parametrize("is_hashed", [True, False])
def test_an_address_that_is_no_longer_the_best_one_is_no_longer_required_but_not_withdrawn(is_hashed: bool) -> None:
    files = FILES if is_hashed else [replace(file, sha256=None) for file in FILES]
    options: dict[str, Any] = {"flavour": "direct", "allow_unhashed": True}
    first = plan_of(files, **options)
    more = [*files, wheel("torch-1.13.1+cu117-cp310-cp310-manylinux2014_x86_64.whl", "cu117", hashed=is_hashed)]
    found = by_key(plan_of(more, record_of(first.wrappers), **options))
    old, new = (found[f"torch-cu117==1.13.1{post}"] for post in ("", ".post1"))
    assert [line for line in old.requires if line not in new.requires]
    assert old.yanked is None


def test_a_wrapper_is_yanked_where_upstream_withdrew_the_build_that_it_pins_and_another_one_takes_its_name() -> None:
    rule = "[[wrapper]]\nname = 'torch-gpu'\nbackend = 'cu\\d+'\nsummary = 'PyTorch'\n\n[[companion]]"
    text = TORCH.replace("[[companion]]", rule)
    record = record_of(plan_of(FILES, text=text).wrappers)
    files = yank(FILES, lambda f: f.project == "torch" and f.local == "cu117")
    found = by_key(plan_of(files, record, text=text))
    assert "torch==1.13.1+cu116" in found["torch-gpu==1.13.1.post1"].requires[0]
    why = "re-issued as 1.13.1.post1: broken on this card; upstream withdrew torch 1.13.1+cu117"
    assert found["torch-gpu==1.13.1"].yanked == why


@pytest.mark.parametrize("flavour", ["pinned", "direct"])
def test_what_pypi_hosts_stays_linked_for_a_wrapper_that_was_reissued(flavour: str) -> None:
    first = plan_of(jaxlib_files(), text=JAXLIB, flavour=flavour)
    new = wheel("jaxlib-0.5.0-cp311-cp311-macosx_11_0_x86_64.whl", None, source="pypi", requires_python=">=3.10")
    found = by_key(plan_of([*jaxlib_files(), new], record_of(first.wrappers), text=JAXLIB, flavour=flavour))
    assert set(found) == {"jaxlib-cuda12==0.5.0", "jaxlib-cuda12==0.5.0.post1"}
    assert set(jaxlib_files()) <= set(found["jaxlib-cuda12==0.5.0"].files)


def test_all_wrappers_link_one_name_at_one_place() -> None:
    own = next(file for file in FILES if file.filename.startswith("torch-1.13.1+cu117-cp311"))
    name = f"{own.url}".rpartition("/")[2]
    files = [*yank(NEW_CELL, lambda file: file == own), replace(own, url=f"{UPSTREAM}other/{name}")]
    found = by_key(plan_of(files, RECORD))
    places = {file.url for w in found.values() for file in w.files if file.filename == own.filename}
    assert "torch-cu117==1.13.1.post1" in found
    assert places == {f"{UPSTREAM}other/{name}"}


@pytest.mark.parametrize("files", [FILES, NEW_CELL])
def test_a_wrapper_keeps_the_description_and_the_wheels_that_it_was_published_with(files: list[UpstreamFile]) -> None:
    def otherwise(item: Released) -> Released:
        tags = expanded(name.removesuffix(".whl").split("-", 2)[2] for name in item.wheels)
        start = next(iter(item.wheels)).rsplit("-", 3)[0]
        return replace(
            item, readme="# As it was", wheels=dict.fromkeys((f"{start}-{tag}.whl" for tag in tags), "0" * 64)
        )

    record = [otherwise(item) for item in RECORD]
    found = by_key(plan_of(files, record))
    for item in record:
        assert set(found[item.key].wheels) == set(item.wheels)
        assert render_project(found[item.key])["README.md"] == "# As it was"


def test_an_address_without_sha256_is_not_withdrawn_while_upstream_lists_it() -> None:
    files = [replace(file, sha256=None) for file in FILES]
    first = plan_of(files, flavour="direct", allow_unhashed=True)
    more = [*files, wheel(f"torch-1.13.1+cu117-{CP312}.whl", "cu117", hashed=False)]
    found = by_key(plan_of(more, record_of(first.wrappers), flavour="direct", allow_unhashed=True))
    assert found["torch-cu117==1.13.1"].yanked is None


CU116 = "torch-1.0+cu116"
DEVELOPMENT = TORCH.replace('plain = "cpu"', 'plain = "cpu"\nprereleases = true')


def test_a_new_platform_does_not_withdraw_what_was_published_without_a_plain_build() -> None:
    files = [wheel(f"{CU116}-cp312-cp312-linux_{machine}.whl", "cu116") for machine in ("x86_64", "aarch64")]

    found = by_key(plan_of(files, record_of(plan_of(files[:1]).wrappers)))

    assert {found[f"torch-{name}==1.0"].yanked for name in ("cu116", "cuda")} == {None}


@pytest.mark.parametrize("change", [{"yanked": "broken"}, {"gone": "2026-12-01"}])
def test_a_published_wrapper_is_yanked_with_the_wrapper_that_it_requires(change: dict[str, Any]) -> None:
    files = [replace(file, **change) if file.local == "cu117" and file.project == "torch" else file for file in FILES]

    found = by_key(plan_of(files, RECORD))

    assert found["torch-cuda==1.13.1.post1"].requires == ("torch-cu116==1.13.1",)
    assert (found["torch-cuda==1.13.1"].yanked or "").startswith("it requires torch-cu117==1.13.1: ")


def test_a_free_threaded_build_that_upstream_yanks_yanks_what_was_published_for_it() -> None:
    files = [wheel(f"{CU116}-cp313-{abi}-linux_x86_64.whl", "cu116") for abi in ("cp313", "cp313t")]

    fewer = by_key(plan_of([files[0], replace(files[1], yanked="no")], record_of(plan_of(files).wrappers)))
    more = by_key(plan_of(files, record_of(plan_of(files[:1]).wrappers)))

    assert fewer["torch-cu116==1.0"].yanked == "re-issued as 1.0.post1: no longer for cp313t on linux x86_64; no"
    assert more["torch-cu116==1.0.post1"].reissued == "now also for cp313t on linux x86_64"


@pytest.mark.parametrize(
    ("older", "more"), [("manylinux2014", []), ("manylinux2014", ["musllinux_1_1"]), ("musllinux_1_2", [])]
)
def test_a_build_for_other_systems_that_upstream_yanks_yanks_what_was_published_for_them(
    older: str, more: list[str]
) -> None:
    tags = ("manylinux_2_28", older, *more)
    one, two, *rest = (wheel(f"{CU116}-cp312-cp312-{tag}_x86_64.whl", "cu116") for tag in tags)

    found = by_key(plan_of([one, replace(two, yanked="no"), *rest], record_of(plan_of([one, two]).wrappers)))

    assert "no longer for older systems on linux x86_64" in (found["torch-cu116==1.0"].yanked or "")


def test_a_published_development_release_that_has_no_reissue_is_yanked_only_for_what_it_lost() -> None:
    files = [wheel(f"torch-1.0.dev1+cu116-{tag}-linux_x86_64.whl", "cu116") for tag in ("cp310-cp310", "cp311-cp311")]
    record = record_of(plan_of(files[:1], text=DEVELOPMENT).wrappers)

    changed = plan_of(files, record, text=DEVELOPMENT)
    withdrawn = by_key(plan_of([replace(files[0], yanked="no"), files[1]], record, text=DEVELOPMENT))

    assert {wrapper.yanked for wrapper in changed.wrappers} == {None}
    assert withdrawn["torch-cu116==1.0.dev1"].yanked == "no longer for cp310 on linux x86_64; no"
