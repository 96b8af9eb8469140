"""`metawheel install` and `metawheel pip` with real pip and real uv against a loopback index.

A stranger has registered every wrapper's name on the stand-in for PyPI, and PyPI's own torch is newer than the index's.
The functions of pytorch-pip-shim and light-the-torch, by the table in docs/detect.md, are among the promises here.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from metawheel.install.pipconf import place_of
from tests.clients import envs
from tests.clients.standin import build_stand_in_site, metawheel
from tests.clients.stock import stock, stock_plain_builds, stock_third_parties
from tests.fakes.ledgers import TORCH, wheel, write_family
from tests.fakes.machine import interpreter
from tests.fakes.pypi import FakePyPI
from tests.fakes.site import SiteServer
from tests.fakes.upstream import UpstreamServer, WheelSpec

pytestmark = pytest.mark.clients

WRAPPERS = (
    *(f"torch-{backend}==2.8.0" for backend in ("cpu", "cu126", "cu128")),
    *(f"torch-{backend}==2.10.0" for backend in ("cpu", "cu126", "cu128", "cu130")),
    *(f"{project}-{backend}==0.7.2" for project in ("jax", "jaxlib") for backend in ("cpu", "cuda12", "cuda13")),
    "torch-cpu==2.4.1",
)
STRANGERS = ("torch-cpu", "torch-cu126", "torch-cu128", "torch-cu130", "torch-cuda", "jax-cuda12", "jax-cpu")
DOCS = Path(__file__).parents[2] / "docs" / "detect.md"
TOOLS = ("pip", "uv")


@dataclass(frozen=True)
class World:
    """The index, and what stands in for PyPI."""

    site: SiteServer
    pypi: FakePyPI


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with UpstreamServer(metadata=True) as upstream, FakePyPI() as pypi:
        stock(pypi)
        stock_plain_builds(pypi)
        stock_third_parties(pypi)
        site = build_stand_in_site(tmp_path_factory.mktemp("install"), upstream, WRAPPERS, pypi=pypi)
        for tags in ("cp311-cp311-manylinux_2_17_x86_64", "cp312-cp312-manylinux_2_17_x86_64"):
            pypi.add("torch", "2.15.0", tags=tags)
            pypi.add("torchvision", "0.30.0", tags=tags)
        for name in STRANGERS:
            for version in ("2.10.0", "2.8.0", "0.7.2", "99.0"):
                pypi.add(name, version)
        with SiteServer(site) as server:
            yield World(server, pypi)


@dataclass(frozen=True)
class Place:
    """A virtual environment with pip, or without it beside a uv, and a home of its own."""

    folder: Path
    tool: str
    world: World
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def env(self) -> Path:
        return self.folder / "env"

    @property
    def python(self) -> Path:
        return self.env / "bin" / "python"

    def environ(self) -> dict[str, str]:
        """The settings of a user whose PyPI is the stand-in; the files of pip are read."""
        bin_folder = envs.ensure("uv") if self.tool == "uv" else Path("/usr/bin")
        home = self.folder / "home"
        environ = envs.clean_env(home, bin_folder, interpreters=[self.python])
        del environ["PIP_CONFIG_FILE"]
        settings = {
            "PIP_INDEX_URL": self.world.pypi.simple,
            "UV_DEFAULT_INDEX": self.world.pypi.simple,
            "METAWHEEL_CACHE": str(self.folder / "cache"),
            "METAWHEEL_INDEX": self.world.site.simple,
            "VIRTUAL_ENV": str(self.env),
        }
        return {**environ, **settings, **self.extra}

    def run(self, *command: str, status: int = 0, **more: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**self.environ(), **more},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == status, envs.describe(command, done)
        return done.stdout + done.stderr

    def metawheel(self, *arguments: str, status: int = 0, **more: str) -> str:
        return self.run(sys.executable, "-m", "metawheel", *arguments, status=status, **more)

    def plain(self, *arguments: str, status: int = 0, **more: str) -> str:
        """What a user types, without metawheel: pip or uv pip."""
        if self.tool == "uv":
            return self.run(str(envs.ensure("uv") / "uv"), "pip", *arguments, status=status, **more)
        return self.run(str(self.python), "-m", "pip", *arguments, status=status, **more)

    def installed(self) -> dict[str, str]:
        code = (
            "import json; from importlib.metadata import distributions as d;"
            "print(json.dumps({i.metadata['Name'].lower(): i.version for i in d()}))"
        )
        found: dict[str, str] = json.loads(self.run(str(self.python), "-I", "-c", code))
        return found

    def versions(self, *names: str) -> tuple[str | None, ...]:
        found = self.installed()
        return tuple(found.get(name) for name in names)


def make_place(folder: Path, tool: str, world: World) -> Place:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "env")], check=True)
    place = Place(folder, tool, world)
    if tool != "uv":
        (packages,) = (place.env / "lib").glob("python*/site-packages")
        (client,) = (envs.ensure(tool).parent / "lib").glob("python*/site-packages")
        for path in client.glob("pip*"):
            shutil.copytree(path, packages / path.name)
    return place


@pytest.fixture(params=TOOLS)
def place(request: pytest.FixtureRequest, world: World, tmp_path: Path) -> Place:
    return make_place(tmp_path, request.param, world)


def test_install_takes_the_build_for_this_machine(place: Place) -> None:
    said = place.metawheel("install", "torch", METAWHEEL_CUDA_DRIVER="580.65.06")
    assert place.versions("torch", "torch-cu130", "torchvision") == ("2.10.0+cu130", "2.10.0", None)
    reason, constraints, command, *_ = said.splitlines()  # all that is to be run is shown first
    assert reason.startswith("torch-cu130==2.10.0: driver 580.65.06 is 580 or newer")
    assert "torch==2.10.0+cu130" in constraints
    assert command.startswith("$ ")


def test_install_without_a_gpu_takes_the_cpu_build(place: Place) -> None:
    place.metawheel("install", "torch", "torchvision")
    assert place.versions("torch", "torchvision", "torch-cpu") == ("2.10.0+cpu", "0.25.0+cpu", "2.10.0")


def test_the_backend_can_be_given(place: Place) -> None:
    place.metawheel("install", "torch", "--backend", "cu126")
    assert place.versions("torch") == ("2.10.0+cu126",)


def test_the_backend_can_be_given_by_the_environment(place: Place) -> None:
    place.metawheel("install", "torch", METAWHEEL_BACKEND="cu128")
    assert place.versions("torch") == ("2.10.0+cu128",)


def test_cpu_can_be_given_on_a_machine_with_a_gpu(place: Place) -> None:
    place.metawheel("install", "--cpu", "torch", METAWHEEL_CUDA_DRIVER="580.65.06")
    assert place.versions("torch") == ("2.10.0+cpu",)


def test_the_release_can_be_given(place: Place) -> None:
    place.metawheel("install", "torch", "torchvision", "--version", "<2.9", METAWHEEL_CUDA_DRIVER="580.65.06")
    assert place.versions("torch", "torchvision") == ("2.8.0+cu128", "0.23.0+cu128")


def test_a_version_of_a_companion_decides_the_release(place: Place) -> None:
    place.metawheel("install", "torch", "torchvision==0.23.0")
    assert place.versions("torch", "torchvision") == ("2.8.0+cpu", "0.23.0+cpu")


def test_packages_that_need_torch_get_the_same_build(place: Place) -> None:
    place.metawheel("install", "lightning-like", "vision-like", METAWHEEL_CUDA_DRIVER="570.86.15")
    found = place.versions("torch", "torchvision", "lightning-like", "vision-like", "torch-cu128")
    assert found == ("2.10.0+cu128", "0.25.0+cu128", "1.0", "1.0", None)


def test_packages_beside_torch_get_the_same_build(place: Place) -> None:
    place.metawheel("install", "torch", "vision-like", "--backend", "cu126")
    assert place.versions("torch", "torchvision", "vision-like") == ("2.10.0+cu126", "0.25.0+cu126", "1.0")


def test_a_wrong_build_that_is_there_is_replaced(place: Place) -> None:
    place.plain("install", "torch==2.10.0")
    assert place.versions("torch") == ("2.10.0",)
    place.metawheel("install", "torch", "--backend", "cu128")
    assert place.versions("torch", "torch-cu128") == ("2.10.0+cu128", "2.10.0")
    place.metawheel("install", "torch", "torchvision", "--cpu")
    assert place.versions("torch", "torchvision", "torch-cu128", "torch-cpu") == (
        "2.10.0+cpu",
        "0.25.0+cpu",
        None,
        "2.10.0",
    )


def test_another_plugin_that_is_there_is_replaced(place: Place) -> None:
    place.metawheel("install", "jax", METAWHEEL_CUDA_DRIVER="570.86.15")
    names = ("jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda13-plugin", "jax-cuda12", "jax-cpu")
    assert place.versions(*names) == ("0.7.2", "0.7.2", "0.7.2", None, "0.7.2", None)
    place.metawheel("install", "jax", METAWHEEL_CUDA_DRIVER="580.65.06")
    assert place.versions(*names[:5]) == ("0.7.2", "0.7.2", None, "0.7.2", None)
    place.metawheel("install", "jax", "--cpu")
    assert place.versions(*names) == ("0.7.2", "0.7.2", None, None, None, "0.7.2")


def test_a_labelled_build_in_the_place_of_a_plain_one_is_replaced(place: Place, tmp_path: Path) -> None:
    other = WheelSpec("jaxlib-0.7.2+cuda12.cudnn89-py3-none-any.whl")
    with UpstreamServer([other]) as server:
        place.plain("install", server.url_of(other.path))
    assert place.versions("jaxlib") == ("0.7.2+cuda12.cudnn89",)
    place.metawheel("install", "jaxlib", "--cpu")
    assert place.versions("jaxlib") == ("0.7.2",)


def test_a_stranger_with_the_wrappers_names_is_never_taken(place: Place) -> None:
    for arguments in (("torch",), ("torch", "torchvision"), ("jax",), ("lightning-like",)):
        place.metawheel("install", *arguments, METAWHEEL_CUDA_DRIVER="570.86.15")
        assert "99.0" not in place.installed().values()
    served = [hit.path for hit in place.world.pypi.log.hits("wheel")]
    strangers = re.compile(rf"/({'|'.join(STRANGERS)})/")
    assert not [path for path in served if strangers.search(path)]


def test_an_altered_wrapper_is_refused(place: Place, tmp_path: Path) -> None:
    copy = shutil.copytree(place.world.site.root, tmp_path / "site")
    for path in (copy / "files").glob("torch_cpu-2.10.0-*.whl"):
        path.write_bytes(path.read_bytes() + b"\0")
    with SiteServer(copy) as altered:
        said = place.metawheel("install", "torch", "--cpu", METAWHEEL_INDEX=altered.simple, status=15)
    assert "hash" in said.lower()
    assert place.versions("torch", "torch-cpu") == (None, None)


def test_a_dry_run_shows_commands_that_can_be_pasted_and_runs_none(place: Place) -> None:
    said = place.metawheel("install", "torch", "torchvision", "--dry-run", "--backend", "cu128")
    assert place.versions("torch") == (None,)
    (command,) = re.findall(r"^\$ (.*)$", said, re.MULTILINE)
    place.run("sh", "-c", command)
    assert place.versions("torch", "torchvision") == ("2.10.0+cu128", "0.25.0+cu128")


def test_the_installers_own_options_are_passed_on(place: Place, tmp_path: Path) -> None:
    place.metawheel("install", "torch", "--cpu", "--", "--target", str(tmp_path / "elsewhere"))
    assert list((tmp_path / "elsewhere").glob("torch-2.10.0+cpu.dist-info"))
    assert place.versions("torch") == (None,)


def test_a_wrappers_own_name_is_refused_with_what_to_say_instead(place: Place) -> None:
    said = place.metawheel("install", "torch-cu128", status=9)
    assert "metawheel install torch --backend cu128" in said


def test_a_failed_installation_changes_nothing_and_says_so(place: Place) -> None:
    place.metawheel("install", "torch", "--cpu")
    said = place.metawheel("install", "torch", "no-such-package-anywhere", "--backend", "cu128", status=15)
    assert "nothing after it was run" in said
    assert place.versions("torch", "torch-cpu") == ("2.10.0+cpu", "2.10.0")


def test_json_is_all_that_stands_on_stdout(place: Place) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "metawheel", "install", "torch", "--cpu", "--json"],
        cwd=place.folder,
        env=place.environ(),
        capture_output=True,
        text=True,
        check=True,
        timeout=180,
    )
    data = json.loads(done.stdout)
    assert data["choices"][0]["wrapper"] == "torch-cpu"
    assert place.versions("torch") == ("2.10.0+cpu",)


def test_test_and_nightly_channels_are_indexes_of_their_own(place: Place, tmp_path: Path) -> None:
    """light-the-torch's --pytorch-channel: a family with `prereleases = true` reads that channel's pages."""
    python = f"cp3{sys.version_info[1]}"
    names = [
        f"torch-{version}+cpu-{python}-{python}-manylinux_2_17_{platform.machine()}.whl"
        for version in ("2.16.0.dev20261101", "2.15.0")
    ]
    paths = [f"whl/nightly/cpu/{name}" for name in names]
    with UpstreamServer(map(WheelSpec, paths)) as upstream:
        files = [
            replace(wheel(name), url=upstream.url_of(path), sha256=upstream.sha256(path))
            for name, path in zip(names, paths, strict=True)
        ]
        text = TORCH.replace('plain = "cpu"', 'plain = "cpu"\nprereleases = true').split("[[companion]]")[0]
        write_family(tmp_path / "packages" / "torch-nightly", text, files)
        metawheel("build", "-o", str(tmp_path / "site"), "--packages", str(tmp_path / "packages"), "--offline")
        with SiteServer(tmp_path / "site") as server:
            place.metawheel("install", "torch", METAWHEEL_INDEX=server.simple)
            assert place.versions("torch") == ("2.15.0+cpu",)
            place.metawheel("install", "torch", "--version", ">2.15.0.dev0,!=2.15.0", METAWHEEL_INDEX=server.simple)
            assert place.versions("torch") == ("2.16.0.dev20261101+cpu",)


PIP_CONF = """\
# my settings
[global]
timeout = 30
extra-index-url =
    https://company.invalid/simple
[install]
no-compile = true
"""


UV_TOML = """\
# mine
no-cache = false

[[index]]
name = "company"
url = "https://company.invalid/simple"
explicit = true
"""


def config_of(place: Place, scope: str = "venv") -> Path:
    if place.tool == "uv":
        return place.folder / "uv.toml" if scope == "venv" else place.folder / "home" / "config" / "uv" / "uv.toml"
    return place.env / "pip.conf" if scope == "venv" else place.folder / "home" / "config" / "pip" / "pip.conf"


@pytest.mark.parametrize("scope", ["venv", "user"])
def test_after_insert_plain_commands_take_the_right_build(place: Place, scope: str) -> None:
    place.metawheel("pip", "insert", "--scope", scope, METAWHEEL_CUDA_DRIVER="570.86.15")
    place.plain("install", "torch", "torchvision", "lightning-like")
    assert place.versions("torch", "torchvision", "lightning-like") == ("2.10.0+cu128", "0.25.0+cu128", "1.0")


def test_after_insert_what_other_packages_bring_in_is_right(place: Place) -> None:
    place.metawheel("pip", "insert", "--cpu")
    place.plain("install", "vision-like")
    assert place.versions("torch", "torchvision", "vision-like") == ("2.10.0+cpu", "0.25.0+cpu", "1.0")


def test_insert_takes_a_backend_and_inserting_again_replaces_it(place: Place) -> None:
    place.metawheel("pip", "insert", "--backend", "cu126")
    place.metawheel("pip", "insert", "--backend", "cu128")
    assert config_of(place).read_text(encoding="utf-8").count(place.world.site.url) == 1
    place.plain("install", "torch")
    assert place.versions("torch") == ("2.10.0+cu128",)
    place.metawheel("pip", "remove")
    assert not config_of(place).exists()


@pytest.mark.parametrize("scope", ["venv", "user"])
def test_remove_restores_what_was_there_byte_for_byte(place: Place, scope: str) -> None:
    config = config_of(place, scope)
    config.parent.mkdir(parents=True, exist_ok=True)
    text = PIP_CONF if place.tool == "pip" else UV_TOML
    before = text.replace("\n", "\r\n").encode() + b"\n# no newline at the end"
    config.write_bytes(before)
    config.chmod(0o600)
    place.metawheel("pip", "insert", "--scope", scope, "--cpu")
    assert config.read_bytes() != before
    assert config.stat().st_mode & 0o777 == 0o600
    assert place.metawheel("pip", "status").count(str(config)) == 1
    place.metawheel("pip", "remove", "--scope", scope)
    assert config.read_bytes() == before
    assert "nothing is put in" in place.metawheel("pip", "status")
    assert not (place.env / ".metawheel").exists()
    assert "nothing was put in" in place.metawheel("pip", "remove", "--scope", scope)


def test_insert_keeps_what_the_user_has_in_force(world: World, tmp_path: Path) -> None:
    """A setting of the environment hides the user's one of the same name: it has to say that again."""
    place = make_place(tmp_path, "pip", world)
    mine = FakePyPI()
    with mine:
        mine.add("company-only", "1.0", requires=["torch>=1.10"])
        user = config_of(place, "user")
        user.parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine.txt").write_text("lightning-like<1.0\n", encoding="utf-8")
        lines = (f"[install]\nextra-index-url = {mine.simple}", f"[global]\nconstraint = {tmp_path / 'mine.txt'}\n")
        user.write_text("\n".join(lines), encoding="utf-8")
        place.metawheel("pip", "insert", "--cpu")
        place.plain("install", "company-only")
        assert place.versions("torch", "company-only") == ("2.10.0+cpu", "1.0")
        assert "lightning-like" in place.plain("install", "lightning-like", status=1)


def test_an_edited_file_loses_our_lines_only(place: Place) -> None:
    config = config_of(place)
    place.metawheel("pip", "insert", "--cpu")
    addition = "[download]\ntimeout = 7\n" if place.tool == "pip" else "\n[pip]\nno-build = true\n"
    config.write_text(config.read_text(encoding="utf-8") + addition, encoding="utf-8")
    place.metawheel("pip", "remove")
    assert config.read_text(encoding="utf-8") == addition


def test_what_hides_the_settings_is_told(world: World, tmp_path: Path) -> None:
    place = make_place(tmp_path, "pip", world)
    said = place.metawheel("pip", "insert", "--cpu", PIP_EXTRA_INDEX_URL="https://other.invalid/simple")
    assert "the variable PIP_EXTRA_INDEX_URL" in said
    assert "not heeded" in place.metawheel("pip", "status", PIP_CONSTRAINT="mine.txt")
    assert "not heeded" not in place.metawheel("pip", "status")


def test_constraints_of_a_user_hold_for_every_python(world: World, tmp_path: Path) -> None:
    place = make_place(tmp_path, "pip", world)
    place.metawheel("pip", "insert", "--scope", "user", "--cpu")
    said = place.metawheel("pip", "status")
    assert re.search(r'torch==2\.10\.0\+cpu ; python_version == "3\.10" or', said)
    assert re.search(r'torch==2\.8\.0\+cpu ; python_version == "3\.9"$', said, re.MULTILINE)
    assert re.search(r'torch==2\.4\.1\+cpu ; python_version == "3\.8"$', said, re.MULTILINE)


def test_pips_own_word_for_where_its_files_are(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = make_place(tmp_path, "pip", world)
    said = place.plain("config", "debug")
    monkeypatch.setenv("HOME", place.environ()["HOME"])
    python = interpreter(prefix=str(place.env))
    for where in (place_of("pip", "user", python, place.environ()), place_of("pip", "venv", python, place.environ())):
        assert f"{where.config}, exists" in said


def test_a_plugin_cannot_be_put_into_settings(place: Place) -> None:
    said = place.metawheel("pip", "insert", "jax", METAWHEEL_CUDA_DRIVER="570.86.15", status=9)
    assert "jax-cuda12-plugin" in said
    assert "metawheel install" in said
    assert not config_of(place).exists()


def test_uvs_settings_of_a_project_are_not_hidden(world: World, tmp_path: Path) -> None:
    place = make_place(tmp_path, "uv", world)
    (tmp_path / "pyproject.toml").write_text("[tool.uv]\nno-cache = false\n", encoding="utf-8")
    said = place.metawheel("pip", "insert", "--cpu", status=8)
    assert "would hide [tool.uv]" in said
    assert not (tmp_path / "uv.toml").exists()


@pytest.mark.parametrize("tool", ["pip-23", "pip"])
def test_old_and_new_pip(world: World, tmp_path: Path, tool: str) -> None:
    place = make_place(tmp_path, tool, world)
    place.metawheel("install", "torch", "torchvision", "--backend", "cu128")
    assert place.versions("torch", "torchvision") == ("2.10.0+cu128", "0.25.0+cu128")


def test_detect_reads_the_index_and_every_kind_of_wrapper_on_it(place: Place) -> None:
    data = json.loads(place.metawheel("detect", "--json", "--explain", METAWHEEL_CUDA_DRIVER="570.86.15"))
    assert {kind: choice["wrapper"] for kind, choice in data["choices"].items()} == {
        "jax-*": "jax-cuda12",
        "jaxlib-*": "jaxlib-cuda12",
        "torch-*": "torch-cu128",
    }
    (cu130,) = (item for item in data["choices"]["torch-*"]["backends"] if item["backend"] == "cu130")
    assert cu130["reason"] == "needs NVIDIA driver 580 or newer; this is 570.86.15"


def test_wrappers_of_the_direct_flavour_will_do(place: Place, tmp_path: Path) -> None:
    """uv takes an address in a dependency only if it is asked for as well."""
    with UpstreamServer(metadata=True) as upstream:
        wrappers = ["torch-cpu==2.10.0", "torch-cu128==2.10.0"]
        site = build_stand_in_site(tmp_path / "direct", upstream, wrappers, flavour="direct")
        with SiteServer(site) as server:
            for backend in ("cpu", "cu128"):
                place.metawheel(
                    "install", "torch", "torchvision", f"--backend={backend}", METAWHEEL_INDEX=server.simple
                )
                assert place.versions("torch", "torchvision") == (f"2.10.0+{backend}", f"0.25.0+{backend}")


def test_an_index_of_uploaded_wrappers_will_do(place: Place, tmp_path: Path) -> None:
    """Without a manifest the simple pages and the wrappers' METADATA say enough."""
    site = shutil.copytree(place.world.site.root, tmp_path / "site")
    (site / "metawheel.json").unlink()
    with SiteServer(site) as server:
        place.metawheel("install", "torch", "torchvision", "--backend", "cu126", METAWHEEL_INDEX=server.simple)
        assert place.versions("torch", "torchvision", "torch-cu126") == ("2.10.0+cu126", "0.25.0+cu126", "2.10.0")
        place.metawheel("pip", "insert", "--cpu", METAWHEEL_INDEX=server.simple)
        assert server.view("cpu") in place.metawheel("pip", "status")


def test_uv_is_given_no_index_that_has_all_builds(world: World, tmp_path: Path) -> None:
    place = make_place(tmp_path, "uv", world)
    (tmp_path / "site").mkdir()
    for part in ("simple", "files"):
        shutil.copytree(world.site.root / part, tmp_path / "site" / part)
    with SiteServer(tmp_path / "site") as server:
        said = place.metawheel("pip", "insert", "--cpu", METAWHEEL_INDEX=server.simple, status=9)
    assert "uv needs an index of one" in said
    assert not config_of(place).exists()


def functions() -> Mapping[str, str]:
    """The table in docs/detect.md: a function of the two tools, and the test that runs its counterpart."""
    row = re.compile(r"^\| (?:pytorch-pip-shim|light-the-torch|uv) \| (.*?) \|.*\| `(test_\w+)` \|$", re.MULTILINE)
    return dict(row.findall(DOCS.read_text(encoding="utf-8")))


def test_every_function_of_the_table_is_run_by_a_test_here() -> None:
    assert len(functions()) == 19
    for name in functions().values():
        assert name in globals(), name
