"""`metawheel show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from metawheel.cli.common import (
    Flavour,
    Json,
    Packages,
    Unhashed,
    columns,
    families_of,
    flavour_of,
    plain,
    print_result,
)

if TYPE_CHECKING:
    from metawheel.show import Shown


def show(
    name: Annotated[str, typer.Argument(metavar="NAME[==VERSION]")],
    flavour: Flavour = "pinned",
    allow_unhashed: Unhashed = False,
    packages: Packages = None,
    as_json: Json = False,
) -> None:
    """Show what a wrapper covers: which build each interpreter gets on each platform, and what is left out."""
    from packaging.utils import canonicalize_name

    from metawheel.inputs import Options, make_plan
    from metawheel.show import find

    options = Options(flavour=flavour_of(flavour), allow_unhashed=allow_unhashed)
    shown = find(make_plan(families_of(packages, None), options, name=canonicalize_name(name.partition("==")[0])), name)
    print_result(show_json(shown) if as_json else show_text(shown))


def show_text(shown: Shown) -> str:
    from metawheel.coverage import coverage, table

    lines = [f"{shown.name} {shown.version}"]
    wrapper = shown.wrapper
    if wrapper is not None:
        lines += [wrapper.summary, ""]
        if wrapper.yanked is not None:
            lines += [f"yanked: {plain(wrapper.yanked) or 'no reason given'}", ""]
        if wrapper.reissued is not None:
            lines += [f"re-issue of {wrapper.release}: {plain(wrapper.reissued)}", ""]
        lines += columns(table(coverage(wrapper)))
        lines += ["", f"Requires-Python {wrapper.requires_python}"]
        lines += [f"Requires-Dist {line}" for line in wrapper.requires]
        for extra, found in wrapper.extras:
            lines += [f"[{extra}] {line}" for line in found]
        lines += ["", "wheels:", *(f"  {name}" for name in wrapper.wheels)]
    else:
        lines.append("is not emitted.")
    if shown.omissions:
        lines += ["", "left out:", *(f"  {o.what}: {plain(o.reason)}" for o in shown.omissions)]
    if len(shown.versions) > 1:
        lines += ["", f"versions: {', '.join(shown.versions)}"]
    return "\n".join(lines)


def show_json(shown: Shown) -> dict[str, Any]:
    from metawheel.coverage import coverage, platform_name

    wrapper = shown.wrapper
    data: dict[str, Any] = {"name": shown.name, "version": shown.version, "emitted": wrapper is not None}
    if wrapper is not None:
        found = coverage(wrapper)
        data |= {
            "requires_python": wrapper.requires_python,
            "requires_dist": list(wrapper.requires),
            "extras": {extra: list(lines) for extra, lines in wrapper.extras},
            "wheels": list(wrapper.wheels),
            "yanked": wrapper.yanked,
            "reissued": wrapper.reissued,
            "coverage": [
                {
                    "platform": platform_name(platform),
                    "sys_platform": platform.sys_platform,
                    "platform_machine": platform.machine,
                    "builds": dict(zip(found.interpreters, row, strict=True)),
                }
                for platform, row in found.rows
            ],
        }
    data["omissions"] = [{"what": omission.what, "reason": omission.reason} for omission in shown.omissions]
    data["versions"] = list(shown.versions)
    return data
