"""Bad input, through the real command line: one clear sentence, the right exit code, nothing touched, nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fakes.pages import (
    CANONICAL,
    ROOT,
    Answer,
    PageServer,
    Ran,
    command_env,
    metawheel,
    page,
    start,
    state,
    torch_links,
    write_family,
    write_pages,
)

CUDA = page(torch_links("2.7.1+cu118", "2.7.1+cu128"))
BAD = {
    "truncated": (Answer(body=CUDA.encode()[:200], declared=len(CUDA)), "no complete answer"),
    "cut-off": (Answer(body=CUDA.encode()[:-80]), "cut off"),
    "error-page": (Answer(body=b"<html><body>Please try again later</body></html>"), "error page"),
    "too-large": (Answer(body=b"x" * (1 << 20), endless=66), "larger than"),
    "forbidden": (Answer(status=403), "403"),
    "missing": (Answer(status=404), "404"),
    "broken": (Answer(status=500), "500"),
}


def one_sentence(ran: Ran, *named: str | Path) -> None:
    assert ran.err.startswith("metawheel: error: ")
    assert len(ran.err.strip().splitlines()) == 1
    assert "Traceback" not in ran.err + ran.out
    for part in named:
        assert str(part) in ran.err


@dataclass(frozen=True)
class Failed:
    """One run of sync with a bad page for every family but the last."""

    ran: Ran
    before: dict[str, tuple[bytes, int]]
    packages: Path


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Failed]:
    folder = tmp_path_factory.mktemp("bad")
    packages = folder / "packages"
    with PageServer() as server:
        for name in [*BAD, "refused"]:
            path = write_family(packages, name) / "family.toml"
            text = path.read_text().replace('"torch-{backend}"', f'"{name}-{{backend}}"')
            path.write_text(text.replace("/whl/{project}/", f"/whl/{name}/{{project}}/"))
            server.serve(f"/{name}/torch/", Answer(body=CUDA.encode()))
        arguments: list[str | Path] = ["sync", "--packages", packages]
        mirror = ["--mirror", f"{CANONICAL}={server.url}"]
        assert metawheel(*arguments, *mirror, cache=folder / "cache").code == 0
        before = state(packages)
        for name, (answer, _) in BAD.items():
            server.serve(f"/{name}/torch/", answer)
        refused = ["--mirror", f"{CANONICAL}refused/=http://127.0.0.1:9/"]
        yield Failed(metawheel(*arguments, *refused, *mirror, cache=folder / "cache2"), before, packages)


@pytest.mark.parametrize("name", [*BAD, "refused"])
def test_a_bad_page_is_told_in_one_sentence_that_names_family_page_and_reason(failed: Failed, name: str) -> None:
    (line,) = [line for line in failed.ran.err.splitlines() if f"{CANONICAL}{name}/torch/" in line]
    assert line.startswith(f"metawheel: error: {name}: ")
    assert (BAD[name][1] if name in BAD else "refused") in line


def test_bad_pages_leave_every_ledger_as_it_was(failed: Failed) -> None:
    assert failed.ran.code == 6
    assert "Traceback" not in failed.ran.err
    assert state(failed.packages) == failed.before


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A family with a ledger."""
    write_family(tmp_path / "packages")
    write_pages(tmp_path / "up", {"torch": CUDA})
    arguments = ("sync", "--packages", tmp_path / "packages", "--mirror", f"{CANONICAL}={tmp_path / 'up'}")
    assert metawheel(*arguments, cache=tmp_path / "cache").code == 0
    return tmp_path / "packages"


@pytest.fixture
def run(packages: Path, tmp_path: Path) -> Callable[..., Ran]:
    """Run a command on that family; whatever it is given, what is on disk must not change."""

    def command(*arguments: str | Path, before: Callable[[], None] = lambda: None) -> Ran:
        before()
        (tmp_path / "temporary").mkdir()
        (tmp_path / "cache").mkdir(exist_ok=True)
        old = state(tmp_path / "packages"), sorted(tmp_path.iterdir())
        env = {"TMPDIR": str(tmp_path / "temporary")}
        ran = metawheel(*arguments, "--packages", packages, cache=tmp_path / "cache", env=env)
        assert (state(tmp_path / "packages"), sorted(tmp_path.iterdir())) == old
        assert list((tmp_path / "temporary").iterdir()) == []
        return ran

    return command


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("summary =", "sumary =", "sumary"),
        ('plain = "cpu"', "plain = 1", "'plain'"),
        (r"'cu\d+'", r"'cu(\d+'", "regular expression"),
        ('plain = "cpu"', 'plain = "cpu', "TOML"),
    ],
    ids=["unknown key", "wrong type", "bad pattern", "not TOML"],
)
def test_a_fault_in_a_family(run: Callable[..., Ran], packages: Path, old: str, new: str, named: str) -> None:
    path = packages / "torch-cuda" / "family.toml"
    text = path.read_text().replace(old, new, 1)
    ran = run("sync", before=lambda: bool(path.write_text(text)) or None)
    assert (ran.code, named in ran.err, str(path) in ran.err, "Traceback" in ran.err) == (3, True, True, False)


def test_two_families_that_emit_one_name(run: Callable[..., Ran], packages: Path, tmp_path: Path) -> None:
    other = write_family(packages, "torch-gpu")
    (other / "ledger.jsonl").write_bytes((packages / "torch-cuda" / "ledger.jsonl").read_bytes())
    ran = run("build", "-o", tmp_path / "site")
    one_sentence(ran, "torch-cu118", "torch-cuda", "torch-gpu")
    assert ran.code == 3


def test_a_ledger_that_was_edited_by_hand(run: Callable[..., Ran], packages: Path, tmp_path: Path) -> None:
    path = packages / "torch-cuda" / "ledger.jsonl"
    path.write_bytes(path.read_bytes().replace(b"cp311", b"cp312"))
    ran = run("build", "-o", tmp_path / "site")
    one_sentence(ran, path, "by hand")
    assert ran.code == 4


def test_a_family_without_ledger(run: Callable[..., Ran], packages: Path, tmp_path: Path) -> None:
    (packages / "torch-cuda" / "ledger.jsonl").unlink()
    ran = run("build", "-o", tmp_path / "site")
    one_sentence(ran, packages / "torch-cuda" / "ledger.jsonl", "metawheel sync")
    assert ran.code == 4


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("sync", "torch-cdua"), ("'torch-cdua'", "torch-cuda")),
        (("show", "torch-cu999"), ("'torch-cu999'", "torch-cu118")),
        (("show", "torch-cu118==9.9.9"), ("9.9.9", "2.7.1")),
        (("show", "torch-cu118>=2"), ("torch-cu118>=2",)),
        (("show", "torch cu118"), ("torch cu118",)),
        (("show", "../x"), ("../x",)),
    ],
    ids=" ".join,
)
def test_an_unknown_name(run: Callable[..., Ran], arguments: tuple[str, ...], named: tuple[str, ...]) -> None:
    ran = run(*arguments)
    one_sentence(ran, *named)
    assert ran.code == 9


@pytest.mark.parametrize("mirror", ["nonsense", "=x", "pypi="])
def test_a_mirror_that_is_none(run: Callable[..., Ran], mirror: str) -> None:
    ran = run("sync", "--mirror", mirror)
    assert (ran.code, "FROM=TO" in ran.err, "Traceback" in ran.err) == (2, True, False)


@pytest.mark.parametrize(
    "arguments",
    [
        ("detect", "--index"),
        ("build", "-o", "site", "--url"),
        ("publish", "site", "--repository-url", "https://x.invalid/", "--index-url"),
    ],
    ids=" ".join,
)
def test_what_is_no_address_is_a_wrong_option(run: Callable[..., Ran], arguments: tuple[str, ...]) -> None:
    ran = run(*arguments, "http://[x/")
    assert (ran.code, "http://[x/" in ran.err, "Traceback" in ran.err) == (2, True, False)


def test_a_ledger_that_is_a_folder_is_named(run: Callable[..., Ran], packages: Path, tmp_path: Path) -> None:
    path = packages / "torch-cuda" / "ledger.jsonl"
    path.unlink()
    path.mkdir()
    ran = run("build", "-o", tmp_path / "site")
    one_sentence(ran, path)
    assert ran.code == 8


def test_a_site_below_a_regular_file(run: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    ran = run("build", "-o", tmp_path / "file" / "site")
    one_sentence(ran, tmp_path / "file")
    assert (ran.code, (tmp_path / "file").read_text()) == (8, "here")


def test_an_output_folder_that_is_no_site(run: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    before = state(tmp_path / "mine")
    ran = run("build", "-o", tmp_path / "mine")
    one_sentence(ran, tmp_path / "mine")
    assert (ran.code, state(tmp_path / "mine")) == (8, before)


@pytest.mark.usefixtures("unmeasured")
@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell's ulimit")
def test_a_disk_that_takes_no_more(packages: Path, tmp_path: Path) -> None:
    more = page(torch_links("2.7.1+cu118", "2.7.1+cu128", "3.0.0+cu199"))
    write_pages(tmp_path / "up", {"torch": more})
    before = state(packages)
    command = [sys.executable, "-m", "metawheel", "sync", "--packages", str(packages)]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *command, "--mirror", f"{CANONICAL}={tmp_path / 'up'}"],
        env=command_env(tmp_path / "cache"),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    ran = Ran(done.returncode, done.stdout, done.stderr)
    one_sentence(ran, packages / "torch-cuda" / "ledger.jsonl", "cannot be written")
    assert (ran.code, state(packages)) == (8, before)


def test_a_cache_that_cannot_be_written(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    with PageServer() as server:
        server.serve("/torch/", Answer(body=CUDA.encode(), etag='"one"'))
        arguments = ("sync", "--packages", packages, "--mirror", f"{CANONICAL}={server.url}")
        ran = metawheel(*arguments, cache=tmp_path / "file" / "cache")
    assert (ran.code in {0, 8}, "Traceback" in ran.err) == (True, False)


def interrupted(process: subprocess.Popen[str], ready: Callable[[], bool]) -> Ran:
    """Press Ctrl-C as soon as the command is in the middle of its work."""
    deadline = time.monotonic() + 30
    while not ready() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()
    os.killpg(process.pid, signal.SIGINT)
    try:
        out, err = process.communicate(timeout=8)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        pytest.fail("it went on after Ctrl-C")
    return Ran(process.returncode, out, err)


@pytest.mark.parametrize(
    ("what", "answer"), [("page", Answer(hangs=True)), ("download", Answer(drips=True, declared=10_000))]
)
def test_ctrl_c_while_syncing(packages: Path, tmp_path: Path, what: str, answer: Answer) -> None:
    name = "cu128/torch-9.0.0+cu128-cp311-cp311-linux_x86_64.whl"
    with PageServer() as server:
        path = f"/{name}" if what == "download" else "/torch/"
        server.serve("/torch/", Answer(body=page([*torch_links("2.7.1+cu118", "2.7.1+cu128"), name]).encode()))
        server.serve(path, answer)
        arguments = ["sync", "--hash-missing", "--packages", str(packages), "--mirror", f"{CANONICAL}={server.url}"]
        before = state(packages)
        ran = interrupted(start(arguments, command_env(tmp_path / "cache")), lambda: bool(server.asked(path)))
    one_sentence(ran, "stopped")
    assert ran.code == 130
    if what == "page":
        assert state(packages) == before
    assert metawheel("show", "torch-cu128", "--packages", packages, cache=tmp_path / "cache").code == 0
    assert [path.name for path in packages.rglob(".*")] == []


def test_ctrl_c_while_building_leaves_the_old_site_and_no_litter(packages: Path, tmp_path: Path) -> None:
    ran, kept = build_interrupted(packages, tmp_path)
    assert (ran.code, "Traceback" in ran.err) == (130, False)
    assert kept


def test_ctrl_c_is_answered_with_a_sentence(packages: Path, tmp_path: Path) -> None:
    one_sentence(build_interrupted(packages, tmp_path)[0], "stopped")


def build_interrupted(packages: Path, tmp_path: Path) -> tuple[Ran, bool]:
    """Press Ctrl-C in a build over an older site; tells whether that site is all that is left."""
    site, temporary = tmp_path / "out" / "site", tmp_path / "temporary"
    temporary.mkdir()
    env = command_env(tmp_path / "cache") | {"TMPDIR": str(temporary)}
    assert metawheel("build", "-o", site, "--packages", packages, cache=tmp_path / "cache").code == 0
    before = state(site)
    process = start(["build", "-o", str(site), "--offline", "--packages", str(ROOT / "packages")], env)
    ran = interrupted(process, lambda: any(temporary.iterdir()) or len(list(site.parent.iterdir())) > 1)
    left = [path.name for path in site.parent.iterdir()], list(temporary.iterdir())
    return ran, state(site) == before and left == (["site"], [])
