"""A small site, laid down as a build does it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from metawheel.model import Artifact
from metawheel.render import Link, project_pages, root_pages
from metawheel.site import FILES, Manifest, lay_down, page_digests
from metawheel.swap import staged
from tests.fakes.wheels import BuiltWheel, WheelSpec, build_wheel

TORCH = "torch-2.9.1+cpu-cp312-cp312-linux_x86_64.whl"
VIEW = "cu128"
LABELLED = "torch_cpu-2.9.1+x-py3-none-any.whl"  # no build makes one; a name with a `+` for the tests of paths
YANKED = "torch_cpu-2.9.0-py3-none-any.whl"
WRAPPERS = (
    LABELLED,
    YANKED,
    "torch_cpu-2.9.1-py3-none-any.whl",
    "torch_cu128-2.9.1-py3-none-any.whl",
)


@dataclass(frozen=True)
class Upstream:
    """An upstream wheel: its bytes and how the site links it."""

    built: BuiltWheel
    url: str
    metadata: str | None = None
    size: int | None = None  # as the page says it

    @property
    def link(self) -> Link:
        return Link(
            filename=self.built.spec.filename,
            url=self.url,
            sha256=self.built.sha256,
            size=self.size,
            metadata=self.metadata,
        )


def torch(host: str = "https://upstream.invalid/", filename: str = TORCH, padding: int = 0) -> Upstream:
    """A torch wheel on a host, at the path that upstream uses."""
    built = build_wheel(WheelSpec(filename, ("typing-extensions",), padding=padding))
    return Upstream(built, f"{host}whl/cpu/{quote(filename)}", size=len(built.data))


def write_site(
    folder: Path,
    upstream: Iterable[Upstream] = (),
    *,
    wrappers: Iterable[str] = WRAPPERS,
    more: Mapping[str, bytes] | None = None,
) -> Path:
    """Lay down the next state of a site; `more` are pages that are not of an index."""
    wheels = {name: build_wheel(WheelSpec(name, ("torch==2.9.1+cpu",), ">=3.10")) for name in wrappers}
    files = [item.link for item in upstream] or [torch().link]
    pages = {
        **_folder("simple", wheels, files),
        **_folder(f"{VIEW}/simple", {name: w for name, w in wheels.items() if VIEW in name}, files),
        **(more or {}),
    }
    artifacts = {
        name: Artifact(filename=name, sha256=w.sha256, size=len(w.data), metadata_sha256=w.metadata_sha256)
        for name, w in wheels.items()
    }
    with staged(folder) as stage:
        for name, wheel in wheels.items():
            stage.write(f"{FILES}/{name}", wheel.data)
            stage.write(f"{FILES}/{name}.metadata", wheel.metadata)
        manifest = Manifest(
            inputs=page_digests(pages)["simple/index.html"], wheels=artifacts, pages=page_digests(pages)
        )
        lay_down(stage, None, manifest, pages)
        stage.complete = True
    return folder


def _folder(path: str, wheels: Mapping[str, BuiltWheel], files: Iterable[Link]) -> dict[str, bytes]:
    up = "../" * (path.count("/") + 2)
    links: dict[str, list[Link]] = {"torch": list(files)}
    for name, wheel in wheels.items():
        link = Link(
            filename=name,
            url=f"{up}files/{quote(name)}",
            sha256=wheel.sha256,
            size=len(wheel.data),
            requires_python=wheel.spec.requires_python,
            yanked="withdrawn upstream" if name == YANKED else None,
            metadata=wheel.metadata_sha256,
        )
        links.setdefault(wheel.spec.name, []).append(link)
    pages = {f"{path}/{name}": page for name, page in root_pages(links).items()}
    for project, found in links.items():
        pages |= {f"{path}/{project}/{name}": page for name, page in project_pages(project, found).items()}
    return pages
