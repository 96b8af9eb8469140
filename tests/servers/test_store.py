"""Publishing to an S3-compatible store: moto's server on loopback, and what pip and uv make of it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin

import boto3
import pytest
from pypi_simple import ProjectPage, RepositoryPage

from metawheel.errors import PublishError
from metawheel.publish.deliver import Delivered, to_store
from metawheel.site import MANIFEST
from tests.clients import envs
from tests.clients.envs import Client
from tests.clients.standin import build_stand_in_site
from tests.clients.stock import stock
from tests.fakes.ledgers import TORCH, build_site, torch_files, write_family
from tests.fakes.pages import ONLY_LOOPBACK
from tests.fakes.pypi import FakePyPI
from tests.fakes.upstream import UpstreamServer

pytestmark = pytest.mark.clients

MOTO = Client("moto", "moto_server", ("moto[server]>=5.1,<6",))
START = 60  # seconds until a server that does not answer is given up
SECRET = "not-a-real-secret"  # noqa: S105
BASE = "http://store.invalid/"
NEXT = count(1)


@dataclass(frozen=True)
class Server:
    """A running moto server: its address, and its log of requests."""

    url: str
    log: Path

    def client(self, service: str = "s3") -> Any:
        return boto3.client(service, endpoint_url=self.url, region_name="us-east-1")


@dataclass(frozen=True)
class Bucket:
    """A bucket of its own, and publishing to a prefix of it."""

    server: Server
    name: str

    @property
    def url(self) -> str:
        return f"s3://{self.name}/whl"

    @property
    def site(self) -> str:
        """Where plain HTTP finds the site."""
        return f"{self.server.url}/{self.name}/whl/"

    def publish(self, site: Path, **how: Any) -> Delivered:
        return to_store(site, self.url, lambda done, total: None, endpoint_url=self.server.url, **how)

    def put(self, path: str, content: bytes, **more: Any) -> None:
        self.server.client().put_object(Bucket=self.name, Key=f"whl/{path}", Body=content, **more)

    def objects(self) -> dict[str, bytes]:
        client = self.server.client()
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
        return {key.removeprefix("whl/"): client.get_object(Bucket=self.name, Key=key)["Body"].read() for key in keys}

    def changes(self) -> list[tuple[str, str]]:
        """What was written and removed so far, in order, as the server's log has it: (method, path)."""
        found = re.findall(rf"(PUT|DELETE) /{self.name}/whl/(\S*) HTTP", self.server.log.read_text(encoding="utf-8"))
        return [(method, unquote(path)) for method, path in found]


@contextmanager
def moto(folder: Path, **settings: str) -> Iterator[Server]:
    """Run moto's server on a free port until the block ends."""
    bin_folder = envs.ensure(MOTO)
    command = [str(bin_folder / MOTO.program), "-H", "127.0.0.1", "-p", "0"]
    log = folder / "requests.log"
    with log.open("wb") as file:
        env = envs.clean_env(folder, bin_folder, settings)
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=file, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + START
        while not (found := re.search(r"Running on (http://127\.0\.0\.1:\d+)", log.read_text(encoding="utf-8"))):
            if process.poll() is not None or time.monotonic() > until:
                pytest.fail(f"moto's server did not start:\n{log.read_text(encoding='utf-8')[-3000:]}")
            time.sleep(0.05)
        yield Server(found[1], log)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with moto(tmp_path_factory.mktemp("moto")) as running:
        yield running


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """boto3 sees these settings, none of the machine's, and no address but loopback's."""
    for name, value in ONLY_LOOPBACK.items():
        monkeypatch.delenv(name.upper(), raising=False)
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


@pytest.fixture
def bucket(server: Server) -> Bucket:
    """An empty bucket, which anybody may read."""
    made = Bucket(server, f"wheels-{next(NEXT)}")
    client = server.client()
    client.create_bucket(Bucket=made.name)
    allowed = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{made.name}/*"}
    client.put_bucket_policy(Bucket=made.name, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allowed]}))
    return made


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sites: `new` has one more release than `old`, and an old release yanked."""
    folder = tmp_path_factory.mktemp("sites")
    old = [file for file in torch_files("1.12.1") if file.project == "torch"]
    yanked = [replace(file, yanked="broken") for file in old]
    more = [file for file in torch_files() if file.project == "torch"]
    for name, files in (("old", old), ("new", [*yanked, *more])):
        write_family(folder / f"packages-{name}" / "torch", TORCH, files)
        build_site(folder / f"packages-{name}", folder / name)
    return folder


@pytest.fixture
def old(sites: Path) -> Path:
    return sites / "old"


@pytest.fixture
def new(sites: Path) -> Path:
    return sites / "new"


def content(site: Path) -> dict[str, bytes]:
    """What a store must hold for a site: its files, and each page under its folder's key, too."""
    found = {path.relative_to(site).as_posix(): path.read_bytes() for path in site.rglob("*") if path.is_file()}
    pages = {path: body for path, body in found.items() if path.endswith("/index.html")}
    return found | {path.removesuffix("index.html"): body for path, body in pages.items()}


@cache
def links(path: str, body: bytes) -> frozenset[str]:
    """What a page refers to on its own site: wheels and their METADATA, or the pages of projects in its own form."""
    found = re.fullmatch(r"(?:\w+/)?simple/(?:([^/]+)/)?(index\.html|index\.json)?", path)
    if found is None:
        return frozenset()
    project, name, url = found[1], found[2] or "", BASE + path
    if project is None and name == "index.json":
        urls = {urljoin(url, f"{item['name']}/index.json") for item in json.loads(body)["projects"]}
    elif project is None:
        urls = {urljoin(url, link.url) + name for link in RepositoryPage.from_html(body.decode()).links}
    elif name == "index.json":
        urls = {item.url for item in ProjectPage.from_json_data(json.loads(body), url).packages}
    else:
        urls = {item.url for item in ProjectPage.from_html(project, body.decode(), url).packages}
    ours = {unquote(url.removeprefix(BASE)) for url in urls if url.startswith(BASE)}
    return frozenset(ours | {f"{path}.metadata" for path in ours if path.endswith(".whl")})


def broken_links(objects: Mapping[str, bytes]) -> list[str]:
    """What the pages refer to that is not there."""
    wanted = {link for path, body in objects.items() for link in links(path, body)}
    return sorted(wanted - objects.keys())


def test_the_store_holds_the_site_with_types_and_cache_headers(bucket: Bucket, new: Path) -> None:
    done = bucket.publish(new)
    assert bucket.objects() == content(new)
    assert set(done.written) == set(content(new))
    assert (done.removed, done.unchanged) == ((), 0)
    client = bucket.server.client()
    for path in content(new):
        head = client.head_object(Bucket=bucket.name, Key=f"whl/{path}")
        expected = "public, max-age=31536000, immutable" if path.startswith("files/") else "max-age=60"
        assert expected in head["CacheControl"], path
        if path.endswith((".html", "/")):
            assert head["ContentType"] == "text/html; charset=utf-8"
        if path.endswith("index.json"):
            assert head["ContentType"] == "application/vnd.pypi.simple.v1+json"


def test_publishing_again_writes_nothing(bucket: Bucket, new: Path) -> None:
    bucket.publish(new)
    before = bucket.changes()
    assert bucket.publish(new) == Delivered(unchanged=len(content(new)) - 1)
    assert bucket.changes() == before


def test_an_update_writes_what_changed_and_nothing_else(bucket: Bucket, old: Path, new: Path) -> None:
    bucket.publish(old)
    before = len(bucket.changes())
    done = bucket.publish(new)
    assert bucket.objects() == content(new)
    differ = {path for path, body in content(new).items() if content(old).get(path) != body}
    assert set(done.written) == differ
    assert {path for _, path in bucket.changes()[before:]} == differ
    assert done.removed == ()


@pytest.mark.parametrize("way", [("new",), ("old", "new"), ("new", "old")])
def test_at_every_moment_pages_refer_to_nothing_that_is_not_there(
    bucket: Bucket, sites: Path, way: tuple[str, ...]
) -> None:
    objects: dict[str, bytes] = {}
    for name in way:
        before, goal = len(bucket.changes()), content(sites / name)
        bucket.publish(sites / name, allow_removal=True)
        made = bucket.changes()[before:]
        assert made[-1] == ("PUT", MANIFEST)
        for method, path in made:
            if method == "PUT":
                objects[path] = goal[path]
            else:
                del objects[path]
            assert broken_links(objects) == [], (method, path)
        assert objects == goal


def test_upstreams_pages_come_before_those_of_the_wrappers_that_pin_them(bucket: Bucket, new: Path) -> None:
    written = bucket.publish(new).written
    first = {path.rpartition("/")[0]: number for number, path in reversed(list(enumerate(written)))}
    assert first["simple/torch"] < first["simple/torch-cpu"] < first["simple"]
    assert first["cu116/simple/torch"] < first["cu116/simple/torch-cu116"]


KILLED = """
import os, signal, sys
from pathlib import Path
from metawheel.publish.deliver import to_store
site, url, endpoint, step = sys.argv[1:]

def progress(done, total):
    if done == int(step):
        os.kill(os.getpid(), signal.SIGKILL)

to_store(Path(site), url, progress, endpoint_url=endpoint)
"""


@pytest.mark.parametrize("part", [0.0, 0.3, 0.6, 0.8, 0.9, 1.0])
def test_a_killed_run_leaves_no_broken_link_and_the_next_completes_it(bucket: Bucket, new: Path, part: float) -> None:
    whole = content(new)
    step = max(round((len(whole) - 1) * part), 1)
    command = [sys.executable, "-c", KILLED, str(new), bucket.url, bucket.server.url, str(step)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    there = bucket.objects()
    assert step <= len(there) < len(whole)
    assert broken_links(there) == []
    again = bucket.publish(new)
    assert bucket.objects() == whole
    assert set(again.written) == whole.keys() - there.keys()


def test_other_content_under_a_published_name_stops_before_anything_is_written(bucket: Bucket, new: Path) -> None:
    name = next(path.name for path in sorted((new / "files").glob("*.whl")))
    bucket.put(f"files/{name}", b"other")  # as a run of another builder, broken off, may have left it
    before = bucket.changes()
    with pytest.raises(PublishError, match=name):
        bucket.publish(new)
    assert bucket.changes() == before


def test_the_same_content_that_another_tool_put_there_is_left_as_it_is(bucket: Bucket, new: Path) -> None:
    name = next(path.name for path in sorted((new / "files").glob("*.whl")))
    bucket.put(f"files/{name}", (new / "files" / name).read_bytes())
    assert f"files/{name}" not in bucket.publish(new).written
    assert bucket.objects() == content(new)


def test_a_published_wheel_is_removed_only_on_demand(bucket: Bucket, old: Path, new: Path) -> None:
    bucket.publish(new)
    before = bucket.changes()
    with pytest.raises(PublishError, match="not in this site"):
        bucket.publish(old)
    assert bucket.changes() == before
    assert set(bucket.publish(old, allow_removal=True).removed) == content(new).keys() - content(old).keys()
    assert bucket.objects() == content(old)


def test_a_prefix_that_holds_something_else_is_refused(bucket: Bucket, new: Path) -> None:
    bucket.put("report.csv", b"mine")
    with pytest.raises(PublishError, match=r"report\.csv"):
        bucket.publish(new)
    assert bucket.objects() == {"report.csv": b"mine"}


def test_what_else_is_put_beside_a_published_site_stays(bucket: Bucket, old: Path, new: Path) -> None:
    bucket.publish(old)
    bucket.put("report.csv", b"mine")
    bucket.publish(new)
    assert bucket.objects() == content(new) | {"report.csv": b"mine"}


def test_a_page_that_a_broken_off_run_replaced_is_put_right(bucket: Bucket, old: Path) -> None:
    bucket.publish(old)
    bucket.put("simple/torch/index.html", b"of a later state")
    assert bucket.publish(old).written == ("simple/torch/index.html",)
    assert bucket.objects() == content(old)


def test_a_manifest_that_is_not_ours_is_refused(bucket: Bucket, new: Path) -> None:
    bucket.put(MANIFEST, b"<html>")
    with pytest.raises(PublishError, match=f"{MANIFEST}: cannot be read"):
        bucket.publish(new)
    assert bucket.objects() == {MANIFEST: b"<html>"}


def test_folder_keys_can_be_left_out_and_taken_away(bucket: Bucket, new: Path) -> None:
    bucket.publish(new)
    bucket.publish(new, folder_keys=False)
    files = {path.relative_to(new).as_posix(): path.read_bytes() for path in new.rglob("*") if path.is_file()}
    assert bucket.objects() == files


def test_a_missing_bucket_is_named(server: Server, new: Path) -> None:
    with pytest.raises(PublishError, match="there is no bucket nowhere-1"):
        Bucket(server, "nowhere-1").publish(new)


def test_credentials_that_are_not_accepted_or_not_enough_are_told_and_not_shown(
    tmp_path: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with moto(tmp_path, INITIAL_NO_AUTH_ACTION_COUNT="3") as server:
        closed = Bucket(server, "closed")
        server.client().create_bucket(Bucket=closed.name)
        server.client("iam").create_user(UserName="nobody")
        key = server.client("iam").create_access_key(UserName="nobody")["AccessKey"]
        with pytest.raises(PublishError, match=r"was refused \(InvalidAccessKeyId\)") as unknown:
            closed.publish(new)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
        with pytest.raises(PublishError, match=r"was refused \(SignatureDoesNotMatch\)") as wrong:
            closed.publish(new)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
        with pytest.raises(PublishError, match=r"was refused \(AccessDenied\)") as denied:
            closed.publish(new)
    for text in (str(caught.value) for caught in (unknown, wrong, denied)):
        assert not any(secret in text for secret in (SECRET, "testing", key["AccessKeyId"], key["SecretAccessKey"]))


def test_without_credentials_the_settings_are_named(bucket: Bucket, new: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(PublishError, match="AWS_ACCESS_KEY_ID"):
        bucket.publish(new)


def test_an_endpoint_that_is_down_is_named(tmp_path: Path, new: Path) -> None:
    with moto(tmp_path) as server:
        gone = Bucket(server, "gone")
    with pytest.raises(PublishError, match=rf"{re.escape(server.url)} did not answer .* publish again"):
        gone.publish(new)


@dataclass(frozen=True)
class World:
    """A site in a store, with stand-ins for upstream's wheels and for PyPI."""

    index: str
    pypi: str


@pytest.fixture
def world(bucket: Bucket, tmp_path: Path) -> Iterator[World]:
    with UpstreamServer() as upstream, FakePyPI() as pypi:
        stock(pypi)
        bucket.publish(build_stand_in_site(tmp_path / "built", upstream, ["torch-cpu==2.10.0"]))
        yield World(f"{bucket.site}simple/", pypi.simple)


def test_pip_installs_from_a_store_that_knows_no_index_document(world: World, tmp_path: Path) -> None:
    arguments = ["install", "torch-cpu==2.10.0", "--target", "lib", "--only-binary=:all:", "--python-version", "3.11"]
    arguments += ["--platform", "manylinux_2_28_x86_64", "--index-url", world.index]
    envs.run("pip", [*arguments, "--extra-index-url", world.pypi], cwd=tmp_path)
    assert (tmp_path / "lib" / "torch_cpu-2.10.0.dist-info").is_dir()
    assert (tmp_path / "lib" / "torch-2.10.0+cpu.dist-info").is_dir()


def test_uv_installs_from_a_store_that_knows_no_index_document(world: World, tmp_path: Path) -> None:
    arguments = ["pip", "install", "torch-cpu==2.10.0", "--target", "lib", "--python-version", "3.11"]
    arguments += ["--python-platform", "x86_64-manylinux_2_28", "--only-binary", ":all:"]
    envs.run("uv", [*arguments, "--index", world.index, "--default-index", world.pypi], cwd=tmp_path)
    assert (tmp_path / "lib" / "torch_cpu-2.10.0.dist-info").is_dir()
    assert (tmp_path / "lib" / "torch-2.10.0+cpu.dist-info").is_dir()
