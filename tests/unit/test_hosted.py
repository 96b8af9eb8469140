"""Where PyPI, or what stands in for it, has the files that ledgers keep without host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from metawheel.errors import UpstreamAlarm
from metawheel.model import UpstreamFile
from metawheel.upstream.hosted import find_hosted
from metawheel.upstream.http import Fetcher
from metawheel.upstream.mirrors import Mirror
from tests.fakes.pages import Answer, PageServer

NAME = "jaxlib-0.4.30-cp312-cp312-manylinux2014_x86_64.whl"
FILE = UpstreamFile(filename=NAME, source="pypi", url=None, sha256="a" * 64)

Find = Callable[..., dict[str, str]]


@pytest.fixture
def find(tmp_path: Path, server: PageServer) -> Find:
    """Find the file on a mirror whose page holds this link."""

    def found(link: str, user: str = "") -> dict[str, str]:
        server.serve("/repo/simple/jaxlib/", Answer(body=f'<a href="{link}">x</a>'.encode()))
        mirror = f"{server.url}repo/simple".replace("//", f"//{user}")
        fetcher = Fetcher([Mirror.parse(f"pypi={mirror}")], cache=tmp_path / "cache", retries=0)
        urls, failure = find_hosted([FILE], fetcher)
        assert failure is None
        return urls

    return found


def test_what_a_mirror_links_relatively_lies_on_the_mirror(find: Find, server: PageServer) -> None:
    assert find(f"../../packages/{NAME}#sha256={'a' * 64}") == {NAME: f"{server.url}repo/packages/{NAME}"}


def test_a_mirrors_password_is_in_no_link(find: Find, server: PageServer) -> None:
    found = find(f"../../packages/{NAME}", user="me:secret@")
    assert server.requests[0].headers["authorization"].startswith("Basic ")
    assert found == {NAME: f"{server.url}repo/packages/{NAME}"}


def test_what_a_mirror_links_elsewhere_lies_there(find: Find) -> None:
    assert find(f"https://files.example/{NAME}#sha256={'a' * 64}") == {NAME: f"https://files.example/{NAME}"}


def test_a_page_without_sha256_contradicts_nothing(find: Find) -> None:
    assert find(f"https://files.example/{NAME}#md5={'b' * 32}") == {NAME: f"https://files.example/{NAME}"}


def test_another_sha256_than_the_ledgers_is_an_alarm(find: Find) -> None:
    with pytest.raises(UpstreamAlarm, match=NAME):
        find(f"https://files.example/{NAME}#sha256={'b' * 64}")
