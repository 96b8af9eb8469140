"""TOML with line numbers: tomllib says what a file holds, a scan of its tokens says where."""

from __future__ import annotations

import functools
import re
import tomllib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metawheel.doctor.model import Place, ProjectError

Path_ = tuple[str | int, ...]  # keys, and the numbers of elements

_TOKEN = re.compile(
    r"""
      (?P<comment>\#[^\n]*)
    | (?P<string>\"{3}(?:[^\\]|\\.)*?\"{3,5} | '{3}.*?'{3,5} | "(?:[^"\\\n]|\\.)*" | '[^'\n]*')
    | (?P<newline>\n)
    | (?P<space>[ \t\r]+)
    | (?P<mark>[\[\]{}=,])
    | (?P<bare>[^\s\[\]{}=,"'\#]+)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of TOML."""

    kind: str
    text: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Toml:
    """A TOML file: its content, and the line of each key and element."""

    path: str
    data: dict[str, Any]
    lines: Mapping[Path_, int]

    def place(self, *keys: str | int) -> Place:
        """Where a value is, or the nearest table around it."""
        for length in range(len(keys), 0, -1):
            if keys[:length] in self.lines:
                return Place(self.path, self.lines[keys[:length]])
        return Place(self.path, 1)


LONGEST = 4300  # digits; Python makes no number of more, and no version


def read_text(path: Path, name: str, *, utf16: bool = False) -> str:
    """A file's text with `\\n` at line ends, of UTF-8, or of UTF-16 where its mark says so; raises ProjectError."""
    try:
        content = path.read_bytes()
        encoding = "UTF-16" if utf16 and content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "UTF-8"
        text = content.decode(encoding).removeprefix("\ufeff").replace("\r\n", "\n")
    except OSError as error:
        raise ProjectError(f"{name}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ProjectError(f"{name}: is not {encoding} at byte {error.start}; save it as UTF-8") from error
    if re.search(rf"\d{{{LONGEST + 1}}}", text):
        raise ProjectError(f"{name}: has a number of more than {LONGEST} digits")
    return text


def loads(text: str, name: str) -> dict[str, Any]:
    """Parse TOML; raises ProjectError, which names the file."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        why = "is nested too deeply" if isinstance(error, RecursionError) else f"is not TOML: {error}"
        raise ProjectError(f"{name}: {why}") from None


def parse(text: str, name: str) -> Toml:
    """A file's content and lines; raises ProjectError."""
    data = loads(text, name)
    return Toml(path=name, data=data, lines=_Scan(text).lines)


class _Scan:
    """One pass over valid TOML."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Path_, int] = {}
        self._arrays: dict[Path_, int] = {}  # arrays of tables → how many there are so far
        self._tokens = list(_tokens(text))
        self._at = 0
        self._document()

    def _document(self) -> None:
        table: Path_ = ()
        while (token := self._peek(lines=True)) is not None:
            if token.text == "[" and token.kind == "mark":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Path_:
        first = self._next()
        many = self._tokens[self._at].text == "[" and self._tokens[self._at].kind == "mark"
        if many:
            self._at += 1
        keys = self._key("]")
        if many:
            self._at += 1
        path: Path_ = ()
        for number, key in enumerate(keys, start=1):
            path += (key,)
            if many and number == len(keys):
                self._arrays[path] = self._arrays.get(path, 0) + 1
            if path in self._arrays:
                self.lines.setdefault(path, first.line)
                path += (self._arrays[path] - 1,)
            self.lines.setdefault(path, first.line)
        return path

    def _pair(self, table: Path_) -> None:
        token = self._peek(lines=True)
        line = token.line if token else 0
        path = table
        for key in self._key("="):
            path += (key,)
            self.lines.setdefault(path, line)
        self._value(path)

    def _key(self, end: str) -> tuple[str, ...]:
        """The parts of a dotted key; the token that ends it is consumed."""
        parts: list[str] = []
        fresh = True
        while (token := self._next()).text != end or token.kind != "mark":
            if token.kind == "string":
                parts.append(_unquoted(token.text))
                fresh = False
                continue
            for number, part in enumerate(token.text.split(".")):
                fresh = fresh or number > 0
                if part and fresh:
                    parts.append(part)
        return tuple(parts)

    def _value(self, path: Path_) -> None:
        token = self._next(lines=True)
        if token.kind == "mark" and token.text == "[":
            self._array(path)
        elif token.kind == "mark" and token.text == "{":
            self._inline(path)
        else:  # a date and its time are two
            while (more := self._peek()) is not None and more.kind == "bare":
                self._at += 1

    def _array(self, path: Path_) -> None:
        number = 0
        while (token := self._peek(lines=True)) is not None:
            if token.kind == "mark" and token.text in {"]", ","}:
                self._at += 1
                if token.text == "]":
                    return
                continue
            self.lines[*path, number] = token.line
            self._value((*path, number))
            number += 1

    def _inline(self, path: Path_) -> None:
        while (token := self._peek(lines=True)) is not None:
            if token.kind == "mark" and token.text in {"}", ","}:
                self._at += 1
                if token.text == "}":
                    return
                continue
            self._pair(path)

    def _peek(self, *, lines: bool = False) -> Token | None:
        """The next token; over line ends only where asked."""
        while lines and self._at < len(self._tokens) and self._tokens[self._at].kind == "newline":
            self._at += 1
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _next(self, *, lines: bool = False) -> Token:
        token = self._peek(lines=lines)
        if token is None:
            raise AssertionError("the scan and tomllib disagree about a file's end")
        self._at += 1
        return token


def _tokens(text: str) -> Iterator[Token]:
    line = 1
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        if kind not in {"comment", "space"}:
            yield Token(kind, match[0], line)
        line += match[0].count("\n")


@functools.cache
def _unquoted(text: str) -> str:
    return str(tomllib.loads(f"key = {text}")["key"])
