"""`metawheel sync`: ledgers follow upstream, tell what changed, and stay as they were where something is wrong."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from metawheel.ledger import load
from tests.fakes.here import Here
from tests.fakes.pages import CANONICAL, Answer, PageServer, Ran, digest, page, state, torch_links, write_family

# CacheControl leaves its temporary file of a response that broke off to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")

CUDA = torch_links("2.7.1+cu118", "2.7.1+cu128")
MAC = torch_links("2.7.1", python="cp311", system="macosx_11_0_arm64")
VISION = "torchvision-0.22.1+cu128-cp311-cp311-linux_x86_64.whl"
METADATA = b"Metadata-Version: 2.1\nRequires-Dist: torch==2.7.1\n"


def names(packages: Path, family: str = "torch-cuda") -> list[str]:
    return [file.filename for file in load(packages / family / "ledger.jsonl")]


def test_a_first_sync_records_what_the_family_wants(here: Here) -> None:
    write_family(here.packages)
    unwanted = torch_links("2.7.1+cpu", "2.7.1+rocm6.3", "1.7.1+cu118", "2.8.0rc1+cu128", "2.8.0.dev20260101+cu128")
    here.upstream([*CUDA, *MAC, *unwanted])
    ran = here.sync()
    assert (ran.code, "3 added" in ran.out) == (0, True)
    assert set(names(here.packages)) == {link.partition("#")[0].rpartition("/")[2] for link in [*CUDA, *MAC]}


def test_a_sync_without_news_writes_nothing_and_says_so(here: Here) -> None:
    here.synced(CUDA)
    before = state(here.packages)
    ran = here.sync()
    assert (ran.code, state(here.packages), "no change; nothing written" in ran.out) == (0, before, True)


def test_a_check_writes_nothing_and_exits_1_when_there_is_something_new(here: Here) -> None:
    write_family(here.packages)
    here.upstream(CUDA[:1])
    assert here.sync("--check").code == 1
    assert not (here.packages / "torch-cuda" / "ledger.jsonl").exists()
    here.sync()
    before = state(here.packages)
    assert here.sync("--check").code == 0
    here.upstream(CUDA)
    ran = here.sync("--check")
    assert (ran.code, state(here.packages), "cu128" in ran.out) == (1, before, True)


def test_a_new_backend_appears_without_any_edit(here: Here) -> None:
    here.synced(CUDA)
    here.upstream([*CUDA, *torch_links("3.0.0+cu199")])
    assert re.search(r"torch +3\.0\.0 +cu199 +1 added", here.sync().out)
    assert any("+cu199" in name for name in names(here.packages))


def test_json_tells_every_change_and_every_problem(here: Here) -> None:
    write_family(here.packages)
    here.upstream([*CUDA, "cu128/torch-odd.whl"])
    told = json.loads(here.sync("--json").out)
    (family,) = told["families"]
    for label, change in zip(("cu118", "cu128"), family["changes"], strict=True):
        name = f"torch-2.7.1+{label}-cp311-cp311-linux_x86_64.whl"
        url = f"{CANONICAL}{label}/{name}".replace("+", "%2B")
        about = {"kind": "added", "project": "torch", "version": "2.7.1", "local": label}
        assert change == about | {"file": name, "url": url, "sha256": digest(name)}
    (problem,) = family["problems"]
    assert (problem["item"], problem["url"]) == ("torch-odd.whl", CANONICAL + "torch/")
    assert (family["changed"], family["error"]) == (True, None)


def test_an_odd_name_is_told_on_one_line_that_a_terminal_takes_for_text(here: Here) -> None:
    write_family(here.packages)
    here.upstream([*CUDA, "x\x1b]0;title\x07\r\n\u202ey.whl"])
    assert "not read" in (out := here.sync().out)
    assert all(char.isprintable() or char == "\n" for char in out)


GOOD_PAGE = Answer(body=page(CUDA).encode())
LOST = Answer(body=page(CUDA[:1]).encode())
NAME = "torch-2.7.1+cu118-cp311-cp311-linux_x86_64.whl"
OTHER_BYTES = Answer(body=page(CUDA).replace(digest(NAME), "e" * 64).encode())
FAILURES = {
    "unreachable": (Answer(status=404), 5, "404"),
    "error page": (Answer(body=b"<html>Sorry</html>"), 6, "lists no wheel"),
    "cut off": (Answer(body=page(CUDA).encode()[:-80]), 6, "cut off"),
    "files lost": (LOST, 7, "1 of the 2"),
    "other bytes": (OTHER_BYTES, 7, NAME),
}


@pytest.mark.parametrize(("answer", "code", "named"), FAILURES.values(), ids=FAILURES)
def test_a_family_that_fails_keeps_its_ledger_and_the_others_go_on(
    here: Here, server: PageServer, answer: Answer, code: int, named: str
) -> None:
    bad = write_family(here.packages, "a-bad")
    text = (bad / "family.toml").read_text()
    (bad / "family.toml").write_text(text.replace("/whl/{project}/", "/bad/{project}/").replace('"torch-', '"bad-'))
    write_family(here.packages, "torch-cuda")
    for place in ("whl", "bad"):
        server.serve(f"/{place}/torch/", GOOD_PAGE)
    mirror = f"https://upstream.example/={server.url}"
    assert here.sync(mirror=mirror).code == 0
    before = state(bad)
    server.serve("/bad/torch/", answer)
    server.serve("/whl/torch/", Answer(body=page([*CUDA, *torch_links("3.0.0+cu199")]).encode()))
    ran = here.sync(mirror=mirror)
    assert (ran.code, state(bad)) == (code, before)
    assert any("+cu199" in name for name in names(here.packages))
    assert all(part in ran.err for part in ("a-bad", "https://upstream.example/bad/torch/", named))
    assert len(ran.err.splitlines()) == 1


def test_the_error_stands_in_the_json_too(here: Here) -> None:
    write_family(here.packages)
    ran = here.sync("--json")
    error = json.loads(ran.out)["families"][0]["error"]
    assert ran.code == error["exit_code"] == 5
    assert CANONICAL + "torch/" in error["message"]


@pytest.mark.parametrize("edit", [lambda text: text + "\n", lambda text: text.replace("cp311", "cp312")])
def test_a_ledger_that_was_edited_by_hand_is_not_touched(here: Here, edit: Callable[[str], str]) -> None:
    here.synced(CUDA)
    path = here.packages / "torch-cuda" / "ledger.jsonl"
    path.write_text(edit(path.read_text()))
    before = state(here.packages)
    ran = here.sync()
    assert (ran.code, state(here.packages), str(path) in ran.err) == (4, before, True)


def test_one_bad_ledger_does_not_hide_what_happened_to_the_others(here: Here) -> None:
    (write_family(here.packages, "torch-cpu", "cpu") / "ledger.jsonl").write_text("by hand")
    write_family(here.packages)
    here.upstream(CUDA)
    ran = here.sync("--json")
    assert ran.code == 4
    told = {family["family"]: family["error"] for family in json.loads(ran.out)["families"]}
    assert (told["torch-cpu"]["exit_code"], told["torch-cuda"]) == (4, None)


def archive(number: int) -> bytes:
    """A wheel of a few hundred kilobytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as wheel:
        wheel.writestr(zipfile.ZipInfo("torch/_C.so"), f"bytes {number}".encode() * 100_000)
    return out.getvalue()


WHEELS = {f"torch-2.{n}.0+cu128-cp311-cp311-linux_x86_64.whl": archive(n) for n in range(3)}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_missing_hashes_are_computed_recorded_and_kept(here: Here, server: PageServer) -> None:
    write_family(here.packages)
    server.serve("/whl/torch/", Answer(body=page(f"cu128/{name}" for name in WHEELS).encode()))
    good = {name: Answer(body=content, ranges=True, etag='"one"') for name, content in WHEELS.items()}
    for name, answer in good.items():
        server.serve(f"/whl/cu128/{name}", answer)
    name, whole = next(iter(good.items()))
    server.serve(f"/whl/cu128/{name}", replace(whole, body=whole.body[:600_000], declared=len(whole.body)), whole)
    mirror = f"{CANONICAL}={server.url}whl"

    def run(code: int, known: int) -> Ran:
        ran = here.sync("--hash-missing", mirror=mirror)
        files = load(here.packages / "torch-cuda" / "ledger.jsonl")
        hashed = {file.filename: (file.sha256, file.size) for file in files if file.sha256_from == "computed"}
        assert (ran.code, len(hashed)) == (code, known)
        assert all(found == (sha256(WHEELS[of]), len(WHEELS[of])) for of, found in hashed.items())
        return ran

    assert name.replace("+", "%2B") in run(5, len(WHEELS) - 1).err
    assert "1 hashed" in run(0, len(WHEELS)).out
    assert "range" in server.asked(f"/whl/cu128/{name}")[-1].headers
    assert "no change" in run(0, len(WHEELS)).out


LOG_IN = b"<!DOCTYPE html><html><body>Please log in</body></html>"


@pytest.mark.parametrize(
    ("size", "content", "code", "told"),
    [(None, LOG_IN, 6, "is no wheel"), (999, archive(0), 7, "the ledger says 999")],
    ids=["a page to log in on", "another size"],
)
def test_what_is_not_the_wheel_that_the_page_lists_is_not_hashed(
    here: Here, server: PageServer, size: int | None, content: bytes, code: int, told: str
) -> None:
    write_family(here.packages)
    name = next(iter(WHEELS))
    file: dict[str, Any] = {"filename": name, "url": f"{CANONICAL}cu128/{name}", "hashes": {}, "size": size}
    listing = {"meta": {"api-version": "1.1"}, "name": "torch", "versions": ["2.0.0"], "files": [file]}
    server.serve("/whl/torch/", Answer(body=json.dumps(listing).encode(), content_type="application/json"))
    server.serve(f"/whl/cu128/{name}", Answer(body=content))
    ran = here.sync("--hash-missing", mirror=f"{CANONICAL}={server.url}whl")
    assert (ran.code, told in ran.err) == (code, True)
    assert [file.sha256 for file in load(here.packages / "torch-cuda" / "ledger.jsonl")] == [None]


def test_a_download_that_failed_does_not_deny_what_was_saved(here: Here, server: PageServer) -> None:
    write_family(here.packages)
    server.serve("/whl/torch/", Answer(body=page(f"cu128/{name}" for name in WHEELS).encode()))
    ran = here.sync("--hash-missing", mirror=f"{CANONICAL}={server.url}whl")
    assert (ran.code, names(here.packages)) == (5, sorted(WHEELS))
    assert "as it was" not in ran.err


def hashes(packages: Path, sha256: str) -> None:
    link = CUDA[0].partition("#")[0].replace("+", "%2B")
    (packages / "torch-cuda" / "hashes.csv").write_text(f"url,sha256\n{CANONICAL}{link},{sha256}\n")


def test_recorded_hashes_fill_what_the_page_lacks(here: Here) -> None:
    write_family(here.packages)
    here.upstream([link.partition("#")[0] for link in CUDA])
    hashes(here.packages, "c" * 64)
    assert here.sync().code == 0
    files = load(here.packages / "torch-cuda" / "ledger.jsonl")
    assert [(file.sha256, file.sha256_from) for file in files] == [("c" * 64, "recorded"), (None, None)]


def test_a_recorded_hash_that_the_page_contradicts_is_an_alarm(here: Here) -> None:
    write_family(here.packages)
    here.upstream(CUDA)
    hashes(here.packages, "c" * 64)
    ran = here.sync()
    assert (ran.code, (here.packages / "torch-cuda" / "ledger.jsonl").exists()) == (7, False)
    assert all(part in ran.err for part in ("hashes.csv", "c" * 64))


@pytest.mark.parametrize("sha256", ["", "abc", "z" * 64])
def test_a_recorded_hash_that_is_none_is_an_error(here: Here, sha256: str) -> None:
    write_family(here.packages)
    here.upstream([link.partition("#")[0] for link in CUDA])
    hashes(here.packages, sha256)
    assert ((ran := here.sync()).code, "hashes.csv" in ran.err) == (3, True)


def test_a_folder_of_wheels_is_a_source(here: Here, tmp_path: Path) -> None:
    folder = write_family(here.packages)
    text = (
        (folder / "family.toml")
        .read_text()
        .replace('kind = "simple"', 'kind = "folder"\npath = "../../wheels"')
        .replace("/whl/{project}/", "/whl/")
    )
    (folder / "family.toml").write_text(text)
    (tmp_path / "wheels" / "cu128").mkdir(parents=True)
    name = next(iter(WHEELS))
    (tmp_path / "wheels" / "cu128" / name).write_bytes(WHEELS[name])
    (tmp_path / "wheels" / "torch-odd.whl").write_bytes(b"")
    assert "torch-odd.whl" in here.sync().out
    (file,) = load(folder / "ledger.jsonl")
    assert file.url == f"{CANONICAL}cu128/{name}".replace("+", "%2B")
    assert (file.sha256, file.size) == (sha256(WHEELS[name]), len(WHEELS[name]))


def test_a_companion_is_paired_by_its_own_metadata(here: Here, server: PageServer) -> None:
    write_family(here.packages, vision=True)
    server.serve("/whl/torch/", GOOD_PAGE)
    server.serve("/whl/torchvision/", Answer(body=page([f'cu128/{VISION}|data-core-metadata="true"']).encode()))
    server.serve(f"/whl/cu128/{VISION}.metadata", Answer(body=METADATA))
    assert here.sync(mirror=f"{CANONICAL}={server.url}whl").code == 0
    found = {file.project: file.requires for file in load(here.packages / "torch-cuda" / "ledger.jsonl")}
    assert found == {"torch": None, "torchvision": ("torch==2.7.1",)}


def test_a_family_that_wants_fewer_releases_drops_the_others_from_its_ledger(here: Here) -> None:
    here.synced(torch_links("1.13.1+cu116", "2.0.0+cu117"))
    folder = here.packages / "torch-cuda"
    text = (folder / "family.toml").read_text(encoding="utf-8")
    (folder / "family.toml").write_text(text.replace('releases = ">=1.8"', 'releases = ">=2.0"'), encoding="utf-8")

    ran = here.sync()

    assert ran.code == 0, ran.err
    assert {str(file.release) for file in load(folder / "ledger.jsonl")} == {"2.0.0"}
