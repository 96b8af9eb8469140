"""`metawheel relabel`: plain builds get a label, ledgers keep both hashes, wrappers pin exact labels everywhere."""

from __future__ import annotations

import gc
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from metawheel import cli, ledger
from metawheel.check import check_site
from metawheel.errors import MetawheelError, RelabelError, Unreachable
from metawheel.family import load_families
from metawheel.inputs import Options, make_plan
from metawheel.model import UpstreamFile, Wrapper
from metawheel.relabel import Relabelling, relabel
from metawheel.upstream.http import Fetcher
from metawheel.upstream.mirrors import Mirror
from tests.cases.plain import wheel_of
from tests.clients import envs
from tests.fakes import pages as fakes
from tests.fakes.ledgers import build_site, environments, pins, wrapper_of
from tests.fakes.pages import CANONICAL, Answer, PageServer, Ran, page, state, torch_links, write_family
from tests.fakes.site import SiteServer

# CacheControl leaves its temporary file of a response that broke off to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")

ARM, INTEL = (f"torch-2.2.2-cp311-none-macosx_{tag}.whl" for tag in ("11_0_arm64", "10_9_x86_64"))
AARCH64 = "torch-2.2.2-cp311-cp311-manylinux2014_aarch64.whl"
PLAIN = (ARM, INTEL, AARCH64)
LABELLED = {name: name.replace("2.2.2", "2.2.2+cpu") for name in PLAIN}
OTHERS = [
    *torch_links("2.2.2+cpu", "2.2.2+cu121"),
    *torch_links("2.2.2+cpu", "2.2.2+cu121", system="win_amd64"),
]
HERE = "http://wheels.invalid/relabelled"


@dataclass(frozen=True)
class Here:
    """The families torch-cpu and torch-cuda, upstream on loopback, the folder of relabelled wheels, and the command."""

    packages: Path
    out: Path
    upstream: PageServer
    command: Callable[[list[str]], Ran]

    def serve(self, *, yanked: str | None = None) -> None:
        """Offer upstream's page of torch, with the plain builds behind it."""
        attributes = "" if yanked is None else f'|data-yanked="{yanked}"'
        links = [f"{name}#sha256={hashlib.sha256(wheel_of(name)).hexdigest()}{attributes}" for name in PLAIN]
        self.upstream.serve("/whl/torch/", Answer(body=page([*OTHERS, *links]).encode()))
        for name in PLAIN:
            self.upstream.serve(f"/whl/{name}", Answer(body=wheel_of(name)))

    def run(self, *arguments: str) -> Ran:
        """Run a command on the families, upstream being the loopback server."""
        mirror = f"{CANONICAL}={self.upstream.url}whl/"
        return self.command([*arguments, "--packages", str(self.packages), "--mirror", mirror])

    def relabel(self, *arguments: str, url: str = HERE) -> Ran:
        """Run `metawheel relabel`."""
        return self.run("relabel", *(arguments or ("torch==2.2.2",)), "-o", str(self.out), "--url", url)

    def files(self, family: str = "torch-cpu") -> dict[str, UpstreamFile]:
        """The files of a ledger by name."""
        return {file.filename: file for file in ledger.load(self.packages / family / "ledger.jsonl")}

    def made(self) -> dict[str, bytes]:
        """What lies in the folder of relabelled wheels."""
        return {path.name: path.read_bytes() for path in self.out.iterdir()} if self.out.exists() else {}

    def wrapper(self, name: str) -> Wrapper:
        """What is planned now."""
        return wrapper_of(make_plan(load_families(self.packages), Options()), name, "2.2.2")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Here]:
    for name, value in (fakes.ONLY_LOOPBACK | {"METAWHEEL_CACHE": str(tmp_path / "cache")}).items():
        monkeypatch.delenv(name.upper(), raising=False)
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1750000000")

    def command(arguments: list[str]) -> Ran:
        monkeypatch.setattr("sys.argv", ["metawheel", *arguments])
        capsys.readouterr()
        code: int | str | None = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code
        assert isinstance(code, int)
        return Ran(code, *capsys.readouterr())

    with PageServer() as upstream:
        place = Here(tmp_path / "packages", tmp_path / "out", upstream, command)
        write_family(place.packages, "torch-cpu", "cpu")
        write_family(place.packages)
        place.serve()
        assert place.run("sync").code == 0
        yield place
    gc.collect()


def test_the_ledgers_that_have_a_plain_build_keep_both_hashes_and_where_it_will_be(here: Here) -> None:
    ran = here.relabel()
    assert (ran.code, ran.err) == (0, "")
    assert "3 wheels in" in ran.out
    for family, names in (("torch-cpu", PLAIN), ("torch-cuda", (ARM, INTEL))):
        files = here.files(family)
        relabelled = {name for name, file in files.items() if file.source == "relabelled"}
        assert relabelled == {LABELLED[name] for name in names}, family
        for name in names:
            file = files[LABELLED[name]]
            assert file.sha256 == hashlib.sha256(here.made()[file.filename]).hexdigest()
            assert file.upstream_sha256 == files[name].sha256 == hashlib.sha256(wheel_of(name)).hexdigest()
            assert file.size == len(here.made()[file.filename])
            assert file.url == f"{HERE}/{file.filename.replace('+', '%2B')}"
            assert (file.local, file.sha256_from, file.first_seen) == ("cpu", "computed", "2025-06-15")


def test_the_folder_holds_each_wheel_with_its_metadata_beside_it_and_no_more(here: Here) -> None:
    here.relabel()
    assert set(here.made()) == {f"{name}{end}" for name in LABELLED.values() for end in ("", ".metadata")}
    for name in LABELLED.values():
        with ZipFile(here.out / name) as archive:
            metadata = archive.read("torch-2.2.2+cpu.dist-info/METADATA")
        assert here.made()[f"{name}.metadata"] == metadata
        assert here.files()[name].metadata == hashlib.sha256(metadata).hexdigest()


def test_a_second_run_has_nothing_to_do_and_fetches_and_writes_nothing(here: Here) -> None:
    here.relabel()
    before = state(here.packages) | state(here.out)
    asked = len(here.upstream.requests)
    ran = here.relabel()
    assert (ran.code, "nothing to relabel" in ran.out) == (0, True)
    assert state(here.packages) | state(here.out) == before
    assert len(here.upstream.requests) == asked


def test_json_tells_both_hashes(here: Here) -> None:
    told = json.loads(here.relabel("torch==2.2.2", "--system", "darwin", "--json").out)["relabelled"]
    assert [(item["file"], item["upstream_sha256"]) for item in told] == [
        (LABELLED[name], hashlib.sha256(wheel_of(name)).hexdigest()) for name in (INTEL, ARM)
    ]
    assert not any(LABELLED[AARCH64] in name for name in here.made()), "--system narrows"


def test_the_family_folders_project_says_what_the_ledger_now_gives(here: Here) -> None:
    here.relabel()
    before = state(here.packages)
    assert here.run("sync").code == 0
    assert state(here.packages) == before


def test_the_next_sync_keeps_them_and_follows_a_yank_and_its_end(here: Here) -> None:
    here.relabel()
    before = here.files(), here.files("torch-cuda")
    ran = here.run("sync")
    assert (ran.code, ran.err) == (0, "")
    assert (here.files(), here.files("torch-cuda")) == before
    here.serve(yanked="broken on Macs")
    assert here.run("sync").code == 0
    assert {here.files(family)[LABELLED[ARM]].yanked for family in ("torch-cpu", "torch-cuda")} == {"broken on Macs"}
    here.serve()
    assert here.run("sync").code == 0
    assert here.files()[LABELLED[ARM]].yanked is None


def test_another_sha256_than_the_ledgers_is_an_alarm_and_nothing_is_written(here: Here) -> None:
    before = state(here.packages)
    for name in PLAIN:
        here.upstream.serve(f"/whl/{name}", Answer(body=wheel_of(name) + b"!"))
    ran = here.relabel()
    assert ran.code == 7
    assert "it was not relabelled" in ran.err
    assert (state(here.packages), here.made()) == (before, {})
    here.serve()
    assert here.relabel().code == 0, "the wrong bytes were not kept either"


def _with_hash_of(here: Here, name: str, content: bytes) -> None:
    """Let upstream serve other bytes, and have known them for ever."""
    here.upstream.serve(f"/whl/{name}", Answer(body=content))
    for family in ("torch-cpu", "torch-cuda"):
        files = here.files(family)
        if name in files:
            files[name] = replace(files[name], sha256=hashlib.sha256(content).hexdigest())
            ledger.save(here.packages / family / "ledger.jsonl", files.values())


@pytest.mark.parametrize("content", [wheel_of(ARM)[:-2000], wheel_of(ARM, wrong_record=True)], ids=["cut", "RECORD"])
def test_a_wheel_that_is_wrong_stops_the_run_and_what_was_done_before_stays(here: Here, content: bytes) -> None:
    _with_hash_of(here, ARM, content)
    ran = here.relabel()
    assert (ran.code, ran.err.count("\n")) == (11, 1)
    assert ARM in ran.err
    assert {name for name in here.made() if name.endswith(".whl")} == {LABELLED[AARCH64], LABELLED[INTEL]}
    assert {name for name in here.files() if here.files()[name].source == "relabelled"} == {
        LABELLED[AARCH64],
        LABELLED[INTEL],
    }
    assert LABELLED[ARM] not in here.files("torch-cuda")


@pytest.mark.parametrize("wanted", ["torch==9.9", "jaxlib", "torch==2.2.2+cu121", "not a name"])
def test_what_no_ledger_has_a_plain_build_of_is_an_unknown_name(here: Here, wanted: str) -> None:
    before = state(here.packages)
    ran = here.relabel(wanted)
    assert (ran.code, wanted in ran.err) == (9, True)
    assert (state(here.packages), here.made()) == (before, {})


def test_a_plain_build_without_sha256_is_not_relabelled(here: Here) -> None:
    for family in ("torch-cpu", "torch-cuda"):
        files = [replace(file, sha256=None) if file.local is None else file for file in here.files(family).values()]
        ledger.save(here.packages / family / "ledger.jsonl", files)
    here.relabel()
    assert here.made() == {}


def test_a_plain_build_without_sha256_is_told_as_the_reason(here: Here) -> None:
    test_a_plain_build_without_sha256_is_not_relabelled(here)
    assert "has a label already" not in here.relabel().out


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (Answer(body=page(["torch-2.2.2-cp310-none-macosx_11_0_arm64.whl"]).encode()), RelabelError, "not list it any"),
        (Answer(status=503), Unreachable, "503"),
    ],
    ids=["gone", "down"],
)
def test_a_plain_build_that_pypi_hosts_is_named_where_it_cannot_be_had(
    tmp_path: Path, server: PageServer, answer: Answer, error: type[MetawheelError], said: str
) -> None:
    server.serve("/simple/torch/", answer)
    fetcher = Fetcher([Mirror.parse(f"pypi={server.url}simple")], cache=tmp_path / "cache", retries=0)
    file = UpstreamFile(filename=ARM, source="pypi", url=None, sha256="0" * 64)
    item = Relabelling(file=file, label="cpu", families=())
    with pytest.raises(error, match=said):
        relabel([item], tmp_path / "out", HERE, fetcher, "2026-01-01", lambda *_: None)
    assert list((tmp_path / "out").iterdir()) == []


def test_wrappers_then_pin_exact_labels_on_every_platform(here: Here) -> None:
    before = {name: here.wrapper(name) for name in ("torch-cpu", "torch-cu121")}
    assert {line.partition(" ;")[0] for line in before["torch-cpu"].requires} == {"torch==2.2.2+cpu", "torch==2.2.2"}
    here.relabel()
    cpu, cuda = here.wrapper("torch-cpu"), here.wrapper("torch-cu121")
    assert cpu.requires == ("torch==2.2.2+cpu",), "one line for every environment, without marker"
    assert {line.partition(" ;")[0] for line in cuda.requires} == {"torch==2.2.2+cu121", "torch==2.2.2+cpu"}
    for where in environments():
        own = (where["sys_platform"], where["platform_machine"]) in {("linux", "x86_64"), ("win32", "AMD64")}
        assert pins(cuda.requires, "torch", where) == [f"torch==2.2.2+{'cu121' if own else 'cpu'}"]
    for wrapper in (cpu, cuda):
        assert wrapper.tags == before[wrapper.name].tags, "what is covered stays"
        assert all(file.local is not None for file in wrapper.files)
        assert all("+" in str(Requirement(line).specifier) for line in wrapper.requires)


def test_the_site_keeps_every_promise_and_lists_the_relabelled_files_only(here: Here, tmp_path: Path) -> None:
    here.relabel()
    build_site(here.packages, tmp_path / "site")
    assert check_site(tmp_path / "site") == []
    data = json.loads((tmp_path / "site" / "simple" / "torch" / "index.json").read_bytes())
    listed = {file["filename"]: file for file in data["files"]}
    assert set(LABELLED.values()) < set(listed)
    assert not set(PLAIN) & set(listed)
    assert listed[LABELLED[ARM]]["core-metadata"] == {"sha256": here.files()[LABELLED[ARM]].metadata}


@pytest.mark.clients
@pytest.mark.parametrize(("system", "name"), [("macosx_14_0_arm64", ARM), ("manylinux2014_aarch64", AARCH64)])
def test_pip_gets_the_relabelled_wheel_from_a_site_that_hosts_it(
    here: Here, tmp_path: Path, system: str, name: str
) -> None:
    with SiteServer(tmp_path / "served") as server:
        here.relabel(url=f"{server.url}wheels")
        build_site(here.packages, tmp_path / "served")
        here.out.rename(tmp_path / "served" / "wheels")
        arguments = ["download", "torch-cpu==2.2.2", "--only-binary=:all:", "--python-version", "3.11"]
        envs.run("pip", [*arguments, "--platform", system, "--index-url", server.simple], cwd=tmp_path)
    assert (tmp_path / LABELLED[name]).read_bytes() == (tmp_path / "served/wheels" / LABELLED[name]).read_bytes()
    assert server.log.count("metadata") == 2


@pytest.mark.parametrize("url", ["wheels", "ftp://wheels.example.org/", ""])
def test_an_address_that_no_page_could_link_to_is_refused_before_a_byte_is_fetched(here: Here, url: str) -> None:
    before = here.files()

    ran = here.relabel(url=url)

    assert ran.code == 2
    assert "--url" in ran.err
    assert (here.files(), here.made()) == (before, {})


def test_a_sites_folder_is_refused_for_the_next_build_would_empty_it(here: Here) -> None:
    build_site(here.packages, here.out)
    before = here.files()

    for out in (here.out, here.out / "wheels"):
        ran = replace(here, out=out).relabel()
        assert (ran.code, here.files()) == (2, before)
        assert "is in a site" in ran.err


def test_the_folder_and_its_wheels_are_readable_for_a_web_server_whatever_the_umask(here: Here) -> None:
    before = os.umask(0o077)
    try:
        assert here.relabel().code == 0
    finally:
        os.umask(before)
    assert here.out.stat().st_mode & 0o777 == 0o755
    assert {path.stat().st_mode & 0o777 for path in here.out.iterdir()} == {0o644}


def test_a_wheel_that_cannot_be_written_is_named_and_no_part_of_it_stays(here: Here) -> None:
    (here.out / LABELLED[AARCH64]).mkdir(parents=True)
    ran = here.relabel()
    assert (ran.code, f"{LABELLED[AARCH64]}: cannot be written: Is a directory" in ran.err) == (8, True)
    assert not list(here.out.glob(".*"))
