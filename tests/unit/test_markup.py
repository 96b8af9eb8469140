"""Markup that the parser itself rejects: whoever reads a page says so with its own error."""

from __future__ import annotations

from pathlib import Path

import pytest

from metawheel.check import check_site
from metawheel.detect import indexed
from metawheel.errors import Unparsable
from metawheel.publish import remote, simple
from metawheel.serve.fallback import FallbackError, read_page
from metawheel.upstream.http import Fetcher, Page
from metawheel.upstream.mirrors import Mirror
from metawheel.upstream.pages import parse_page
from tests.fakes.ledgers import TORCH, build_site, torch_files, write_family

URL = "https://upstream.example/torch/"
REJECTED = b"<html><body><![html]]><a href='torch-2.9.1-py3-none-any.whl'>x</a></body></html>"


def test_a_page_of_upstreams_is_unparsable() -> None:
    with pytest.raises(Unparsable, match="is not an HTML project page"):
        parse_page(Page(url=URL, content=REJECTED, content_type="text/html"), "up")


def test_a_page_of_an_index_that_takes_uploads_is_no_page() -> None:
    with pytest.raises(ValueError, match="rejected"):
        simple.listed(REJECTED, "text/html", URL, "torch")


def test_an_answer_is_told_as_it_came() -> None:
    assert "<![html" in remote._readable(REJECTED, "text/html")


def test_a_page_of_the_fallback_is_a_bad_gateway() -> None:
    with pytest.raises(FallbackError, match="is no page of a simple repository") as caught:
        read_page("torch", URL, REJECTED, "text/html")
    assert caught.value.status == 502


def test_the_root_of_an_index_is_unparsable_for_detect(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "index.html").write_bytes(REJECTED)
    fetcher = Fetcher([Mirror.parse(f"{URL}={tmp_path / 'index'}")], cache=tmp_path / "cache")
    with pytest.raises(Unparsable, match="is not the root of a simple index"):
        indexed._from_pages(URL, fetcher, None)  # type: ignore[arg-type]  # it is not come to


@pytest.mark.parametrize("page", ["simple/index.html", "simple/torch-cpu/index.html"])
def test_a_page_of_a_site_is_a_finding(tmp_path: Path, page: str) -> None:
    write_family(tmp_path / "packages" / "torch", TORCH, torch_files())
    build_site(tmp_path / "packages", tmp_path / "site")
    (tmp_path / "site" / page).write_bytes(REJECTED)
    assert [finding for finding in check_site(tmp_path / "site") if finding.where == page]
