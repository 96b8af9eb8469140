"""What is new in each state of a site: CHANGES.json for programs, an Atom feed for people."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from metawheel.errors import MALFORMED, OutputError
from metawheel.model import Artifact
from metawheel.site import Manifest, SiteWrapper

CHANGES_FILE = "CHANGES.json"
FEED_FILE = "changes.atom"
FORMAT = 1
FEED_LENGTH = 50  # entries; CHANGES.json holds all
ATOM = "http://www.w3.org/2005/Atom"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one state of a site has that the state before had not; wrappers as NAME==VERSION, with reasons."""

    id: str = ""  # sha256 over all states so far
    date: str = ""  # of the newest fact in the ledgers
    new: tuple[str, ...] = ()
    reissued: tuple[tuple[str, str], ...] = ()
    yanked: tuple[tuple[str, str], ...] = ()
    unyanked: tuple[str, ...] = ()
    rebuilt: tuple[str, ...] = ()  # other content under the same version: only what was never released
    removed: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()  # upstream projects whose page lists other files or facts

    def __bool__(self) -> bool:
        return any(getattr(self, item.name) for item in fields(self) if item.name not in ("id", "date"))

    @property
    def summary(self) -> str:
        """What changed, in one line."""
        counts = [
            (len(self.new), "new"),
            (len(self.reissued), "re-issued"),
            (len(self.yanked), "yanked"),
            (len(self.unyanked), "no longer yanked"),
            (len(self.rebuilt), "rebuilt"),
            (len(self.removed), "removed"),
        ]
        parts = [f"{count} {what}" for count, what in counts if count]
        wrappers = f"wrappers: {', '.join(parts)}" if parts else ""
        pages = f"upstream pages changed: {', '.join(self.pages)}" if self.pages else ""
        return "; ".join(filter(None, (wrappers, pages)))


NOTHING = Entry()


def difference(
    old: Manifest | None,
    wrappers: Sequence[SiteWrapper],
    wheels: Mapping[str, Artifact],
    pages: Mapping[str, bytes],
) -> Entry:
    """What a site's next state has that the last had not. Pure."""
    before = {wrapper.key: wrapper for wrapper in old.wrappers} if old is not None else {}
    now = {wrapper.key: wrapper for wrapper in wrappers}
    names = {wrapper.name for wrapper in now.values()}
    fresh = [wrapper for key, wrapper in now.items() if key not in before]
    stay = [(before[key], wrapper) for key, wrapper in now.items() if key in before]

    def content(found: Mapping[str, Artifact], wrapper: SiteWrapper) -> list[str]:
        return [found[name].sha256 for name in wrapper.wheels]

    return Entry(
        new=tuple(wrapper.key for wrapper in fresh if wrapper.reissued is None),
        reissued=tuple((wrapper.key, wrapper.reissued) for wrapper in fresh if wrapper.reissued is not None),
        yanked=tuple((new.key, new.yanked) for one, new in stay if new.yanked is not None and one.yanked is None),
        unyanked=tuple(new.key for one, new in stay if new.yanked is None and one.yanked is not None),
        rebuilt=tuple(new.key for one, new in stay if old and content(old.wheels, one) != content(wheels, new)),
        removed=tuple(sorted(before.keys() - now.keys())),
        pages=tuple(
            project
            for path, content in sorted(pages.items())
            if old is not None
            and (match := re.fullmatch(r"simple/([^/]+)/index\.json", path))
            and (project := match[1]) not in names
            and old.pages.get(path) != hashlib.sha256(content).hexdigest()
        ),
    )


def extend(history: Sequence[Entry], entry: Entry, date: str) -> tuple[Entry, ...]:
    """A history with one more entry, if that says anything; never dated before the last."""
    if not entry:
        return tuple(history)
    last = history[-1] if history else NOTHING
    dated = replace(entry, id=last.id, date=max(date, last.date))
    return (*history, replace(dated, id=hashlib.sha256(json.dumps(asdict(dated)).encode()).hexdigest()))


def load(site: Path) -> tuple[Entry, ...]:
    """The history that a site holds; raises OutputError where it cannot be read."""
    path = site / CHANGES_FILE
    try:
        data = json.loads(path.read_bytes())
        return tuple(_entry(facts) for facts in reversed(data["states"]))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise OutputError(f"{path}: cannot be read: {error.strerror}") from error
    except MALFORMED:
        raise OutputError(f"{path}: cannot be read; restore it, or remove it to begin a new history") from None


def _entry(facts: dict[str, Any]) -> Entry:
    """Read an entry; raises ValueError, KeyError or TypeError on whatever was not written by `render`."""
    if not re.fullmatch(r"[0-9a-f]{64}", facts["id"]) or not re.fullmatch(r"|\d{4}-\d\d-\d\d", facts["date"]):
        raise ValueError(facts["id"])
    values: dict[str, Any] = {"id": facts.pop("id"), "date": facts.pop("date")}
    for key, items in facts.items():
        pairs = key in ("reissued", "yanked")
        found = tuple((item["wrapper"], item["reason"]) if pairs else item for item in items)
        if not all(isinstance(text, str) for item in found for text in (item if pairs else (item,))):
            raise TypeError(key)
        values[key] = found
    return Entry(**values)


def render(history: Sequence[Entry]) -> dict[str, bytes]:
    """Both files of a history, newest state first. Pure."""
    states = [as_json(entry) for entry in reversed(history)]
    data = json.dumps({"changes": FORMAT, "states": states}, indent=1, ensure_ascii=True).encode() + b"\n"
    return {CHANGES_FILE: data, FEED_FILE: _feed(history)}


def as_json(entry: Entry) -> dict[str, Any]:
    """An entry as CHANGES.json has it."""
    data = asdict(entry)
    for key in ("reissued", "yanked"):
        data[key] = [{"wrapper": wrapper, "reason": reason} for wrapper, reason in data[key]]
    return data


def _feed(history: Sequence[Entry]) -> bytes:
    """The newest states as an Atom feed (RFC 4287)."""
    ElementTree.register_namespace("", ATOM)
    feed = ElementTree.Element(f"{{{ATOM}}}feed")
    first, last = (history[0], history[-1]) if history else (NOTHING, NOTHING)
    _texts(feed, id=_urn(f"feed {first.id}"), title="metawheel: wrappers", updated=_time(last.date))
    author = ElementTree.SubElement(feed, f"{{{ATOM}}}author")
    _texts(author, name="metawheel")
    ElementTree.SubElement(feed, f"{{{ATOM}}}link", rel="self", href=FEED_FILE)
    for entry in reversed(history[-FEED_LENGTH:]):
        item = ElementTree.SubElement(feed, f"{{{ATOM}}}entry")
        _texts(item, id=_urn(entry.id), title=entry.summary, updated=_time(entry.date), content="\n".join(lines(entry)))
        ElementTree.SubElement(item, f"{{{ATOM}}}link", rel="alternate", href=CHANGES_FILE)
    ElementTree.indent(feed, " ")
    content: bytes = ElementTree.tostring(feed, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def lines(entry: Entry) -> list[str]:
    """An entry for people, a line for each wrapper."""
    found = [f"new: {key}" for key in entry.new]
    found += [f"re-issued: {key} ({reason})" for key, reason in entry.reissued]
    found += [f"yanked: {key} ({reason or 'no reason given'})" for key, reason in entry.yanked]
    found += [f"no longer yanked: {key}" for key in entry.unyanked]
    found += [f"rebuilt: {key}" for key in entry.rebuilt]
    found += [f"removed: {key}" for key in entry.removed]
    return [*found, *(f"upstream page changed: {project}" for project in entry.pages)]


def _texts(parent: ElementTree.Element, **texts: str) -> None:
    for name, text in texts.items():
        # XML 1.0 has no way to write most control characters down.
        safe = re.sub(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\N{REPLACEMENT CHARACTER}", text)
        ElementTree.SubElement(parent, f"{{{ATOM}}}{name}").text = safe


def _urn(sha256: str) -> str:
    return uuid.uuid5(uuid.NAMESPACE_OID, sha256).urn


def _time(date: str) -> str:
    return f"{date or '1970-01-01'}T00:00:00Z"
