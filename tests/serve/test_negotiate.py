"""Which form an Accept header gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simple_repository.content_negotiation import Format

from metawheel.serve.negotiate import choose_format

JSON, HTML, LEGACY = Format.JSON_V1, Format.HTML_V1, Format.HTML_LEGACY
PIP = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01"
UV = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", LEGACY),
        ("*/*", LEGACY),
        ("text/*", LEGACY),
        ("application/*", JSON),
        (PIP, JSON),
        (UV, JSON),
        (BROWSER, LEGACY),
        ("text/html", LEGACY),
        ("application/vnd.pypi.simple.v1+html", HTML),
        ("application/vnd.pypi.simple.latest+json", JSON),
        ("application/vnd.pypi.simple.latest+html, text/html;q=0.5", HTML),
        ("application/vnd.pypi.simple.v1+json;q=0.1, text/html", LEGACY),
        ("text/html, application/vnd.pypi.simple.v1+json", JSON),
        ("application/vnd.pypi.simple.v1+json;q=0, */*", LEGACY),
        ("application/vnd.pypi.simple.v1+json;q=0, text/html;q=0", None),
        ("APPLICATION/VND.PYPI.SIMPLE.V1+JSON ; Q=0.9 , text/html;q=0.8", JSON),
        ("text/html;level=1;q=0.2, application/vnd.pypi.simple.v1+json;q=0.3", JSON),
        ("application/vnd.pypi.simple.v1+json;q=much, text/html;q=0.1", LEGACY),
        ("application/vnd.pypi.simple.v2+json", None),
        ("image/png", None),
    ],
)
def test_the_form_that_is_ranked_highest_is_chosen(accept: str, form: Format | None) -> None:
    assert choose_format(accept) is form


@given(st.text())
def test_no_header_is_too_odd_to_be_read(accept: str) -> None:
    assert choose_format(accept) in {JSON, HTML, LEGACY, None}
