"""The words of fixes: lines to paste, and edits of single lines. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from packaging.version import Version

from metawheel.doctor.known import index_url
from metawheel.doctor.model import Declared, Edit, Fix, Source
from metawheel.doctor.targets import Target

RELOCK = {
    "uv": "uv lock --upgrade-package {name}",
    "poetry": "poetry lock --regenerate",
    "pdm": "pdm lock",
    "pipenv": "pipenv lock",
    "pylock": "uv export --format pylock.toml -o pylock.toml",
    "requirements": "uv pip compile requirements.in --universal --generate-hashes --emit-index-url -o requirements.txt",
}


def relock(kind: str, name: str) -> str:
    return RELOCK.get(kind, RELOCK["requirements"]).format(name=name)


def marker_of(target: Target, *, other: bool = False) -> str:
    """The environment marker of a target's platform, or of all others; macOS is told by the machine too."""
    sign, joint = ("!=", "or") if other else ("==", "and")
    return f"sys_platform {sign} '{target.sys_platform}' {joint} platform_machine {sign} '{target.machine}'"


def pins(tool: str, name: str, *wanted: tuple[str, str | None], extras: Sequence[str] = ()) -> str:
    """Requirements as a tool's file holds them: a specifier and a marker for each."""
    if tool in {"poetry", "pipenv"}:
        tables = [_table(specifier, marker, extras) for specifier, marker in wanted]
        if len(tables) == 1:
            return f"{name} = {tables[0]}"
        if tool == "pipenv":  # has no place for a second entry
            rest = ", ".join(f"{name}{specifier}" for specifier, _ in wanted[1:])
            return f"{name} = {tables[0]}\n# elsewhere: pip install {rest}"
        return "\n".join([f"{name} = [", *(f"    {entry}," for entry in tables), "]"])
    brackets = f"[{','.join(extras)}]" if extras else ""
    lines = [f"{name}{brackets}{specifier}{f' ; {single(marker)}' if marker else ''}" for specifier, marker in wanted]
    return "\n".join(lines if tool == "pip" else (f'"{line}",' for line in lines))


def _table(specifier: str, marker: str | None, extras: Sequence[str]) -> str:
    keys = [f'version = "{specifier.removeprefix("==") or "*"}"']
    keys += ["extras = [" + ", ".join(f'"{extra}"' for extra in extras) + "]"] if extras else []
    keys += [f'markers = "{single(marker)}"'] if marker else []
    return f"{{ {', '.join(keys)} }}"


def single(marker: str) -> str:
    """A marker for a TOML string."""
    return marker.replace('"', "'")


def split_for_mac(tool: str, name: str, version: Version, extras: Sequence[str] = ()) -> str:
    """A labelled pin, and the plain one for macOS."""
    labelled = (f"=={version}", "sys_platform != 'darwin'")
    return pins(tool, name, labelled, (f"=={version.public}", "sys_platform == 'darwin'"), extras=extras)


def mac_fix(item: Declared, version: Version) -> Fix:
    """Two lines in the place of one; safe where the one has no marker, hash or source of its own."""
    paste = split_for_mac(item.tool, item.name, version, item.extras)
    if item.marker is None and item.tool == "pip" and not item.hashed:
        return Fix(paste=paste, edits=(Edit(item.place, item.text, paste),), safe=True)
    if item.marker is None and item.tool == "pep621":
        new = paste.replace("\n", "\n    ").removesuffix(",")
        return Fix(paste=paste, edits=(Edit(item.place, f'"{item.text}"', new),), safe=True)
    return Fix(paste=paste)


def source_off_mac(source: Source) -> Fix:
    """A marker on a source of uv, so that macOS gets the plain build."""
    kind, _, scope = source.scope.partition(":")
    old = f'index = "{source.index}"'
    new = f"{old}, marker = \"sys_platform != 'darwin'\""
    keys = f'{new}, {kind} = "{scope}"' if scope else new
    edits = (Edit(source.place, old, new),) if source.marker is None else ()
    return Fix(paste=f"[tool.uv.sources]\n{source.name} = {{ {keys} }}", edits=edits)


def index_lines(tool: str, name: str, backend: str) -> str:
    """How a tool is told to take a project from the index of a backend, but for macOS, which has plain builds."""
    table = index_table(tool, name, backend)
    if tool == "poetry":
        here = '{ version = "*", source = "pytorch", markers = "sys_platform != \'darwin\'" }'
        mac = '{ version = "*", markers = "sys_platform == \'darwin\'" }'
        return f"[tool.poetry.dependencies]\n{name} = [\n    {here},\n    {mac},\n]\n\n{table}"
    if tool in {"pip", "pipenv", "pdm"}:
        return table
    return f'[tool.uv.sources]\n{name} = {{ index = "pytorch", marker = "sys_platform != \'darwin\'" }}\n\n{table}'


def index_table(tool: str, name: str, backend: str) -> str:
    """How a tool is told of the index of a backend."""
    url = index_url(backend)
    if tool == "pip":
        return f"--extra-index-url {url}"
    tables = {
        "poetry": f'[[tool.poetry.source]]\nname = "pytorch"\nurl = "{url}"\npriority = "explicit"',
        "pipenv": f'[[source]]\nname = "pytorch"\nurl = "{url}"\nverify_ssl = true',
        "pdm": f'[[tool.pdm.source]]\nname = "pytorch"\nurl = "{url}"\ninclude_packages = ["{name}"]',
    }
    return tables.get(tool, f'[[tool.uv.index]]\nname = "pytorch"\nurl = "{url}"\nexplicit = true')
