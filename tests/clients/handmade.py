"""A site written by hand, small enough to try the harness on without the builder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.upstream import UpstreamServer, WheelSpec
from tests.fakes.wheels import build_wheel

LINUX = 'sys_platform == "linux" and platform_machine == "x86_64"'
WINDOWS = 'sys_platform == "win32" and platform_machine == "AMD64"'


@dataclass(frozen=True)
class Linked:
    """One upstream file as a page links it; True in `metadata` says that it has a sidecar."""

    filename: str
    href: str
    metadata: bool | str = False


def cu116_lines(version: str = "1.13.1") -> tuple[str, ...]:
    """Pin CUDA 11.6 on Linux and Windows and the plain build everywhere else."""
    elsewhere = (
        '(sys_platform != "linux" or platform_machine != "x86_64")'
        ' and (sys_platform != "win32" or platform_machine != "AMD64")'
    )
    return (
        f"torch=={version}+cu116 ; {LINUX}",
        f"torch=={version}+cu116 ; {WINDOWS}",
        f"torch=={version} ; {elsewhere}",
    )


def write_site(root: Path, wrappers: Sequence[WheelSpec], linked: Mapping[str, Sequence[Linked]]) -> Path:
    """Write wrapper wheels with their sidecars, and a page for every project."""
    pages: dict[str, list[str]] = {}
    files = root / "files"
    files.mkdir(parents=True)
    for spec in wrappers:
        built = build_wheel(spec)
        (files / spec.filename).write_bytes(built.data)
        (files / f"{spec.filename}.metadata").write_bytes(built.metadata)
        pages.setdefault(spec.name, []).append(
            f'<a href="../../files/{spec.filename}#sha256={built.sha256}"'
            f' data-core-metadata="sha256={built.metadata_sha256}">{spec.filename}</a><br/>'
        )
    for project, links in linked.items():
        for link in links:
            said = f' data-core-metadata="{str(link.metadata).lower()}"' if link.metadata else ""
            pages.setdefault(project, []).append(f'<a href="{link.href}"{said}>{link.filename}</a><br/>')
    for project, anchors in pages.items():
        _write_page(root / "simple" / project / "index.html", anchors)
    _write_page(root / "simple" / "index.html", [f'<a href="{name}/">{name}</a><br/>' for name in pages])
    return root


def links_to(upstream: UpstreamServer, *, metadata: bool = True) -> dict[str, list[Linked]]:
    """Link every wheel of an upstream, with the hashes of its stand-ins, by project."""
    found: dict[str, list[Linked]] = {}
    for path in upstream.paths():
        spec = upstream.built(path).spec
        said = f"sha256={upstream.metadata_sha256(path)}" if metadata else False
        href = f"{upstream.url_of(path)}#sha256={upstream.sha256(path)}"
        found.setdefault(spec.name, []).append(Linked(spec.filename, href, said))
    return found


def _write_page(path: Path, anchors: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    body = "\n".join(anchors)
    path.write_text(f"<!DOCTYPE html>\n<html><body>\n{body}\n</body></html>\n", encoding="utf-8")
