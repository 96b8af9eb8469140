"""Pairing by METADATA: from the sidecar that upstream serves, else out of a wheel by range requests."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import pytest

from metawheel.errors import MetawheelError, Unreachable
from metawheel.family import Companion, Family, load_family
from metawheel.model import Problem, UpstreamFile
from metawheel.upstream.http import Fetcher
from metawheel.upstream.metadata import add_requirements, requirements_on
from metawheel.upstream.mirrors import Mirror
from tests.fakes.pages import CANONICAL, Answer, PageServer, write_family

NAME = "torchvision-0.22.1-cp311-cp311-linux_x86_64.whl"
TEXT = (
    b"Metadata-Version: 2.1\nName: torchvision\nVersion: 0.22.1\nRequires-Dist: numpy\nRequires-Dist: torch (==2.7.1)\n"
)
PAIR = ("torch==2.7.1",)

# CacheControl leaves its temporary file of a response that broke off to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


@pytest.fixture
def family(tmp_path: Path) -> Family:
    return load_family(write_family(tmp_path / "packages", vision=True))


@pytest.fixture
def fetcher(tmp_path: Path, server: PageServer) -> Fetcher:
    mirrors = [Mirror.parse(f"{CANONICAL}={server.url}whl"), Mirror.parse(f"pypi={server.url}simple")]
    return Fetcher(mirrors, cache=tmp_path / "cache", timeout=(2.0, 2.0), retries=0)


def wheel(metadata: bytes = TEXT, ballast: int = 500_000) -> bytes:
    """A wheel whose METADATA is a small part of it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("torchvision/_C.so", bytes(ballast))
        archive.writestr("torchvision-0.22.1.dist-info/METADATA", metadata)
        archive.writestr("torchvision-0.22.1.dist-info/licenses/x.dist-info/METADATA", b"Name: wrong\n")
    return out.getvalue()


def vision(metadata: str | None = None, version: str = "0.22.1") -> UpstreamFile:
    name = NAME.replace("0.22.1", version)
    return UpstreamFile(filename=name, source="up", url=CANONICAL + "cpu/" + name, metadata=metadata)


def on_pypi(server: PageServer, answer: Answer, *, attribute: str = "") -> None:
    link = f'<a href="{server.url}files/{NAME}" {attribute}>{NAME}</a>'
    server.serve("/simple/torchvision/", Answer(body=link.encode()))
    server.serve(f"/files/{NAME}", answer)


def paired(family: Family, file: UpstreamFile, fetcher: Fetcher) -> tuple[tuple[str, ...] | None, tuple[Problem, ...]]:
    (found,), problems = add_requirements(family, [file], fetcher)
    return found.requires, problems


@pytest.mark.parametrize("stated", ["true", hashlib.sha256(TEXT).hexdigest()])
def test_the_sidecar_beside_the_file_tells_what_it_is_paired_with(
    family: Family, server: PageServer, fetcher: Fetcher, stated: str
) -> None:
    server.serve(f"/whl/cpu/{NAME}.metadata", Answer(body=TEXT))
    assert paired(family, vision(stated), fetcher) == (PAIR, ())
    assert [request.path for request in server.requests] == [f"/whl/cpu/{NAME}.metadata"]


def test_a_sidecar_with_another_sha256_than_stated_is_not_believed(
    family: Family, server: PageServer, fetcher: Fetcher
) -> None:
    server.serve(f"/whl/cpu/{NAME}.metadata", Answer(body=TEXT.replace(b"2.7.1", b"9.9.9")))
    on_pypi(server, Answer(body=wheel(), ranges=True))
    assert paired(family, vision(hashlib.sha256(TEXT).hexdigest()), fetcher) == (PAIR, ())


def test_an_error_page_with_status_200_is_no_metadata(family: Family, server: PageServer, fetcher: Fetcher) -> None:
    on_pypi(server, Answer(body=wheel(), ranges=True))
    for path in (f"/whl/cpu/{NAME}.metadata", f"/files/{NAME}.metadata"):
        server.serve(path, Answer(body=b"<html><body>Not found</body></html>"))
    assert paired(family, vision("true"), fetcher) == (PAIR, ())


def test_a_mirror_that_links_relatively_is_asked_for_its_wheels(
    family: Family, server: PageServer, fetcher: Fetcher
) -> None:
    server.serve("/simple/torchvision/", Answer(body=f'<a href="../../files/{NAME}">{NAME}</a>'.encode()))
    server.serve(f"/files/{NAME}", Answer(body=wheel(), ranges=True))
    assert paired(family, vision(), fetcher) == (PAIR, ())


def test_metadata_is_read_out_of_a_wheel_without_downloading_it(
    family: Family, server: PageServer, fetcher: Fetcher
) -> None:
    on_pypi(server, Answer(body=wheel(), ranges=True))
    assert paired(family, vision(), fetcher) == (PAIR, ())
    assert all("range" in request.headers for request in server.asked(f"/files/{NAME}"))


def test_the_sidecar_on_pypi_is_taken_before_its_wheel(family: Family, server: PageServer, fetcher: Fetcher) -> None:
    on_pypi(server, Answer(status=404), attribute='data-core-metadata="true"')
    server.serve(f"/files/{NAME}.metadata", Answer(body=TEXT))
    assert paired(family, vision(), fetcher) == (PAIR, ())


def test_a_release_that_is_nowhere_to_be_had_is_reported_and_stays_unpaired(
    family: Family, server: PageServer, fetcher: Fetcher
) -> None:
    on_pypi(server, Answer(body=wheel(), ranges=True))
    requires, (problem,) = paired(family, vision(version="0.1.0"), fetcher)
    assert requires is None
    assert "torchvision 0.1.0" in problem.item


@pytest.mark.parametrize("body", [b"no zip" * 20_000, wheel()[:-40]], ids=["no zip", "cut off"])
def test_a_wheel_that_is_none_is_reported_and_stays_unpaired(
    family: Family, server: PageServer, fetcher: Fetcher, body: bytes
) -> None:
    on_pypi(server, Answer(body=body, ranges=True))
    requires, problems = paired(family, vision(), fetcher)
    assert requires is None
    assert len(problems) == 1


def test_a_server_that_knows_no_ranges_is_a_failure_with_a_message(
    family: Family, server: PageServer, fetcher: Fetcher
) -> None:
    on_pypi(server, Answer(body=wheel()))
    try:
        requires, problems = paired(family, vision(), fetcher)
    except MetawheelError as error:
        assert NAME in str(error)  # noqa: PT017
    else:
        assert (requires, len(problems)) in {(None, 1), (PAIR, 0)}


def test_a_page_that_could_tell_but_is_out_of_reach_stops_the_family(
    family: Family, server: PageServer, fetcher: Fetcher
) -> None:
    server.serve("/simple/torchvision/", Answer(status=503))
    with pytest.raises(Unreachable, match="503"):
        add_requirements(family, [vision()], fetcher)


def test_what_one_file_of_a_release_knows_holds_for_the_others(
    family: Family, server: PageServer, fetcher: Fetcher
) -> None:
    known = UpstreamFile(filename=NAME, source="up", url=CANONICAL + NAME, requires=PAIR)
    files, problems = add_requirements(family, [known, vision()], fetcher)
    assert ([file.requires for file in files], problems) == ([PAIR, PAIR], ())
    assert server.requests == []


def test_a_file_that_is_no_companion_is_not_asked_about(family: Family, server: PageServer, fetcher: Fetcher) -> None:
    name = "torch-2.7.1-cp311-none-macosx_11_0_arm64.whl"
    torch = UpstreamFile(filename=name, source="up", url=CANONICAL + name, metadata="true")
    assert add_requirements(family, [torch], fetcher) == ((torch,), ())
    assert server.requests == []


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["torch (==2.7.1)", "numpy"], ("torch==2.7.1",)),
        (["Torch==2.7.1"], ("torch==2.7.1",)),
        (["torch"], ("torch",)),
        (["torchaudio==2.7.1"], ()),
        (["what is this", "torch==2.7.1"], ("torch==2.7.1",)),
        (['torch==2.7.1; extra == "cpu"'], ("torch==2.7.1",)),
        (['torch==2.7.1; extra == "gpu"'], ()),
        (["torch>=2", 'torch==2.7.1; extra == "cpu"'], ("torch>=2",)),
    ],
)
def test_only_lines_on_the_wrapped_project_count(lines: list[str], found: tuple[str, ...]) -> None:
    companion = Companion.model_validate({"project": "torchvision", "pairs-in-extra": "cpu"})
    metadata = "Metadata-Version: 2.1\n" + "".join(f"Requires-Dist: {line}\n" for line in lines)
    assert requirements_on("torch", companion, metadata.encode()) == found


def test_a_pair_does_not_depend_on_the_machine_that_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    companion = Companion.model_validate({"project": "jax", "pairs-in-extra": "cpu"})
    line = 'Requires-Dist: jaxlib==0.4.4; extra == "cpu" and sys_platform == "{}" and python_version < "3.99"\n'
    metadata = "Metadata-Version: 2.1\n" + "".join(line.format(system) for system in ("linux", "win32"))
    found = set()
    for machine in ("linux", "darwin", "win32"):
        with monkeypatch.context() as patch:
            patch.setattr("sys.platform", machine)
            found.add(requirements_on("jaxlib", companion, metadata.encode()))
    assert found == {("jaxlib==0.4.4",)}
