"""Reading pages: every link to a wheel becomes a file or a problem, and nothing odd becomes a file."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from packaging.utils import parse_wheel_filename

from metawheel.errors import Unparsable
from metawheel.model import UpstreamFile
from metawheel.upstream.http import Page
from metawheel.upstream.pages import Listing, parse_page
from tests.fakes.pages import SNAPSHOT, named_pages

EXCERPTS = Path(__file__).parent / "upstream_pages"
EXCERPT_PAGES = list(named_pages(EXCERPTS))
BASE = "https://upstream.example/whl/torch/"
JSON_TYPE = "application/vnd.pypi.simple.v1+json"
GOOD = "torch-2.7.1%2Bcpu-cp311-cp311-linux_x86_64.whl"


def wheel_links(content: bytes, *, is_json: bool) -> list[str]:
    """The links to wheels, without any of the libraries that the product reads pages with."""
    if is_json:
        return [file["url"] for file in json.loads(content)["files"] if file["filename"].endswith(".whl")]
    return [html.unescape(href) for href in re.findall(r'<a href="([^"#]+\.whl)[#"]', content.decode())]


def read(content: str | bytes, url: str = BASE, content_type: str = "text/html") -> Listing:
    body = content.encode() if isinstance(content, str) else content
    return parse_page(Page(url=url, content=body, content_type=content_type), "up")


def read_path(path: Path, url: str) -> Listing:
    return read(path.read_bytes(), url, JSON_TYPE if path.suffix == ".json" else "text/html")


def one_file(anchor: str) -> UpstreamFile:
    listing = read(anchor)
    assert listing.problems == ()
    (file,) = listing.files
    return file


def only_problem(anchor: str) -> tuple[str, str]:
    """Beside a good link, the link must be reported and must not become a file."""
    listing = read(f'<a href="{GOOD}">good</a><br>\n{anchor}<br>\n<a href="{GOOD}">good</a>')
    assert {file.filename for file in listing.files} == {unquote(GOOD)}
    (problem,) = listing.problems
    assert problem.url == BASE
    return problem.item, problem.reason


def assert_every_link_is_accounted_for(path: Path) -> None:
    listing = read_path(path, BASE)
    links = wheel_links(path.read_bytes(), is_json=path.suffix == ".json")
    assert len(listing.files) + len(listing.problems) == len(links) == listing.links, path
    names = {unquote(urlsplit(link).path.rpartition("/")[2]) for link in links}
    assert {file.filename for file in listing.files} | {problem.item for problem in listing.problems} == names, path


@pytest.mark.parametrize("path", EXCERPT_PAGES, ids=lambda path: path.name)
def test_every_link_to_a_wheel_in_an_excerpt_becomes_a_file_or_a_problem(path: Path) -> None:
    assert_every_link_is_accounted_for(path)


@pytest.mark.parametrize("form", ["whl", "as-of-2025-06/whl", "raw-copies", "jax-releases", "pypi"])
def test_every_link_to_a_wheel_on_a_real_page_becomes_a_file_or_a_problem(form: str) -> None:
    pages = [path for path in named_pages(SNAPSHOT / form) if b".whl" in path.read_bytes()]
    if not pages:
        pytest.skip(f"the snapshot of upstream's pages is not here: {form} of ../shared/upstream/pages")
    if form.endswith("whl"):  # the pages of all backends hold every file; of the others those of one are enough
        pages = [path for path in pages if path.parent.parent.name in {"whl", "cpu"} or path.parent.name == "whl"]
    for path in pages:
        assert_every_link_is_accounted_for(path)


@pytest.mark.parametrize("path", EXCERPT_PAGES, ids=lambda path: path.name)
def test_an_excerpt_of_a_real_page_has_no_problem_but_names_that_no_standard_allows(path: Path) -> None:
    refused = {problem.item for problem in read_path(path, BASE).problems}
    assert all(not re.fullmatch(r"[a-z_]+-\d[\w.+]*-[a-z0-9.]+-[a-z0-9]+-\w+\.whl", unquote(name)) for name in refused)


PYTORCH = "https://download.pytorch.org/whl/"
JAX = "https://storage.googleapis.com/jax-releases/"
RESOLVED = """
pytorch-2026.html torch/ https://download-r2.pytorch.org/whl/cpu/torch-2.10.0%2Bcpu-cp311-cp311-win_arm64.whl hashed
pytorch-2025-06.html torch/ {}cu128/torch-2.7.1%2Bcu128-cp311-cp311-win_amd64.whl hashed
torch-stable-2021.html torch_stable.html {}cu111/torch-1.8.0%2Bcu111-cp38-cp38-linux_x86_64.whl bare
torch-stable-2019.html torch_stable.html {}torch-0.1-cp27-cp27m-macosx_10_6_x86_64.whl bare
""".replace("{}", PYTORCH)


@pytest.mark.parametrize("case", RESOLVED.split("\n")[1:-1], ids=lambda case: case.partition(" ")[0])
def test_a_link_resolves_against_the_canonical_address(case: str) -> None:
    excerpt, page, url, kind = case.split()
    files = {file.url: file for file in read_path(EXCERPTS / excerpt, PYTORCH + page).files}
    assert (files[url].sha256 is not None) == (kind == "hashed")
    assert files[url].filename == unquote(url.rpartition("/")[2])


def test_the_literal_plus_of_the_jax_pages_is_written_as_its_escape() -> None:
    files = read_path(EXCERPTS / "jax-cuda-releases.html", JAX + "jax_cuda_releases.html").files
    wanted = JAX + "cuda11/jaxlib-0.4.4%2Bcuda11.cudnn86-cp310-cp310-manylinux2014_x86_64.whl"
    assert [file.local for file in files if file.url == wanted] == ["cuda11.cudnn86"]


def test_a_source_distribution_on_the_page_is_neither_file_nor_problem() -> None:
    listing = read_path(EXCERPTS / "jax-releases-2022.html", BASE)
    assert all(file.filename.endswith(".whl") for file in listing.files)
    assert not any("tar.gz" in problem.item for problem in listing.problems)


def test_a_name_comes_from_the_address_not_from_the_text() -> None:
    file = one_file('<a href="cu118/torch-2.1.0%2Bcu118-cp311-cp311-linux_x86_64.whl">torch-9.9-py3-none-any.whl</a>')
    assert file.filename == "torch-2.1.0+cu118-cp311-cp311-linux_x86_64.whl"
    assert (file.project, str(file.release), file.local) == ("torch", "2.1.0", "cu118")


def test_plus_and_its_escape_name_the_same_file_at_the_same_address() -> None:
    escaped = one_file(f'<a href="{GOOD}">x</a>')
    literal = one_file(f'<a href="{unquote(GOOD)}">x</a>')
    assert escaped == literal


def test_a_query_is_no_part_of_the_address() -> None:
    assert one_file(f'<a href="{GOOD}?token=1#sha256={"a" * 64}">x</a>').url == BASE + GOOD


@pytest.mark.parametrize(
    ("attributes", "yanked"), [("", None), ('data-yanked=""', ""), ('data-yanked="a &lt; b"', "a < b")]
)
def test_yanked_is_read_with_and_without_a_reason(attributes: str, yanked: str | None) -> None:
    assert one_file(f'<a href="{GOOD}" {attributes}>x</a>').yanked == yanked


@pytest.mark.parametrize(
    ("attributes", "metadata"),
    [
        ("", None),
        ('data-core-metadata="true"', "true"),
        (f'data-core-metadata="sha256={"b" * 64}"', "b" * 64),
        (f'data-core-metadata="sha256={"b" * 64}" data-dist-info-metadata="sha256={"b" * 64}"', "b" * 64),
        ('data-core-metadata="false"', None),
        ('data-core-metadata="nonsense"', None),
    ],
)
def test_the_sidecar_attribute_of_pep_714_is_read(attributes: str, metadata: str | None) -> None:
    file = one_file(f'<a href="{GOOD}" {attributes}>x</a>')
    assert file.metadata == metadata
    assert file.sha256 is None  # a hash of METADATA is never taken for the file's


def test_the_sidecar_attribute_of_pep_658_alone_is_read() -> None:
    assert one_file(f'<a href="{GOOD}" data-dist-info-metadata="sha256={"b" * 64}">x</a>').metadata == "b" * 64


def test_an_escaped_requires_python_is_read() -> None:
    file = one_file(f'<a href="{GOOD}" data-requires-python="&gt;=3.9, &lt;4">x</a>')
    assert file.requires_python == ">=3.9, <4"


def test_json_says_size_hash_yank_and_requires_python() -> None:
    files = {file.filename: file for file in read_path(EXCERPTS / "pypi-jaxlib.json", BASE).files}
    for said in json.loads((EXCERPTS / "pypi-jaxlib.json").read_bytes())["files"]:
        file = files[said["filename"]]
        assert (file.size, file.sha256) == (said["size"], said["hashes"]["sha256"])
        assert file.requires_python == said["requires-python"]
        assert file.yanked == (None if said["yanked"] is False else "" if said["yanked"] is True else said["yanked"])
    assert {file.yanked is None for file in files.values()} == {True, False}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("torch-1.0-cp27.whl", "number of parts"),
        ("torch-not_a_version-cp311-cp311-linux_x86_64.whl", "not_a_version"),
        ("x/../../torch-1.0-py3-none-any.whl.exe", "wheel's file name"),
        ("a%2Ftorch-1.0-py3-none-any.whl", "characters"),
        ("torch-1.0-py3-none-any%22x.whl", "characters"),
        ("&lt;script&gt;torch-1.0-py3-none-any.whl", "characters"),
        ("torch-1.0%0A-py3-none-any.whl", "characters"),
        ("torch-1.0%1B[2J-py3-none-any.whl", "characters"),
        ("javascript:alert(1)//torch-1.0-py3-none-any.whl", "http"),
        (f"{GOOD}#sha256=abc", "sha256"),
        (f"{GOOD}#sha256={'g' * 64}", "sha256"),
        (f'{GOOD}" data-requires-python="at least 3', "Requires-Python"),
    ],
)
def test_a_link_that_cannot_be_used_is_reported_by_name_and_reason(name: str, reason: str) -> None:
    item, why = only_problem(f'<a href="{name}">x</a>')
    assert item == html.unescape(name.partition('"')[0].partition("#")[0]).rpartition("/")[2]
    assert reason in why


def test_a_link_to_a_local_file_is_no_address_of_a_wheel() -> None:
    assert "http" in only_problem('<a href="file:///etc/torch-1.0-py3-none-any.whl">x</a>')[1]


@pytest.mark.parametrize("place", ["https:///x", f"{BASE}%2e%2e/y", f"{BASE}.%2E/y"])
def test_an_address_that_leads_elsewhere_is_reported(place: str) -> None:
    page = f"<a href='{BASE}{GOOD}'>x</a><a href='http:///torch-1.0-py3-none-any.whl'>x</a>".replace(
        "http:///", f"{place}/"
    )
    assert len(read(page, BASE.replace("https", "http")).problems) == 1


@pytest.mark.parametrize("href", ["https://[upstream.example/", "https://[::1/", "//[/"])
def test_an_address_that_cannot_be_split_is_reported_like_any_other(href: str) -> None:
    only_problem(f'<a href="{href}torch-1.0-py3-none-any.whl">x</a>')


def test_a_broken_anchor_is_reported_by_its_file_name() -> None:
    item, reason = only_problem("<a href=torch-1.7.1-cp38-cp38-linux_x86_64.whl</a>")
    assert "torch-1.7.1-cp38-cp38-linux_x86_64.whl" in item
    assert "wheel" in reason


def test_a_broken_anchor_is_a_problem_and_its_neighbours_are_read() -> None:
    anchor = "<a href=cpu/torch-1.7.1-cp38-cp38-linux_x86_64.whl</a><br>"
    listing = read(f'<a href="{GOOD}">x</a><br>\n{anchor}\n<a href="other-1.0-py3-none-any.whl">x</a><br>\n')
    assert {file.filename for file in listing.files} == {unquote(GOOD), "other-1.0-py3-none-any.whl"}
    assert len(listing.problems) == 1


LINK = f'<a href="{GOOD}">x</a><br>'
NO_LISTS = {
    "empty": "",
    "an error page": "<html><body>Bad gateway</body></html>",
    "no end": f"<html><body>{LINK}{LINK}",
    "cut in an address": f'{LINK}<a href="torch-1.0-cp3',
    "cut in a text": f'{LINK}<a href="{GOOD}">torch',
    "too new": f'<html><head><meta name="pypi:repository-version" content="2.0"></head>{LINK}</html>',
}


@pytest.mark.parametrize("content", NO_LISTS.values(), ids=NO_LISTS)
def test_a_page_that_is_cut_off_or_no_list_of_wheels_is_unparsable(content: str) -> None:
    with pytest.raises(Unparsable) as caught:
        read(content)
    assert BASE in str(caught.value)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"files": 1}', '{"meta": {"api-version": "2.0"}}'])
def test_json_that_is_no_project_page_is_unparsable(content: str) -> None:
    with pytest.raises(Unparsable):
        read(content, content_type=JSON_TYPE)


PIECES = (EXCERPTS / "pieces.txt").read_text(encoding="utf-8").split("\n")
WEIRD = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map("".join)
LINKED = st.lists(WEIRD, max_size=4).map(lambda hrefs: "".join(f'<a href="{href}">x</a>' for href in hrefs))
SCALARS = st.none() | st.booleans() | st.integers() | WEIRD
ENTRY = st.fixed_dictionaries(
    {"filename": WEIRD, "url": WEIRD, "hashes": st.dictionaries(st.just("sha256"), WEIRD) | SCALARS},
    optional=dict.fromkeys(("size", "requires-python", "yanked", "core-metadata", "upload-time"), SCALARS),
)
AS_JSON = st.fixed_dictionaries({"meta": st.just({"api-version": "1.1"}), "name": WEIRD, "files": st.lists(ENTRY)})


def assert_harmless(content: str | bytes, content_type: str) -> None:
    try:
        files = read(content, content_type=content_type).files
    except Unparsable:
        return
    for file in files:
        assert re.fullmatch(r"[A-Za-z0-9._+!-]+\.whl", file.filename)
        parse_wheel_filename(file.filename)
        assert file.url is not None
        assert re.fullmatch(r"https?://[^\s\"'<>\x00-\x20\x7f-\xff]+", file.url)
        assert ".." not in file.url.split("/")
        assert file.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", file.sha256)


@example(content="https:")
@example(content=f'<a href="file:///etc/{GOOD}">x</a>')
@example(content=f'<a href="//[/{GOOD}">x</a>')
@settings(deadline=None)
@given(WEIRD | LINKED | st.binary(max_size=80))
def test_whatever_a_page_holds_only_safe_names_and_addresses_come_out(content: str | bytes) -> None:
    assert_harmless(content, "text/html")


@settings(deadline=None)
@given(AS_JSON.map(json.dumps) | WEIRD | st.binary(max_size=80))
def test_whatever_json_holds_only_safe_names_and_addresses_come_out(content: str | bytes) -> None:
    assert_harmless(content, JSON_TYPE)


@pytest.mark.parametrize(
    ("odd", "item"),
    [({"url": "https://h.example/dl/17"}, "17"), ({"size": -1}, GOOD), ({"hashes": {"sha256": "x"}}, GOOD)],
    ids=["no name in the address", "a size below nothing", "no sha256"],
)
def test_json_that_lists_a_wheel_oddly_is_reported(odd: dict[str, object], item: str) -> None:
    file = {"filename": unquote(GOOD), "url": f"https://h.example/{GOOD}", "hashes": {}, **odd}
    data = {"meta": {"api-version": "1.0"}, "name": "torch", "files": [file]}
    found = read(json.dumps(data), content_type="Application/JSON")
    assert ([problem.item for problem in found.problems], found.files) == ([item], ())
