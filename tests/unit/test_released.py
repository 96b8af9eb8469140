"""The record of released wrappers: what was published is built again byte for byte, from a fresh checkout too."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from metawheel import jsonl, released
from metawheel.changes import CHANGES_FILE
from metawheel.check import check_site
from metawheel.cli import app
from metawheel.errors import BuildError, LedgerError, PublishError
from metawheel.family import Family, load_families
from metawheel.inputs import Options
from metawheel.model import Released, UpstreamFile
from metawheel.publish.record import record
from metawheel.site import Manifest
from tests.fakes.ledgers import TORCH, build_site, torch_files, wheel, write_family

FILES = torch_files()
NEW_CELL = wheel("torch-1.13.1+cu117-cp312-cp312-linux_x86_64.whl", "cu117")


def _yanked(files: Iterable[UpstreamFile], part: str) -> list[UpstreamFile]:
    return [replace(file, yanked="broken") if part in file.filename else file for file in files]


def _family(tmp_path: Path, files: Iterable[UpstreamFile] = FILES) -> Family:
    return write_family(tmp_path / "packages" / "torch", TORCH, files)


def _build(tmp_path: Path, site: str = "site", options: Options | None = None) -> Path:
    build_site(tmp_path / "packages", tmp_path / site, options)
    return tmp_path / site


def _publish(tmp_path: Path, site: Path, only: Iterable[str] | None = None) -> list[str]:
    names = [path.name for path in (site / "files").glob("*.whl")] if only is None else only
    return record(load_families(tmp_path / "packages"), site, names)


def _wheels(site: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (site / "files").glob("*.whl")}


@pytest.mark.parametrize("flavour", ["pinned", "direct"])
def test_a_fresh_checkout_builds_what_was_released_byte_for_byte(tmp_path: Path, flavour: str) -> None:
    family = _family(tmp_path)
    options = Options(offline=True, flavour=flavour)
    first = _build(tmp_path, options=options)
    _publish(tmp_path, first)
    _family(tmp_path, [*_yanked(FILES, "+cpu-cp310-cp310-win"), NEW_CELL])
    (family.folder / "family.toml").write_text(TORCH.replace("for the CPU", "without CUDA"), encoding="utf-8")
    second = _build(tmp_path, "other", options)
    assert _wheels(first).items() <= _wheels(second).items()
    assert any(".post1-" in name for name in _wheels(second))
    assert check_site(second) == []


def test_the_site_says_what_was_reissued_and_yanked_and_why(tmp_path: Path) -> None:
    _family(tmp_path)
    site = _build(tmp_path)
    _publish(tmp_path, site)
    _family(tmp_path, [*_yanked(FILES, "torch-1.13.1+cpu-cp310-cp310-win"), NEW_CELL])
    _build(tmp_path)
    newest, first = json.loads((site / CHANGES_FILE).read_bytes())["states"]
    assert "torch-cu117==1.13.1" in first["new"]
    assert newest["new"] == []
    reasons = {item["wrapper"]: item["reason"] for item in newest["reissued"]}
    assert reasons["torch-cu117==1.13.1.post1"] == "now also for cp312 on linux x86_64"
    assert set(reasons) == {f"torch-{name}==1.13.1.post1" for name in ("cpu", "cu117", "cuda")}
    assert [item["wrapper"] for item in newest["yanked"]] == ["torch-cpu==1.13.1"]
    assert "broken" in newest["yanked"][0]["reason"]
    page = json.loads((site / "simple" / "torch-cpu" / "index.json").read_bytes())
    yanked = {file["filename"].split("-")[1]: file["yanked"] for file in page["files"]}
    assert "broken" in yanked["1.13.1"]
    assert yanked["1.13.1.post1"] is False


def test_show_tells_why_a_wrapper_was_reissued_and_the_first_can_still_be_asked_for(tmp_path: Path) -> None:
    _family(tmp_path)
    _publish(tmp_path, _build(tmp_path))
    _family(tmp_path, _yanked(FILES, "torch-1.13.1+cpu-cp310-cp310-win"))
    newest = CliRunner().invoke(app, ["show", "torch-cpu", "--packages", str(tmp_path / "packages")])
    assert "torch-cpu 1.13.1.post1" in newest.output
    assert "re-issue of 1.13.1: no longer for cp310 on win32 AMD64" in newest.output
    first = CliRunner().invoke(app, ["show", "torch-cpu==1.13.1", "--packages", str(tmp_path / "packages")])
    assert "yanked: re-issued as 1.13.1.post1" in first.output
    assert "1.13.1+cpu" in first.output, "its coverage, read from its tags and lines"


def test_what_was_never_released_is_built_anew_under_its_version(tmp_path: Path) -> None:
    _family(tmp_path)
    site = _build(tmp_path)
    _family(tmp_path, [*FILES, NEW_CELL])
    _build(tmp_path)
    assert not any(".post" in name for name in _wheels(site))
    newest, _ = json.loads((site / CHANGES_FILE).read_bytes())["states"]
    assert newest["rebuilt"] == ["torch-cu117==1.13.1", "torch-cuda==1.13.1"]


def test_one_published_wheel_makes_the_whole_version_a_released_one(tmp_path: Path) -> None:
    family = _family(tmp_path)
    site = _build(tmp_path)
    one, *others = [name for name in sorted(_wheels(site)) if name.startswith("torch_cpu-")]
    assert others
    assert _publish(tmp_path, site, [one]) == ["torch-cpu==1.13.1"]
    (item,) = released.load(family)
    assert item.wheels == {name: _wheels(site)[name] for name in (one, *others)}


def test_publishing_twice_records_once(tmp_path: Path) -> None:
    family = _family(tmp_path)
    site = _build(tmp_path)
    assert _publish(tmp_path, site)
    before = (family.folder / released.RELEASED_FILE).read_bytes()
    assert _publish(tmp_path, site) == []
    assert (family.folder / released.RELEASED_FILE).read_bytes() == before


def test_a_record_is_read_as_it_was_written_and_a_hand_edit_is_found(tmp_path: Path) -> None:
    family = _family(tmp_path)
    _publish(tmp_path, _build(tmp_path))
    path = family.folder / released.RELEASED_FILE
    assert released.dump(released.load(family)) == path.read_bytes()
    path.write_bytes(path.read_bytes().replace(b"1.13.1+cu117", b"1.13.1+cu118"))
    with pytest.raises(LedgerError, match=r"released\.jsonl: was edited by hand.*git checkout -- released\.jsonl"):
        released.load(family)
    path.write_bytes(b'{"released": 1, "wrappers": 1, "sha256": "0"}\n')
    with pytest.raises(LedgerError, match=r"released\.jsonl"):
        _build(tmp_path)


def _item(version: str, **facts: Any) -> Released:
    given: dict[str, Any] = {
        "name": "torch-cu117",
        "version": version,
        "release": version,
        "flavour": "pinned",
        "view": None,
        "summary": "PyTorch",
        "requires": (f"torch=={version}+cu117",),
        "extras": (),
        "requires_python": ">=3.9",
        "readme": "# PyTorch",
        "wheels": {f"torch_cu117-{version}-cp310-none-linux_x86_64.whl": "0" * 64},
    }
    return Released(**{**given, **facts})


def test_a_record_says_all_of_a_wrapper_and_is_sorted_by_flavour_name_and_version() -> None:
    items = (
        _item("2.10.0", flavour="direct", view="cu117"),
        _item("2.11.0", name="torch-cpu", extras=(("audio", ("a==1", "b==2")), ("vision", ()))),
        _item("2.9.0", wheels={"z.whl": "1" * 64, "a.whl": "2" * 64}),
        _item("2.10.0.post1", release="2.10.0", reissued="other compatibility tags"),
    )
    content = released.dump(reversed(items))
    assert released.parse(content, Path("released.jsonl")) == items
    head, first, *_, last = (json.loads(line) for line in content.splitlines())
    assert (head["released"], head["wrappers"]) == (1, len(items))
    assert (first["wrapper"], "release" in first, "extras" in first, "reissued" in first) == (
        items[0].name,
        *[False] * 3,
    )
    assert (last["release"], last["reissued"]) == ("2.10.0", "other compatibility tags")


def test_a_record_does_not_depend_on_the_order_of_wheels() -> None:
    names = {"z.whl": "1" * 64, "a.whl": "2" * 64}
    one, other = _item("1.0", wheels=names), _item("1.0", wheels=dict(reversed(names.items())))
    assert released.dump([one]) == released.dump([other])


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"wrapper": "torch-cpu", "version": "1.0"},
        {"wrapper": "torch-cpu", "version": "1.0", "requires": 1},
        {"wrapper": "torch-cpu", "version": "1.0", "requires": [], "extras": []},
        {"wrapper": "torch-cpu", "version": "1.0", "requires": [], "colour": "red"},
    ],
)
def test_a_line_that_is_no_wrapper_is_named_with_the_way_out_though_the_digest_fits(row: dict[str, Any]) -> None:
    with pytest.raises(LedgerError, match=r"released\.jsonl: line 2 cannot be read: .*git checkout -- released\.jsonl"):
        released.parse(jsonl.dump("released", "wrappers", [row]), Path("released.jsonl"))


def test_a_record_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    family = _family(tmp_path)
    (family.folder / released.RELEASED_FILE).mkdir()
    with pytest.raises(LedgerError, match=r"released\.jsonl: cannot be read: \w"):
        released.load(family)


def test_a_site_of_other_ledgers_is_not_recorded(tmp_path: Path) -> None:
    family = _family(tmp_path)
    old = _build(tmp_path)
    _family(tmp_path, [*FILES, NEW_CELL])
    with pytest.raises(PublishError, match=r"was not built from the ledger of torch .*--packages"):
        _publish(tmp_path, old)
    assert released.load(family) == ()


def test_a_site_that_contradicts_the_record_is_not_recorded(tmp_path: Path) -> None:
    family = _family(tmp_path)
    old = _build(tmp_path)
    _publish(tmp_path, old)
    first, *others = released.load(family)
    path = family.folder / released.RELEASED_FILE
    path.write_bytes(released.dump([replace(first, wheels=dict.fromkeys(first.wheels, "0" * 64)), *others]))
    before = path.read_bytes()
    with pytest.raises(PublishError, match=rf"{first.key} was released before in other wheels"):
        _publish(tmp_path, old)
    assert path.read_bytes() == before


def test_other_bytes_for_a_released_wheel_stop_the_build_unless_the_old_site_has_them(tmp_path: Path) -> None:
    family = _family(tmp_path)
    site = _build(tmp_path)
    _publish(tmp_path, site)
    # As if another hatchling had written it.
    items = [replace(item, wheels=dict.fromkeys(item.wheels, "0" * 64)) for item in released.load(family)]
    (family.folder / released.RELEASED_FILE).write_bytes(released.dump(items))
    before = _wheels(site)
    with pytest.raises(BuildError, match=r"was released with sha256 0000.*copy the site that holds"):
        _build(tmp_path)
    assert _wheels(site) == before
    assert not (tmp_path / "other").exists()
    with pytest.raises(BuildError):
        _build(tmp_path, "other")
    assert not (tmp_path / "other").exists()


def test_released_bytes_are_taken_over_from_the_site_that_has_them(tmp_path: Path) -> None:
    family = _family(tmp_path)
    site = _build(tmp_path)
    name = min(_wheels(site))
    path = site / "files" / name
    path.write_bytes(path.read_bytes() + b"\0")  # a ZIP file may end in a comment's worth of slack
    digest = _wheels(site)[name]
    manifest = json.loads((site / "metawheel.json").read_bytes())
    manifest["wheels"][name] |= {"sha256": digest, "size": path.stat().st_size}
    (site / "metawheel.json").write_text(json.dumps(manifest), encoding="utf-8")
    _publish(tmp_path, site)
    _family(tmp_path, [*FILES, NEW_CELL])
    shutil.copytree(site, tmp_path / "copy")
    assert _wheels(_build(tmp_path, "copy"))[name] == digest
    assert family.ledger_path.exists()


def test_the_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    _family(tmp_path)
    site = _build(tmp_path)
    manifest = Manifest.load(site)
    assert manifest is not None
    assert manifest.dump() == (site / "metawheel.json").read_bytes()
    assert {name for wrapper in manifest.wrappers for name in wrapper.wheels} == set(manifest.wheels)
