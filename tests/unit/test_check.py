"""`metawheel check` names every promise that a site breaks; the next build mends what is lost."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from metawheel.check import Finding, _check_wheel, check_lines, check_site
from metawheel.cli import app
from metawheel.errors import OutputError
from metawheel.inputs import Options
from tests.fakes.ledgers import build_site, families_in, jaxlib_files, pypi_folder

WHEEL = "torch_cu116-1.13.1-cp311-none-linux_x86_64.whl"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with packages/ and a site of them; tests take copies."""
    folder = tmp_path_factory.mktemp("good")
    families_in(folder / "packages")
    build_site(folder / "packages", folder / "site", pypi=pypi_folder(folder / "pypi", jaxlib_files()))
    return folder


@pytest.fixture
def site(good: Path, tmp_path: Path) -> Path:
    shutil.copytree(good, tmp_path / "place")
    return tmp_path / "place" / "site"


def test_a_good_site_keeps_every_promise(good: Path) -> None:
    assert (good / "site" / "files" / WHEEL).is_file()
    assert check_site(good / "site") == []
    done = CliRunner().invoke(app, ["check", str(good / "site")])
    assert done.exit_code == 0
    assert "every promise holds" in done.output
    as_json = CliRunner().invoke(app, ["check", str(good / "site"), "--json"])
    assert json.loads(as_json.output) == {"ok": True, "findings": []}


def test_a_good_site_of_the_direct_flavour_keeps_every_promise(good: Path, tmp_path: Path) -> None:
    build_site(good / "packages", tmp_path / "site", Options(flavour="direct"), pypi=good / "pypi")
    assert check_site(tmp_path / "site") == []


@pytest.mark.parametrize("name", ["empty", "none"])
def test_what_is_no_site_is_an_output_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(OutputError, match="is not a site"):
        check_site(tmp_path / name)


def test_a_folder_of_something_else_is_told_as_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    done = CliRunner().invoke(app, ["check", str(tmp_path)])
    assert str(done.exception) == f"{tmp_path}: is there, but is not a site of metawheel; name another"


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def _rewrite(site: Path, member: str, old: str, new: str, *, record: bool = True) -> None:
    """Change a file in a wheel, and with it RECORD and the .metadata beside it, so that only the change is wrong."""
    path = site / "files" / WHEEL
    with zipfile.ZipFile(path) as wheel:
        content = {name: wheel.read(name) for name in wheel.namelist()}
    info = f"{'-'.join(WHEEL.split('-')[:2])}.dist-info"
    text = content[f"{info}/{member}"].decode()
    assert old in text
    content[f"{info}/{member}"] = text.replace(old, new, 1).encode()
    if record:
        rows = io.StringIO()
        for name, data in content.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            own = name.endswith("/RECORD")
            csv.writer(rows, lineterminator="\n").writerow(
                [name, *(["", ""] if own else [f"sha256={digest}", len(data)])]
            )
        content[f"{info}/RECORD"] = rows.getvalue().encode()
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in content.items():
            wheel.writestr(name, data)
    path.with_name(f"{WHEEL}.metadata").write_bytes(content[f"{info}/METADATA"])


def _delete(path: str) -> Callable[[Path], None]:
    return lambda site: (site / path).unlink()


def _flip(path: str) -> Callable[[Path], None]:
    """Change one byte, in the middle of a file."""

    def change(site: Path) -> None:
        content = bytearray((site / path).read_bytes())
        content[len(content) // 2] ^= 1
        (site / path).write_bytes(content)

    return change


def _write(path: str, text: str) -> Callable[[Path], None]:
    def change(site: Path) -> None:
        (site / path).write_text(text, encoding="utf-8")

    return change


def _replace(path: str, old: str, new: str) -> Callable[[Path], None]:
    return lambda site: _edit(site / path, old, new)


def _instead(path: str, make: Callable[[Path], None]) -> Callable[[Path], None]:
    """Put something in a file's place."""

    def change(site: Path) -> None:
        (site / path).unlink()
        make(site / path)

    return change


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def _manifest(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Edit the manifest."""

    def edit(site: Path) -> None:
        data = json.loads((site / "metawheel.json").read_bytes())
        change(data)
        (site / "metawheel.json").write_text(json.dumps(data), encoding="utf-8")

    return edit


def _says(**facts: object) -> Callable[[Path], None]:
    """Let the manifest say something else of a wrapper."""
    return _manifest(lambda data: next(w for w in data["wrappers"] if WHEEL in w["wheels"]).update(facts))


def _wheel(member: str, old: str, new: str) -> Callable[[Path], None]:
    return lambda site: _rewrite(site, member, old, new, record=member != "RECORD")


PIN = "Requires-Dist: torch==1.13.1+cu116; (sys_platform == 'linux'"
PAGE = "simple/torch-cu116"


@pytest.mark.parametrize(
    ("damage", "where", "what"),
    [
        pytest.param(_delete(f"files/{WHEEL}"), WHEEL, "is missing", id="a wheel is gone"),
        pytest.param(_delete(f"files/{WHEEL}"), f"{PAGE}: {WHEEL}", "not there", id="a page links what is gone"),
        pytest.param(_delete(f"files/{WHEEL}.metadata"), f"{WHEEL}.metadata", "is missing", id="a .metadata is gone"),
        pytest.param(_delete(f"{PAGE}/index.json"), PAGE, "do not say the same", id="a JSON page is gone"),
        pytest.param(_delete(f"{PAGE}/index.html"), PAGE, "is missing", id="an HTML page is gone"),
        pytest.param(_flip(f"files/{WHEEL}"), f"{PAGE}: {WHEEL}", "sha256 is not that", id="a byte of a wheel"),
        pytest.param(_flip(f"files/{WHEEL}.metadata"), f"{WHEEL}.metadata", "byte for byte", id="a byte of .metadata"),
        pytest.param(_flip(f"files/{WHEEL}.metadata"), f"{PAGE}: {WHEEL}", "METADATA hash", id="a .metadata's hash"),
        pytest.param(_replace(f"{PAGE}/index.html", "#sha256=", "#sha256=0"), PAGE, "sha256", id="a hash on a page"),
        pytest.param(_replace(f"{PAGE}/index.html", "&gt;=", "&gt;"), PAGE, "not say the same", id="HTML, not JSON"),
        pytest.param(_replace(f"{PAGE}/index.json", '"yanked":false', '"yanked":true'), PAGE, "not say the same",
                     id="JSON, not HTML"),
        pytest.param(_replace("simple/torch/index.html", "#sha256=", "#md5="), "simple/torch: ", "has no sha256",
                     id="an upstream link without sha256"),
        pytest.param(_replace("simple/index.html", ">torch-cpu<", "><"), "simple/index.html", "is not what was",
                     id="an edited root page"),
        pytest.param(_replace("simple/index.json", '{"name":"torch-cpu"},', ""), "simple/index.json", "exactly",
                     id="a project that the root does not list"),
        pytest.param(_replace("cu116/simple/index.html", 'href="torch-cu116/"', 'href="torch-cu11/"'),
                     "cu116/simple/index.html", "exactly", id="a view whose root lists another project"),
        pytest.param(_write("files/notes.txt", "x"), "files/notes.txt", "no part of the site", id="a stray file"),
        pytest.param(_write("files/x-1-py3-none-any.whl", "x"), "files/x-1-py3", "is not a wheel", id="a stray wheel"),
        pytest.param(_wheel("RECORD", "sha256=", "sha256=A"), WHEEL, "RECORD does not match", id="a RECORD line"),
        pytest.param(_wheel("WHEEL", "Tag: cp311", "Tag: cp312"), WHEEL, "tags are not those", id="a wrong tag"),
        pytest.param(_wheel("METADATA", "Metadata-Version: 2.4", "Metadata-Version: 2.3"), WHEEL, "is not 2.4",
                     id="another Metadata-Version"),
        pytest.param(_wheel("METADATA", "Version: 1.13.1\n", "Version: 1.13.2\n"), WHEEL, "another name or version",
                     id="another version inside"),
        pytest.param(_wheel("METADATA", "torch==1.13.1+cu116", "torch===1.13.1+cu116"), WHEEL, "===", id="==="),
        pytest.param(_wheel("METADATA", "torch==1.13.1+cu116", "torch>=1.13.1"), WHEEL, "not an exact pin", id="range"),
        pytest.param(_wheel("METADATA", "torch==1.13.1+cu116", "torch==1.13.1+cu999"), WHEEL, "does not list",
                     id="a pin that the index does not have"),
        pytest.param(_wheel("METADATA", PIN, PIN.replace("linux", "linus")), WHEEL, "no line on torch", id="a hole"),
        pytest.param(_wheel("METADATA", PIN, PIN.replace("== 'linux", "!= 'linux")), WHEEL, "two lines on torch",
                     id="an overlap"),
        pytest.param(_wheel("METADATA", PIN, PIN.replace("torch==", "torch= ")), WHEEL, "cannot be parsed",
                     id="an unparsable line"),
        pytest.param(_replace(f"{PAGE}/index.html", f">{WHEEL}<", ">x.whl<"), f"{PAGE}: x.whl", "",
                     id="a name that is no wheel's"),
        pytest.param(_replace(f"{PAGE}/index.html", f">{WHEEL}<", ">torch_cpu-1-py3-none-any.whl<"),
                     f"{PAGE}: torch_cpu", "not what its page", id="a name of another wrapper's wheel"),
        pytest.param(_delete("simple/index.html"), "simple/index.html", "is missing", id="the root page is gone"),
        pytest.param(_delete("simple/index.json"), "simple/index.json", "exactly", id="the root's JSON is gone"),
        pytest.param(_replace("simple/index.json", '"torch-cpu"', "1"), "simple/index.json", "exactly",
                     id="a root that lists a number"),
        pytest.param(_instead("simple/index.html", Path.mkdir), "simple/index.html", "is missing",
                     id="a folder in the root page's place"),
        pytest.param(_instead(f"{PAGE}/index.html", Path.mkdir), f"{PAGE}/index.html", "is missing",
                     id="a folder in a page's place"),
        pytest.param(_instead(f"files/{WHEEL}", Path.mkdir), WHEEL, "is missing", id="a folder in a wheel's place"),
        pytest.param(_instead("static/people.js", _dangling), "static/people.js", "is not what was built",
                     id="a link to nothing in a page's place"),
        pytest.param(lambda site: _dangling(site / "files" / "x"), "files/x", "no part of", id="a link to nothing"),
        pytest.param(_wheel("RECORD", "sha256=", "a" * 200_000), WHEEL, "is not a wheel", id="a field without end"),
        pytest.param(_wheel("METADATA", PIN, PIN.replace("==1.13.1+cu116", "===cu+116")), WHEEL, "===",
                     id="what is no version"),
        pytest.param(_wheel("METADATA", PIN, PIN.replace("sys_platform ==", "sys_platform ~=")), WHEEL, "has no value",
                     id="a marker without value"),
        pytest.param(_manifest(lambda data: data["wheels"][WHEEL].update(sha256="0" * 64)), WHEEL, "is not what was",
                     id="the manifest has another hash of a wheel"),
        pytest.param(_manifest(lambda data: data["wheels"][WHEEL].update(metadata_sha256="0" * 64)),
                     f"{WHEEL}.metadata", "is not what was built", id="the manifest has another hash of a METADATA"),
        pytest.param(_manifest(lambda data: data["wheels"][WHEEL].update(size=1)), WHEEL, "is not as large",
                     id="the manifest has another size"),
        pytest.param(_says(wheels=[]), f"metawheel.json: {WHEEL}", "one of a wrapper", id="a wheel of no wrapper"),
        pytest.param(_says(requires=["evil==1"]), "torch-cu116==1.13.1", "its requires is not that of",
                     id="the manifest has other lines"),
        pytest.param(_says(requires_python=">=2"), "torch-cu116==1.13.1", "its requires_python is not that of",
                     id="the manifest has another Requires-Python"),
        pytest.param(_says(version="1.13.2"), "torch-cu116==1.13.2", "its version is not that of",
                     id="the manifest has another version"),
        pytest.param(_says(yanked="broken"), f"{PAGE}: {WHEEL}", "otherwise than the manifest says",
                     id="a yank that no page shows"),
    ],
)  # fmt: skip
def test_a_broken_promise_is_named_and_check_exits_1(
    site: Path, damage: Callable[[Path], None], where: str, what: str
) -> None:
    damage(site)
    findings = check_site(site)
    assert any(where in finding.where and what in finding.what for finding in findings), findings
    done = CliRunner().invoke(app, ["check", str(site)])
    assert done.exit_code == 1
    assert all(f"{finding.where}: {finding.what}" in done.output for finding in findings)
    report = json.loads(CliRunner().invoke(app, ["check", str(site), "--json"]).output)
    assert report["ok"] is False
    assert len(report["findings"]) == len(findings)


def test_whatever_byte_of_a_wheel_is_damaged_it_is_looked_into_or_is_no_wheel(site: Path) -> None:
    path = site / "files" / WHEEL
    good = path.read_bytes()
    found: list[Finding] = []
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :])
        _check_wheel(path, found)
    assert any("is not a wheel" in finding.what for finding in found)
    assert all(finding.where.startswith(f"files/{WHEEL}") and finding.what[-1] != " " for finding in found)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "1",
        '{"projects": [1], "files": [1]}',
        '{"meta": {"api-version": "9.0"}, "name": "torch-cu116", "projects": null, "files": []}',
        "[" * 99_999,
    ],
    ids=lambda text: text[:20],
)
def test_json_of_any_other_shape_is_a_finding(site: Path, text: str) -> None:
    for folder in ("simple", PAGE):
        (site / folder / "index.json").write_text(text, encoding="utf-8")
    found = [(finding.where, finding.what) for finding in check_site(site)]
    assert any(where == "simple/index.json" and "exactly" in what for where, what in found)
    assert any(where == PAGE and "do not say the same" in what for where, what in found)


@pytest.mark.parametrize(
    "lines",
    [
        ["torch==1"],
        ['torch==1+cpu ; sys_platform == "linux"', 'torch==1 ; sys_platform != "linux"'],
        ["torch==1", 'plugin==1 ; sys_platform == "linux"'],
        ["torch @ https://files.invalid/torch.whl#sha256=00"],
        ["torch==1", 'vision==1 ; extra == "vision"'],
    ],
)
def test_good_lines_are_not_found_fault_with(lines: list[str]) -> None:
    assert list(check_lines(lines)) == []


def test_a_hole_below_the_only_pin_is_found() -> None:
    assert list(check_lines(['torch==1+cpu ; sys_platform == "linux"'])) != []


def test_a_line_of_the_direct_flavour_is_for_its_own_platform() -> None:
    lines = ['plugin==1 ; sys_platform == "linux"', "torch @ https://files.invalid/torch.whl#sha256=00"]
    assert list(check_lines(lines)) != []
    assert list(check_lines(lines, is_direct=True)) == []


def test_an_address_without_sha256_is_found() -> None:
    assert any("no sha256" in what for what in check_lines(["torch @ https://files.invalid/torch.whl"]))


def _content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _remove(path: Path) -> None:
    path.unlink()


def _cut(path: Path) -> None:
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[:-1])


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [
        pytest.param("files/*.whl", _remove, id="a wheel is missing"),
        pytest.param("simple/torch/index.html", _remove, id="a page is missing"),
        pytest.param("files/*.whl", _cut, id="a wheel is cut off"),
        pytest.param("files/*.metadata", _remove, id="a .metadata is missing"),
    ],
)  # fmt: skip
def test_the_next_build_mends_a_damaged_site(site: Path, pattern: str, damage: Callable[[Path], None]) -> None:
    before = _content(site)
    damage(min(site.glob(pattern)))
    build_site(site.parent / "packages", site)
    assert _content(site) == before
