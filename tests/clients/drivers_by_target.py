"""How PDM, pip, pip-tools and pipenv are set up and told to lock: a target at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path

from tests.clients import elsewhere, envs
from tests.clients.drivers import Done, Driver, Locking, Result, everywhere, poetry, uv
from tests.clients.lock_pdm import PdmLock
from tests.clients.locks import Lock, read_lock
from tests.clients.projects_other import PdmSource, pdm_project, pipfile
from tests.clients.targets import Target

PDM_PLATFORMS = {
    "linux-x86_64": "linux",
    "linux-aarch64": "manylinux_2_28_aarch64",
    "macos-arm64": "macos_arm64",
    "macos-x86_64": "macos_x86_64",
    "windows-amd64": "windows",
}
PDM_ENV = {"PDM_CHECK_UPDATE": "0"}
WRAPPED = ("torch", "torchvision", "torchaudio", "jaxlib")


def pdm(locking: Locking) -> Result:
    """Lock with PDM: a lock for each target (and extra, `each`), one that they are appended to, or one for all."""
    project = locking.scenario.project
    only = () if locking.layout == "ordinary" else (*project.wrappers, *WRAPPED)
    sources = [PdmSource("metawheel", locking.ours, only)]
    sources.append(PdmSource("pypi", locking.pypi))
    pdm_project(
        locking.folder,
        locking.requires,
        sources,
        requires_python=locking.requires_python,
        optional=project.optional,
        groups=project.groups,
    )
    every = ["-G", ":all"] if project.alternatives else []
    if locking.layout == "universal":
        return everywhere(locking, locking.run("pdm", ["lock", *every], PDM_ENV), "pdm.lock")
    if locking.layout == "appended":
        return _pdm_appended(locking)
    wanted = {"": every}
    if locking.layout == "each":
        wanted = {f" {name}": ["-G", name] for name in project.alternatives}
    locks: dict[str, Lock | None] = {}
    said = ""
    for target, (suffix, groups) in product(project.targets, wanted.items()):
        arguments = ["lock", *groups, "--platform", PDM_PLATFORMS[target.name], "-L", "lock.toml"]
        done = locking.run("pdm", arguments, PDM_ENV)
        path = locking.folder / "lock.toml"
        lock = PdmLock(path.read_text(encoding="utf-8")) if done.returncode == 0 else None
        locks[target.name + suffix] = lock
        said += (done.stdout + done.stderr) * bool(done.returncode)
        path.unlink(missing_ok=True)
    return Result(locks, said)


def _pdm_appended(locking: Locking) -> Result:
    """One lock file, to which each target is appended."""
    targets = locking.scenario.project.targets
    refused: set[str] = set()
    said, begun = "", False
    for target in targets:
        append = ["--append"] * begun
        done = locking.run("pdm", ["lock", "--platform", PDM_PLATFORMS[target.name], *append], PDM_ENV)
        begun = begun or done.returncode == 0
        if done.returncode:
            refused.add(target.name)
            said = done.stdout + done.stderr
    lock = read_lock(locking.folder / "pdm.lock") if begun else None
    return Result({target.name: None if target.name in refused else lock for target in targets}, said)


def _by_target(locking: Locking, lock: str, run: Callable[[Target, dict[str, str]], Done]) -> Result:
    """Lock as if on each target in turn."""
    locks: dict[str, Lock | None] = {}
    said = ""
    for target in locking.scenario.project.targets:
        done = run(target, elsewhere.settings(target, locking.folder / "as" / target.name))
        path = locking.folder / lock
        locks[target.name] = read_lock(path, locking.world.names) if done.returncode == 0 else None
        said += (done.stdout + done.stderr) * bool(done.returncode)
        path.unlink(missing_ok=True)
    return Result(locks, said)


def _indexes(locking: Locking) -> list[str]:
    match locking.layout:
        case "primary" | "view":
            return ["--index-url", locking.ours, "--extra-index-url", locking.pypi]
        case "only":
            return ["--index-url", locking.ours]
        case "proxy":
            return ["--index-url", locking.proxy]
    return ["--index-url", locking.pypi, "--extra-index-url", locking.ours]


def pip(locking: Locking) -> Result:
    """Resolve with pip; in the layout `locked`, from what uv compiled."""
    client = locking.scenario.client
    dry = ["install", "--dry-run", "--ignore-installed", "--quiet", "--report", "report.json", *_indexes(locking)]
    if locking.layout != "locked":
        return _by_target(locking, "report.json", lambda _, env: locking.run(client, [*dry, *locking.requires], env))
    locking.folder.mkdir(parents=True, exist_ok=True)
    (locking.folder / "requirements.in").write_text("\n".join(locking.requires) + "\n", encoding="utf-8")
    arguments = ["pip", "compile", "requirements.in", "--universal", "--generate-hashes", "-o", "requirements.txt"]
    indexes = ["--index", locking.ours, "--default-index", locking.pypi]
    python = ["--python", str(locking.python), "--python-version", locking.scenario.project.python]
    done = locking.run("uv", [*arguments, *indexes, *python])
    compiled = everywhere(locking, done, "requirements.txt")
    if done.returncode:
        return compiled
    traffic = locking.world.traffic()
    hashed = [*dry, "--require-hashes", "-r", "requirements.txt"]
    return replace(_by_target(locking, "report.json", lambda _, env: locking.run(client, hashed, env)), traffic=traffic)


def pip_tools(locking: Locking) -> Result:
    """Compile with pip-tools."""
    locking.folder.mkdir(parents=True, exist_ok=True)
    (locking.folder / "requirements.in").write_text("\n".join(locking.requires) + "\n", encoding="utf-8")
    arguments = ["requirements.in", "-o", "requirements.txt", "--quiet", "--strip-extras", *_indexes(locking)]
    arguments += ["--generate-hashes"] * (locking.layout == "hashes")
    return _by_target(locking, "requirements.txt", lambda _, env: locking.run("pip-tools", arguments, env))


def pipenv(locking: Locking) -> Result:
    """Lock with pipenv, in the environment that it is itself installed in: there is nothing to install."""
    project = locking.scenario.project
    sources = {"metawheel": locking.ours, "pypi": locking.pypi}
    if locking.layout in {"named", "all-named"}:
        sources = {"pypi": locking.pypi, "metawheel": locking.ours}
    named: Iterable[str] = ()
    if locking.layout != "primary":
        named = (*project.wrappers, *(project.builds if locking.layout == "all-named" else ()))
    pipfile(locking.folder, locking.requires, sources, pins=dict.fromkeys(named, "metawheel"), python=project.python)
    home = envs.ensure("pipenv", locking.python).parent
    base = {"VIRTUAL_ENV": str(home), "PIPENV_NOSPIN": "1", "PIPENV_YES": "1", "PIPENV_VERBOSITY": "-1"}
    return _by_target(locking, "Pipfile.lock", lambda _, env: locking.run("pipenv", ["lock"], {**base, **env}))


DRIVERS: dict[str, Driver] = {
    "uv": uv,
    "poetry": poetry,
    "poetry-1.8": poetry,
    "pdm": pdm,
    "pip": pip,
    "pip-23": pip,
    "pip-tools": pip_tools,
    "pipenv": pipenv,
}


def lock(scenario_folder: Path, locking: Locking) -> Result:
    """Lock a scenario's project, after the state that it was switched from."""
    driver = DRIVERS[locking.scenario.client]
    before = locking.scenario.project.switched_from
    here = replace(locking, folder=scenario_folder)
    if before:
        driver(replace(here, requires=before))
    return driver(here)
