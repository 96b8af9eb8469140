"""Our own pages and files, as the server answers for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.wheels import WheelSpec, build_wheel
from tests.serve.running import HTML, JSON, Client, serving
from tests.serve.sites import LABELLED, TORCH, YANKED, write_site

WHEEL = "torch_cpu-2.9.1-py3-none-any.whl"
PEOPLE = {"index.html": b"<!DOCTYPE html><title>front</title>", "style.css": b"body{}", "cu128/index.html": b"<p>view"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_site(tmp_path_factory.mktemp("pages") / "site", more=PEOPLE)


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    with serving(folder) as running:
        yield running


@pytest.mark.parametrize(
    ("accept", "file", "content_type"),
    [(JSON, "index.json", JSON), (HTML, "index.html", HTML), ("text/html", "index.html", "text/html; charset=utf-8")],
)
@pytest.mark.parametrize(
    "page", ["simple/", "simple/torch-cpu/", "simple/torch/", "cu128/simple/", "cu128/simple/torch/"]
)
def test_a_page_is_served_as_it_was_built(
    client: Client, folder: Path, page: str, accept: str, file: str, content_type: str
) -> None:
    answer = client.page(f"/{page}", accept)
    assert (answer.status_code, answer.headers["content-type"]) == (200, content_type)
    assert answer.content == (folder / page / file).read_bytes()
    assert answer.headers["vary"] == "Accept"


def test_each_form_has_a_validator_that_gives_304(client: Client) -> None:
    etags = {accept: client.page("/simple/torch/", accept).headers["etag"] for accept in (JSON, HTML, "text/html")}
    assert len(set(etags.values())) == 3
    for accept, etag in etags.items():
        for known in (etag, f'"other", W/{etag}', "*"):
            answer = client.get("/simple/torch/", headers={"Accept": accept, "If-None-Match": known})
            assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
    answer = client.get("/simple/torch/", headers={"Accept": JSON, "If-None-Match": etags[HTML]})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/simple", "/simple/"),
        ("/simple/torch", "/simple/torch/"),
        ("/simple/Torch_CPU", "/simple/torch-cpu/"),
        ("/simple/Torch_CPU/", "/simple/torch-cpu/"),
        ("/simple/torch.-_cpu/", "/simple/torch-cpu/"),
        ("/simple/Nobody.Knows/", "/simple/nobody-knows/"),
        ("/cu128/simple", "/cu128/simple/"),
        ("/cu128/simple/Torch/", "/cu128/simple/torch/"),
        ("/cu128", "/cu128/"),
    ],
)
def test_other_spellings_of_a_page_are_redirected_by_a_relative_link(client: Client, path: str, target: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 301
    assert "://" not in answer.headers["location"]
    assert not answer.headers["location"].startswith("/")
    assert answer.next_request is not None
    assert answer.next_request.url.path == target


@pytest.mark.parametrize(
    "path",
    [
        *("/simple/nobody-knows/", "/cu128/simple/nobody-knows/", "/cu129/simple/torch/", "/cu129/simple/", "/files/"),
        *(
            "/files/none-1.0-py3-none-any.whl",
            "/nothing",
            "/cache/torch/ab/x.whl",
            "/-/",
        ),
    ],
)
def test_what_is_not_there_is_404_with_a_sentence(client: Client, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/plain; charset=utf-8")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.text.strip()


def test_a_form_that_we_do_not_have_is_406(client: Client) -> None:
    answer = client.page("/simple/torch/", "image/png")
    assert answer.status_code == 406
    assert JSON in answer.text


@pytest.mark.parametrize("path", ["/simple/torch/", f"/files/{WHEEL}", "/-/health", "/", "/nothing"])
def test_head_gives_the_headers_of_get(client: Client, path: str) -> None:
    got, asked = client.get(path), client.head(path)
    assert asked.content == b""
    drop = {"date"}
    assert {k: v for k, v in asked.headers.items() if k not in drop} == {
        k: v for k, v in got.headers.items() if k not in drop
    }


def test_yanks_and_requires_python_are_on_both_forms(client: Client) -> None:
    files = client.listing("/simple/torch-cpu/")
    assert (files[YANKED]["yanked"], files[WHEEL]["yanked"]) == ("withdrawn upstream", False)
    assert files[WHEEL]["requires-python"] == ">=3.10"
    html = client.page("/simple/torch-cpu/", HTML).text
    assert html.count('data-yanked="withdrawn upstream"') == 1
    assert 'data-requires-python="&gt;=3.10"' in html


@pytest.mark.parametrize("page", ["/simple/torch-cpu/", "/cu128/simple/torch-cu128/"])
def test_every_wheel_and_its_metadata_are_where_the_page_says(client: Client, page: str) -> None:
    for name, file in client.listing(page).items():
        url = client.base_url.join(page).join(file["url"])
        built = build_wheel(WheelSpec(name, ("torch==2.9.1+cpu",), ">=3.10"))
        wheel, metadata = client.get(url), client.get(f"{url}.metadata")
        assert wheel.content == built.data
        assert metadata.content == built.metadata
        assert file["core-metadata"] == {"sha256": built.metadata_sha256}
        assert wheel.headers["cache-control"] == "max-age=31536000, immutable"


@pytest.mark.parametrize("spelling", [LABELLED, LABELLED.replace("+", "%2B"), LABELLED.replace("+", "%2b")])
def test_a_plus_in_a_name_may_be_escaped(client: Client, spelling: str) -> None:
    for name in (spelling, f"{spelling}.metadata"):
        assert client.get(f"/files/{name}").status_code == 200


RANGES = [
    ("bytes=0-9", 206, slice(0, 10)),
    ("bytes=10-", 206, slice(10, None)),
    ("bytes=-7", 206, slice(-7, None)),
    ("bytes=-999999", 206, slice(None)),
    ("bytes=5-999999", 206, slice(5, None)),
    ("bytes=0-1,5-6", 200, slice(None)),
    ("bytes=9-2", 200, slice(None)),
    ("bytes=-", 200, slice(None)),
    ("lines=0-1", 200, slice(None)),
    ("bytes=x-y", 200, slice(None)),
]


@pytest.mark.parametrize(("asked", "status", "part"), RANGES)
def test_a_range_of_a_wheel_is_served(client: Client, folder: Path, asked: str, status: int, part: slice) -> None:
    whole = (folder / "files" / WHEEL).read_bytes()
    answer = client.get(f"/files/{WHEEL}", headers={"Range": asked})
    assert (answer.status_code, answer.content) == (status, whole[part])
    if status == 206:
        first = len(whole) - len(whole[part]) if part.start and part.start < 0 else part.start or 0
        assert answer.headers["content-range"] == f"bytes {first}-{first + len(answer.content) - 1}/{len(whole)}"


def test_a_range_past_the_end_is_416(client: Client, folder: Path) -> None:
    size = (folder / "files" / WHEEL).stat().st_size
    answer = client.get(f"/files/{WHEEL}", headers={"Range": f"bytes={size}-"})
    assert (answer.status_code, answer.headers["content-range"]) == (416, f"bytes */{size}")


def test_a_range_of_another_content_is_answered_with_the_whole(client: Client) -> None:
    etag = client.head(f"/files/{WHEEL}").headers["etag"]
    for known, status in ((etag, 206), ('"other"', 200)):
        headers = {"Range": "bytes=0-3", "If-Range": known}
        assert client.get(f"/files/{WHEEL}", headers=headers).status_code == status


def test_links_to_upstream_stay_links_to_upstream(client: Client) -> None:
    assert client.listing("/simple/torch/")[TORCH]["url"].startswith("https://upstream.invalid/whl/cpu/torch-2.9.1%2B")


def test_pages_for_people_come_with_a_strict_policy(client: Client) -> None:
    for path in ("/", "/index.html", "/cu128/", "/style.css"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.get("/style.css").headers["content-type"] == "text/css; charset=utf-8"


def test_only_reading_is_allowed(client: Client) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert client.request(method, "/simple/torch/").status_code == 405


def test_health_and_metrics_tell_what_is_served(client: Client) -> None:
    health = client.get("/-/health").json()
    assert (health["status"], health["projects"], health["broken"]) == ("ok", 3, 0)
    before = client.metric("metawheel_requests_total", kind="page", status="200")
    client.page("/simple/torch/")
    client.page("/simple/nobody-knows/")
    assert client.metric("metawheel_requests_total", kind="page", status="200") == before + 1
    assert client.metric("metawheel_requests_total", kind="page", status="404") > 0
    assert client.metric("metawheel_site_projects") == 3
