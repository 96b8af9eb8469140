"""The line numbers of TOML keys."""

from __future__ import annotations

from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from metawheel.doctor.toml_text import parse
from tests.doctor.projects import DATA
from tests.fakes.ledgers import untimed

TRICKY = '''\
# [comment]
"quoted key" = 1
bare.'dotted'."two words" = "x # y = [z]"
many = """
[not.a.table]
key = 1
"""
raw = \'\'\'
[[neither]]
"""
\'\'\'
when = 1979-05-27 07:32:00 # a date of two words

[ table . sub ]
array = [
  "one", # a comment, with ] and ,
  [ 2, 3 ],
  { inline = true, deep = { er = [] } },
]

[[list]]
name = "first"
[list.of]
key = 1
[[list]]
name = "second"
[[list.of-lists]]
x = 1
[[list.of-lists]]
x = 2
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("quoted key",), 2),
        (("bare", "dotted", "two words"), 3),
        (("many",), 4),
        (("raw",), 8),
        (("when",), 12),
        (("table", "sub"), 14),
        (("table", "sub", "array", 0), 16),
        (("table", "sub", "array", 1, 1), 17),
        (("table", "sub", "array", 2, "deep", "er"), 18),
        (("list", 0, "name"), 22),
        (("list", 0, "of", "key"), 24),
        (("list", 1, "name"), 26),
        (("list", 1, "of-lists", 1, "x"), 30),
    ],
)
def test_a_key_is_found_at_the_line_where_it_stands(path: tuple[str | int, ...], line: int) -> None:
    assert parse(TRICKY, "x.toml").lines[path] == line


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    found = {path} if path else set()
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return found.union(*(_paths(item, (*path, key)) for key, item in items))


keys = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=8)
leaves = st.one_of(st.booleans(), st.integers(-(2**40), 2**40), st.text(max_size=12), st.floats(allow_nan=False))
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=12
)


@untimed
@given(st.dictionaries(keys, values, max_size=5), st.booleans())
def test_every_value_of_any_document_has_a_line_and_no_line_is_for_nothing(
    data: dict[str, Any], multiline: bool
) -> None:
    text = tomli_w.dumps(data, multiline_strings=multiline)
    toml = parse(text.replace("\r\n", "\n").replace("\r", "\\r") if not multiline else text, "x.toml")

    assert set(toml.lines) == _paths(toml.data)
    assert all(1 <= line <= text.count("\n") + 1 for line in toml.lines.values())


@untimed
@given(st.dictionaries(st.from_regex(r"[a-z]{1,6}", fullmatch=True), values, max_size=5))
def test_the_key_stands_in_the_line_that_is_named(data: dict[str, Any]) -> None:
    text = tomli_w.dumps(data)
    lines = text.split("\n")
    toml = parse(text, "x.toml")

    for key in data:
        assert key in lines[toml.lines[key,] - 1]


@pytest.mark.parametrize("path", sorted(DATA.glob("*/*.toml")) + sorted(DATA.glob("*/*.lock")), ids=str)
def test_every_value_of_a_real_file_has_a_line(path: Any) -> None:
    if path.name == "Pipfile.lock":
        return
    toml = parse(path.read_text(encoding="utf-8"), path.name)

    assert set(toml.lines) == _paths(toml.data)
