"""Publishing to an index: what is missing is uploaded, nothing is replaced, and every failure says what to do."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urljoin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.metadata import parse_email
from twine.repository import TEST_WAREHOUSE, WAREHOUSE
from typer.testing import CliRunner

import metawheel.publish.upload
from metawheel import released
from metawheel.cli import app
from metawheel.cli.publish import PINNED
from metawheel.errors import OutputError, PublishError, UnknownName
from metawheel.family import Family
from metawheel.inputs import Options
from metawheel.model import Artifact, wheel_name
from metawheel.publish.login import Destination
from metawheel.publish.servers import by_url, named, refusals, servers
from metawheel.publish.simple import RemoteFile, listed
from metawheel.publish.upload import UploadError, compare, publish
from tests.fakes.index import FakeIndex, Fault, Page
from tests.fakes.ledgers import TORCH, build_site, torch_files, untimed, wheel, write_family
from tests.fakes.pages import Answer, PageServer, start
from tests.fakes.pages import metawheel as run

USER, PASSWORD = "publisher", "s3cr&t/pässword"
COMMAND = {"TWINE_USERNAME": USER, "TWINE_PASSWORD": PASSWORD}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pinned site of four wrappers; it is only read."""
    folder = tmp_path_factory.mktemp("pinned")
    write_family(folder / "packages" / "torch", TORCH, torch_files())
    build_site(folder / "packages", folder / "site")
    return folder / "site"


@pytest.fixture(scope="module")
def direct_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("direct")
    write_family(folder / "packages" / "torch", TORCH, torch_files())
    build_site(folder / "packages", folder / "site", Options(flavour="direct", offline=True))
    return folder / "site"


@pytest.fixture
def index() -> Iterator[FakeIndex]:
    with FakeIndex() as running:
        yield running


@pytest.fixture(autouse=True)
def _twine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the machine's reaches twine, and no test waits between two attempts."""
    for name in [name for name in os.environ if name.startswith("TWINE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    monkeypatch.setenv("METAWHEEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TWINE_USERNAME", USER)
    monkeypatch.setenv("TWINE_PASSWORD", PASSWORD)
    monkeypatch.setattr(metawheel.publish.upload, "PAUSE", 0)


def wheels_of(site: Path) -> list[str]:
    """The wheels of a site in the order in which they are to be uploaded."""
    names = (path.name for path in (site / "files").glob("*.whl"))
    return sorted(names, key=lambda name: (wheel_name(name).project, wheel_name(name).version, name))


def contents(site: Path) -> dict[str, bytes]:
    return {name: (site / "files" / name).read_bytes() for name in wheels_of(site)}


def to(index: FakeIndex, server: str | None = None) -> Destination:
    return Destination(repository_url=index.url, index_url=index.simple, server=server)


def refused(site: Path, destination: Destination) -> PublishError:
    with pytest.raises(PublishError) as caught:
        publish(site, destination)
    return caught.value


def test_an_empty_index_gets_every_wheel_in_order_and_then_nothing(site: Path, index: FakeIndex) -> None:
    told: list[str] = []
    steps: list[tuple[int, int]] = []
    first = publish(site, to(index), uploaded=told.append, progress=lambda *step: steps.append(step))
    assert list(first.uploaded) == told == wheels_of(site)
    assert steps == [(done, len(told)) for done in range(len(told) + 1)]
    assert index.files == contents(site)
    second = publish(site, to(index))
    assert (second.uploaded, list(second.same), second.missing) == ((), wheels_of(site), ())
    assert index.uploads() == len(told)


@pytest.mark.parametrize("algorithm", ["sha256", "md5", None])
@pytest.mark.parametrize("as_json", [False, True])
def test_what_is_there_is_compared_by_its_sha256_whatever_the_page_says(
    site: Path, algorithm: str | None, as_json: bool
) -> None:
    one, *others = wheels_of(site)
    with FakeIndex(algorithm=algorithm, as_json=as_json) as index:
        index.files[one] = (site / "files" / one).read_bytes()
        assert list(publish(site, to(index), dry_run=True).same) == [one]
        index.files[one] += b"changed"
        error = refused(site, to(index))
        assert index.uploads() == 0
    assert isinstance(error, UploadError)
    assert [conflict.filename for conflict in error.published.conflicts] == [one]
    assert hashlib.sha256((site / "files" / one).read_bytes()).hexdigest() in str(error)
    assert list(error.published.missing) == others


@pytest.mark.parametrize("stranger", ["torch_cpu-1.13.1-py3-none-any.whl", "torch-cpu-1.13.1.tar.gz"])
def test_another_file_of_the_same_version_stops_before_anything_is_uploaded(
    site: Path, index: FakeIndex, stranger: str
) -> None:
    index.files[stranger] = b"strange"
    index.files["torch_cpu-1.13.0-py3-none-any.whl"] = b"another version"
    index.pages["/simple/torch-cpu/"] = index.project_page("torch-cpu", sorted(index.files))
    error = refused(site, to(index))
    assert isinstance(error, UploadError)
    assert [conflict.filename for conflict in error.published.conflicts] == [stranger]
    assert stranger in str(error)
    assert "nothing was uploaded" in str(error)
    assert index.uploads() == 0


def test_a_yanked_wrapper_is_not_uploaded_and_one_that_is_there_is_told(tmp_path: Path, index: FakeIndex) -> None:
    files = [replace(file, yanked="broken") if file.local == "cu116" else file for file in torch_files()]
    write_family(tmp_path / "packages" / "torch", TORCH, files)
    build_site(tmp_path / "packages", tmp_path / "site")
    yanked = [name for name in wheels_of(tmp_path / "site") if name.startswith("torch_cu116")]
    assert yanked
    there, *gone = yanked
    index.files[there] = (tmp_path / "site" / "files" / there).read_bytes()
    found = publish(tmp_path / "site", to(index))
    assert list(found.yanked) == gone
    assert not set(found.uploaded) & set(yanked)
    assert any(there in warning and "broken" in warning for warning in found.warnings)


def test_a_wheel_that_is_not_what_was_built_stops_it(site: Path, tmp_path: Path, index: FakeIndex) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(site, copy)
    changed = copy / "files" / wheels_of(site)[0]
    changed.write_bytes(b"other")
    with pytest.raises(OutputError, match="metawheel check") as caught:
        publish(copy, to(index))
    assert str(changed) in str(caught.value)
    with pytest.raises(OutputError, match="metawheel build"):
        publish(tmp_path / "none", to(index))
    assert not index.requests


PAGES = {
    "a login page": (Page(body=b"<html><title>Sign in</title><a href='/help'>help</a></html>"), "log in"),
    "cut off": (Page(body=b"<html><title>torch-cpu</title><a href='x'>"), "whole page"),
    "not HTML": (Page(body=b"nonsense", content_type="text/plain"), "whole page"),
    "broken JSON": (Page(body=b'{"files": [', content_type="application/vnd.pypi.simple.v1+json"), "PEP 691"),
    "odd JSON": (Page(body=b"[1, 2]", content_type="application/json"), "PEP 691"),
    "from the future": (
        Page(body=b"<html><meta name='pypi:repository-version' content='9.0'><title>torch-cpu</title></html>"),
        "9.0",
    ),
    "a script's link": (Page(body=b"<html><a href='javascript:x/torch_cpu-1-py3-none-any.whl'>x</a></html>"), "http"),
    "a name that is no file's": (
        Page(body=b"<html><a href='x-1-py3-none-%1b.whl'>x</a></html>"),
        r"'x-1-py3-none-\\x1b",
    ),
    "a 500": (Page(status=500, body=b"it broke\x1b[31m"), r"500 Internal Server Error: it broke\\x1b\[31m"),
    "a 401": (Page(status=401), "TWINE_USERNAME"),
    "a 403": (Page(status=403), "TWINE_USERNAME"),
    "elsewhere": (Page(status=302, location="http://127.0.0.1:9/simple/"), "--server"),
}


@pytest.mark.parametrize("what", PAGES)
def test_a_page_that_cannot_be_read_stops_it_with_its_address(site: Path, index: FakeIndex, what: str) -> None:
    index.pages["/simple/torch-cpu/"], said = PAGES[what]
    with pytest.raises(PublishError, match=said) as caught:
        publish(site, to(index))
    assert str(caught.value).startswith(f"{index.simple}torch-cpu/: ")
    assert index.uploads() == 0


def test_an_index_that_hands_on_what_it_has_not_lacks_it(site: Path, index: FakeIndex) -> None:
    index.pages["/simple/torch-cpu/"] = Page(status=303, location="http://127.0.0.1:9/simple/torch-cpu/")
    assert list(publish(site, to(index, "pypiserver")).uploaded) == wheels_of(site)


def test_an_index_that_is_none_gets_nothing(site: Path, index: FakeIndex) -> None:
    index.pages["/simple/"] = Page(status=404)
    assert "--index-url" in str(refused(site, to(index)))
    assert "does not tell which server" in str(refused(site, Destination(repository_url=index.url)))
    assert "no server is called" in str(refused(site, to(index, "warehouse")))
    assert index.uploads() == 0


FAILURES = {
    "full": (Fault(status=507, reason="Insufficient Storage"), "507 Insufficient Storage", 1),
    "too large": (Fault(status=413, body=b"over the limit"), "413 Request Entity Too Large: over the limit", 1),
    "refused": (Fault(status=400, reason="Bad file", body=b"<html><body>no", content_type="text/html"), "no", 1),
    "moved": (Fault(status=301, location="https://me:hidden@elsewhere.invalid/"), r"https://\*\*\*@elsewhere", 1),
    "broken": (Fault(status=500), "500 Internal Server Error", 3),
    "overloaded": (Fault(status=503), "503 Service Unavailable", 3),
    "gone": (Fault(), "no complete answer", 3),
}


@pytest.mark.parametrize("what", FAILURES)
def test_a_broken_upload_says_what_is_there_and_the_next_run_completes_it(
    site: Path, index: FakeIndex, what: str
) -> None:
    fault, said, attempts = FAILURES[what]
    names = wheels_of(site)
    index.faults[2] = [fault] * attempts
    told: list[str] = []
    with pytest.raises(PublishError, match=said) as caught:
        publish(site, to(index), uploaded=told.append)
    assert str(caught.value).startswith(f"{names[2]}: ")
    assert f"2 of {len(names)} wheels were uploaded" in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert isinstance(caught.value, UploadError)
    assert list(caught.value.published.uploaded) == told == names[:2]
    assert list(caught.value.published.missing) == names[2:]
    assert index.uploads() == 2 + attempts
    second = publish(site, to(index))
    assert (list(second.same), list(second.uploaded)) == (names[:2], names[2:])
    assert index.files == contents(site)


@pytest.mark.parametrize("fault", [Fault(status=502), Fault(status=500), Fault()])
def test_a_passing_failure_is_got_over(site: Path, index: FakeIndex, fault: Fault) -> None:
    index.faults[1] = [fault]
    assert list(publish(site, to(index)).uploaded) == wheels_of(site)
    assert index.uploads() == len(wheels_of(site)) + 1


@pytest.mark.parametrize("fault", [Fault(status=504, stored=True), Fault(status=400, stored=True), Fault(stored=True)])
def test_what_was_stored_in_spite_of_a_failure_is_not_sent_again(site: Path, index: FakeIndex, fault: Fault) -> None:
    index.faults[1] = [fault]
    assert list(publish(site, to(index)).uploaded) == wheels_of(site)
    assert index.uploads() == len(wheels_of(site))


def test_what_was_stored_in_part_is_told_and_never_written_over(site: Path, index: FakeIndex) -> None:
    name = wheels_of(site)[1]
    index.faults[1] = [Fault(status=502, in_part=True)]
    message = str(refused(site, to(index)))
    assert message.startswith(f"{name}: ")
    assert "other bytes under that name" in message
    assert f"{name}: the index has other bytes" in str(refused(site, to(index)))
    assert index.uploads() == 2
    del index.files[name]
    publish(site, to(index))
    assert index.files == contents(site)


def test_a_server_that_is_too_slow_is_given_up(site: Path, index: FakeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METAWHEEL_TIMEOUT", "0.2")
    index.faults[1] = [Fault(hangs=True)] * 3
    error = refused(site, to(index))
    assert str(error).startswith(f"{wheels_of(site)[1]}: {index.url} no answer within 0.2 s")
    index.released.set()
    monkeypatch.delenv("METAWHEEL_TIMEOUT")
    assert set(publish(site, to(index)).uploaded) == set(wheels_of(site)[1:])


@pytest.mark.parametrize("value", ["0", "-1", "soon", "nan", "inf"])
def test_a_time_limit_that_is_none_is_refused(site: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("METAWHEEL_TIMEOUT", value)
    assert "METAWHEEL_TIMEOUT" in str(refused(site, Destination(repository_url="http://127.0.0.1:9/")))


def test_a_server_that_does_not_run_is_named(site: Path) -> None:
    destination = Destination(repository_url="http://127.0.0.1:9/up/", index_url="http://127.0.0.1:9/simple/")
    error = refused(site, destination)
    assert str(error).startswith("http://127.0.0.1:9/up/: no complete answer: ")
    assert "refused" in str(error)


def no_password(text: str) -> bool:
    return not any(secret in text for secret in (PASSWORD, "s3cr", base64.b64encode(PASSWORD.encode()).decode()))


def test_a_wrong_password_is_a_sentence_without_it(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeIndex(user="publisher:another") as index:
        error = refused(site, to(index))
        assert "403 Forbidden: no such user: publisher:***, that is Basic ***" in str(error)
        assert "TWINE_PASSWORD" in str(error)
        assert no_password(str(error))
        address = index.url.replace("://", "://publisher:s3cret-too@")
        monkeypatch.delenv("TWINE_USERNAME")
        monkeypatch.delenv("TWINE_PASSWORD")
        error = refused(site, Destination(repository_url=address, index_url=f"{address}simple/"))
        assert "no such user: publisher:***" in str(error)
        index.pages["/simple/torch-cpu/"] = Page(status=500)
        error = refused(site, Destination(repository_url=address, index_url=f"{address}simple/"))
        assert "s3cret-too" not in str(error) + repr(error.__cause__)
        assert {request.user for request in index.requests} == {f"{USER}:{PASSWORD}", "publisher:s3cret-too"}


def test_a_password_may_have_any_character(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINE_PASSWORD", "pässword-€")
    with FakeIndex(user=f"{USER}:pässword-€".encode().decode("latin-1")) as index:
        assert list(publish(site, to(index)).uploaded) == wheels_of(site)


def test_credentials_come_from_the_section_that_is_named(
    site: Path, index: FakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TWINE_USERNAME")
    monkeypatch.delenv("TWINE_PASSWORD")
    text = f"[distutils]\nindex-servers = team\n[team]\nrepository = {index.url}\nusername = a\npassword = b\n"
    other = tmp_path / "other"
    other.write_text(text)
    publish(site, Destination(repository="team", config_file=str(other), index_url=index.simple), dry_run=True)
    (tmp_path / ".pypirc").write_text(text)
    monkeypatch.setenv("TWINE_REPOSITORY", "team")
    publish(site, Destination(index_url=index.simple))
    assert {request.user for request in index.requests} == {"a:b"}
    assert "Missing 'nobody' section" in str(refused(site, Destination(repository="nobody", index_url=index.simple)))


def test_without_credentials_it_says_where_to_put_them(
    site: Path, index: FakeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TWINE_USERNAME")
    assert "set TWINE_USERNAME and TWINE_PASSWORD" in str(refused(site, to(index)))
    monkeypatch.setenv("TWINE_USERNAME", "")
    monkeypatch.setenv("TWINE_PASSWORD", "")
    publish(site, to(index))
    assert {request.user for request in index.requests} == {None}


def test_credentials_go_to_no_host_that_a_page_names(site: Path) -> None:
    one = wheels_of(site)[0]
    with FakeIndex(algorithm=None) as index, FakeIndex() as other:
        index.files[one] = other.files[one] = (site / "files" / one).read_bytes()
        index.files_at = other.url
        assert list(publish(site, to(index), dry_run=True).same) == [one]
        assert [(request.path, request.user) for request in other.requests] == [(f"/files/{one}", None)]
        assert {request.user for request in index.requests} == {f"{USER}:{PASSWORD}"}


def test_what_a_server_is_known_to_refuse_is_not_even_offered(site: Path, direct_site: Path, index: FakeIndex) -> None:
    message = str(refused(direct_site, to(index, "pypi")))
    assert all(name in message for name in wheels_of(direct_site))
    assert "direct references" in message
    assert "pinned flavour" in message
    message = str(refused(site, to(index, "pypi")))
    assert "platform tag linux_x86_64" in message
    assert not index.requests


@pytest.mark.parametrize(
    ("url", "server", "simple"),
    [
        (f"{WAREHOUSE}legacy/", "pypi", None),
        (f"{TEST_WAREHOUSE}legacy/", "testpypi", f"{TEST_WAREHOUSE}simple/"),
        ("https://git.invalid/api/v4/projects/42/packages/pypi", "gitlab", "simple/"),
        ("https://git.invalid/api/v4/projects/a%2Fb/packages/pypi/", "gitlab", "simple/"),
        ("https://git.invalid/api/packages/team/pypi", "gitea", "simple/"),
        ("https://art.invalid/artifactory/api/pypi/team-pypi/", "artifactory", "simple/"),
        ("https://nexus.invalid/repository/team-pypi/", "nexus", "simple/"),
        ("https://az.invalid/org/project/_packaging/team/pypi/upload/", "azure", "../simple/"),
        ("https://devpi.invalid/team/dev", None, None),
    ],
)
def test_a_server_is_known_by_its_upload_url(url: str, server: str | None, simple: str | None) -> None:
    found = by_url(url)
    assert (found.name if found else None) == server
    if found is not None and simple is not None:
        assert found.index_url(url) == urljoin(f"{url.rstrip('/')}/", simple)


def test_every_server_is_described_in_known_words() -> None:
    for server in servers().values():
        assert server.replaces in {"never", "always", "as set up"}
        assert server.name == "generic" or server.index is not None
    assert servers()["pypi"].index_url("anything") == servers()["pypi"].index_url("else")


@pytest.mark.parametrize(
    ("tags", "lines", "reasons"),
    [
        ("py3-none-any", ["Requires-Dist: torch==2.0+cpu"], []),
        ("cp311-none-manylinux_2_28_x86_64.win_amd64", [], []),
        ("py3-none-linux_armv7l", [], []),
        ("py3-none-linux_aarch64.win_amd64", [], ["platform tag linux_aarch64"]),
        ("py3-none-any", ["Requires-Dist: torch @ https://x.invalid/t.whl ; extra == 'a'"], ["direct references"]),
    ],
)
def test_pypi_refuses_what_it_is_known_to_refuse(tags: str, lines: Sequence[str], reasons: Sequence[str]) -> None:
    text = "\n".join(["Metadata-Version: 2.4", "Name: x", "Version: 1", *lines])
    found = refusals(named("pypi"), f"x-1-{tags}.whl", parse_email(text)[0])
    assert len(found) == len(reasons)
    assert all(reason in said for reason, said in zip(reasons, found, strict=True))
    newer = parse_email(text.replace("2.4", "2.5"))[0]
    assert any("2.5" in said for said in refusals(named("pypi"), f"x-1-{tags}.whl", newer))
    assert refusals(named("generic"), f"x-1-{tags}.whl", newer) == ()


NAMES = [f"x-{version}-{tag}-none-any.whl" for version in ("1.0", "2.0") for tag in ("cp310", "cp311")]
OTHERS = ["x-1.0-cp312-none-any.whl", "x-1.0.0.tar.gz", "x-3.0.tar.gz", "x.egg", "y.zip"]


@untimed
@given(
    ours=st.dictionaries(st.sampled_from(NAMES), st.sampled_from("ab"), min_size=1),
    theirs=st.dictionaries(st.sampled_from([*NAMES, *OTHERS]), st.sampled_from("abc")),
    yanked=st.sets(st.sampled_from(NAMES)),
)
def test_nothing_is_uploaded_over_what_is_there(ours: dict[str, str], theirs: dict[str, str], yanked: set[str]) -> None:
    wheels = {name: Artifact(filename=name, sha256=sha, size=1, metadata_sha256="") for name, sha in ours.items()}
    page = tuple(RemoteFile(filename=name, url="", sha256=sha) for name, sha in theirs.items())
    found = compare(wheels, {"x": page}, dict.fromkeys(yanked, "why"))
    conflicts = {conflict.filename for conflict in found.conflicts}
    assert set(found.missing) | set(found.yanked) == set(ours) - set(theirs)
    assert set(found.yanked) == (set(ours) - set(theirs)) & yanked
    assert set(found.same) == {name for name in ours if theirs.get(name) == ours[name]}
    assert {name for name in ours if name in theirs and theirs[name] != ours[name]} == conflicts & set(ours)
    versions = {name.split("-")[1] for name in ours if name in theirs or name not in yanked}
    strange = {name for name in theirs if name not in ours and name.startswith("x-")}
    assert conflicts - set(ours) == {name for name in strange if name[2:5] in versions}


@untimed
@given(st.binary(), st.sampled_from(["text/html", "application/json", "text/plain", ""]))
def test_whatever_comes_for_a_page_is_files_or_a_reason(content: bytes, kind: str) -> None:
    if "html" in kind:
        content = b"<html><title>x</title><a href='x.whl'>" + content
    files: Sequence[RemoteFile] = ()
    with suppress(ValueError):
        files = listed(content, kind, "http://a.invalid/x/", "x")
    assert all(file.url.startswith(("http://", "https://")) for file in files)


def test_a_name_that_a_page_lists_twice_is_the_same_only_if_both_are() -> None:
    wheels = {NAMES[0]: Artifact(filename=NAMES[0], sha256="a", size=1, metadata_sha256="")}
    twice = tuple(RemoteFile(filename=NAMES[0], url="", sha256=sha256) for sha256 in "ab")
    assert [conflict.filename for conflict in compare(wheels, {"x": twice}, {}).conflicts] == NAMES[:1]
    assert compare(wheels, {"x": twice[:1] * 2}, {}).same == (NAMES[0],)


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(site: Path, tmp_path: Path) -> Command:
    """`metawheel publish` of the pinned site."""

    def call(*arguments: str) -> tuple[int, str, str]:
        done = run("publish", site, "--no-record", *arguments, cache=tmp_path / "cache", env=COMMAND)
        assert no_password(done.out + done.err)
        return done.code, done.out, done.err

    return call


def test_the_command_tells_people_and_programs(site: Path, index: FakeIndex, command: Command) -> None:
    options = ("--repository-url", index.url, "--index-url", index.simple)
    warned = f"metawheel: warning: {PINNED}\n"
    names = wheels_of(site)
    code, out, _ = command(*options, "--dry-run")
    assert (code, out.splitlines()[:-1]) == (0, [f"would upload {name}" for name in names])
    assert index.uploads() == 0
    index.faults[1] = [Fault(status=507)]
    code, out, err = command(*options, "--json")
    told = json.loads(out)
    assert code == 12
    assert (told["uploaded"], told["missing"]) == (names[:1], names[1:])
    assert err == f"{warned}metawheel: error: {told['error']}\n"
    code, out, err = command(*options)
    assert (code, err) == (0, warned)
    assert out.splitlines() == [
        *(f"uploaded {name}" for name in names[1:]),
        f"{index.url}: {len(names) - 1} wheels uploaded, 1 there already, the same",
    ]
    index.files[names[0]] = b"changed"
    code, out, _ = command(*options, "--json")
    assert code == 12
    assert [conflict["file"] for conflict in json.loads(out)["conflicts"]] == [names[0]]
    assert json.loads(out)["uploaded"] == []


def laid_down(folder: Path, index: FakeIndex) -> tuple[Family, list[str], list[str]]:
    """A family, the wheels of its site in order, and the arguments that publish that."""
    family = write_family(folder / "packages" / "torch", TORCH, torch_files())
    build_site(folder / "packages", folder / "site")
    options = ["--packages", str(folder / "packages"), "--repository-url", index.url, "--index-url", index.simple]
    return family, wheels_of(folder / "site"), ["publish", str(folder / "site"), *options]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_what_the_index_has_is_recorded_after_a_break_too(index: FakeIndex, tmp_path: Path, options: list[str]) -> None:
    family, names, arguments = laid_down(tmp_path, index)
    arguments += options
    assert CliRunner().invoke(app, [*arguments, "--dry-run"]).exit_code == 0
    assert released.load(family) == ()
    index.faults[1] = [Fault(status=413)]
    assert isinstance(CliRunner().invoke(app, arguments).exception, PublishError)
    (first,) = released.load(family)
    assert names[0] in first.wheels
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert sorted(name for item in released.load(family) for name in item.wheels) == sorted(names)


def test_a_run_killed_in_an_upload_leaves_recorded_what_was_uploaded(index: FakeIndex, tmp_path: Path) -> None:
    family, names, arguments = laid_down(tmp_path, index)
    index.faults[2] = [Fault(hangs=True)]
    process = start(arguments, {**os.environ, **COMMAND})
    assert index.reached.wait(60)
    process.kill()
    process.communicate(timeout=60)
    assert set(index.files) == set(names[:2])
    assert set(index.files) <= {name for item in released.load(family) for name in item.wheels}


# requests leaves the answer to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("location", ["http://[::1", "/\xff"])
def test_a_redirect_to_what_is_no_address_is_told_in_a_sentence(index: FakeIndex, site: Path, location: str) -> None:
    index.pages["/simple/torch-cpu/"] = Page(status=302, location=location)
    assert f"{index.simple}torch-cpu/: gave an answer that cannot be read" in str(refused(site, to(index)))
    del index.pages["/simple/torch-cpu/"]
    index.faults[0] = [Fault(status=302, location=location)] * 3
    assert f"{index.url} gave an answer that cannot be read" in str(refused(site, to(index)))


def test_a_byte_now_and_then_does_not_put_the_deadline_off(
    site: Path, server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metawheel.upstream.http.DEADLINE", 0.3)
    server.serve("/simple/torch-cpu/", Answer(drips=True, declared=200_000))
    destination = Destination(repository_url=server.url, index_url=f"{server.url}simple/", server="generic")
    with ThreadPoolExecutor() as pool:
        found = pool.submit(refused, site, destination)
        try:
            assert "not there as a whole after 0.3 s" in str(found.result(timeout=30))
        finally:
            server.released.set()


def test_the_case_of_a_pages_media_type_does_not_matter() -> None:
    (file,) = listed(b"<html><a href='x-1.0.tar.gz'>x</a></html>", "Text/HTML", "http://a.invalid/x/", "x")
    assert file.filename == "x-1.0.tar.gz"


def test_without_families_the_way_to_publish_is_named(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["publish", str(site), "--to-folder", str(tmp_path / "web")])
    assert isinstance(done.exception, UnknownName)
    assert "--packages; what is published is recorded there, unless you say --no-record" in str(done.exception)
    assert not (tmp_path / "web").exists()


def test_a_changed_ledger_is_published_as_a_reissue_and_nothing_else_is_uploaded(
    index: FakeIndex, tmp_path: Path
) -> None:
    _, _, arguments = laid_down(tmp_path, index)
    arguments.append("--json")
    assert CliRunner().invoke(app, arguments).exit_code == 0
    before = dict(index.files)
    cell = wheel("torch-1.13.1+cu117-cp312-cp312-linux_x86_64.whl", "cu117")
    write_family(tmp_path / "packages" / "torch", TORCH, [*torch_files(), cell])
    build_site(tmp_path / "packages", tmp_path / "site")
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert told["uploaded"]
    assert {name.split("-")[1] for name in told["uploaded"]} == {"1.13.1.post1"}
    assert {name.split("-")[0] for name in told["uploaded"]} == {"torch_cu117", "torch_cuda"}
    assert before.items() <= index.files.items()
    assert set(told["same"]) == set(before)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--repository-url", "http://127.0.0.1:9/", "--to-folder", "x"),
        ("--to-folder", "x", "--to-store", "s3://y"),
        ("--to-folder", "x", "--dry-run"),
        ("--repository-url", "http://127.0.0.1:9/", "--password", "x"),
    ],
)
def test_a_command_that_does_not_say_one_place_is_a_usage_error(command: Command, arguments: Sequence[str]) -> None:
    assert command(*arguments)[0] == 2


def test_ctrl_c_says_what_is_there_and_the_next_run_completes_it(
    site: Path, index: FakeIndex, tmp_path: Path, command: Command
) -> None:
    options = ("--repository-url", index.url, "--index-url", index.simple)
    index.faults[2] = [Fault(hangs=True)]
    process = start(["publish", str(site), "--no-record", *options], {**os.environ, **COMMAND})
    assert index.reached.wait(60)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"stopped at {wheels_of(site)[2]}; 2 of " in err
    assert out.splitlines() == [f"uploaded {name}" for name in wheels_of(site)[:2]]
    index.released.set()
    assert command(*options)[0] == 0
    assert index.files == contents(site)
