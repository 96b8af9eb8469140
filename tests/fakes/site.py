"""A loopback web server for a folder of static files, as any plain web host would serve a site."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.fakes.httpd import NOT_FOUND, LoopbackServer, Reply

SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"
SIMPLE_HTML = "application/vnd.pypi.simple.v1+html"

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".json": SIMPLE_JSON,
    ".txt": "text/plain; charset=utf-8",
}


def prefers_json(accept: str) -> bool:
    """Tell whether an `Accept` header ranks the JSON form of the simple API above every HTML form."""
    weights: dict[str, float] = {}
    for part in accept.split(","):
        media, *params = (item.strip() for item in part.split(";"))
        quality = next((param[2:] for param in params if param.startswith("q=")), "1")
        weights[media.lower()] = float(quality)
    html = max(weights.get(SIMPLE_HTML, 0.0), weights.get("text/html", 0.0))
    return weights.get(SIMPLE_JSON, 0.0) > html


class SiteServer(LoopbackServer):
    """Serves a folder; `negotiate` adds what only a cleverer host does: JSON where a client asks for it."""

    def __init__(self, root: Path, *, negotiate: bool = False) -> None:
        """Serve the folder as it is at the time of each request."""
        super().__init__()
        self.root = root.resolve()
        self.negotiate = negotiate

    @property
    def simple(self) -> str:
        """The URL of the index over everything, with a slash at its end."""
        return self.url + "simple/"

    def view(self, backend: str) -> str:
        """The URL of the index that is narrowed to one backend."""
        return f"{self.url}{backend}/simple/"

    def answer(self, path: str, headers: Mapping[str, str], /) -> Reply:
        """Read the file at a path, `index.html` for a folder."""
        target = (self.root / path.lstrip("/")).resolve()
        if not target.is_relative_to(self.root):
            return NOT_FOUND
        if target.is_dir():
            if not path.endswith("/"):
                return Reply(status=301, headers={"Location": path + "/"})
            as_json = self.negotiate and prefers_json(headers.get("accept", ""))
            target /= "index.json" if as_json and (target / "index.json").is_file() else "index.html"
        if not target.is_file():
            return NOT_FOUND
        content_type = CONTENT_TYPES.get(target.suffix, "application/octet-stream")
        return Reply(target.read_bytes(), content_type, ranges=target.suffix == ".whl")
