"""Forms that public projects use are read as their tools read them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from metawheel.doctor import Options, Report, examine
from metawheel.doctor.fixes import apply
from metawheel.doctor.known import backend_named

INDEX = "https://download.pytorch.org/whl/{}"
CPU, CUDA = INDEX.format("cpu"), INDEX.format("cu128")
UV = f"""
[[tool.uv.index]]
name = "cpu"
url = "{CPU}"
explicit = true
[[tool.uv.index]]
name = "cuda"
url = "{CUDA}"
explicit = true
"""
PROJECT = '[project]\nname = "x"\nversion = "0"\nrequires-python = ">=3.12,<3.13"\n'
SOURCE = '[tool.uv.sources]\ntorch = { index = "cpu", marker = "sys_platform != \'darwin\'" }\n'
POETRY = '[tool.poetry]\nname = "x"\nversion = "0"\n[tool.poetry.dependencies]\n'


def report(folder: Path, files: Mapping[str, str], *targets: str, backend: str | None = None) -> Report:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return examine(folder, Options(targets=targets, backend=backend_named(backend)))


def codes(folder: Path, files: Mapping[str, str], *targets: str, backend: str | None = None) -> list[str]:
    return [finding.code for finding in report(folder, files, *targets, backend=backend).findings]


@pytest.mark.parametrize("python", [">=3.10.12", "==3.11.5", "==3.7.*", ">=3.6,<3.7"])
def test_a_project_for_some_releases_of_a_python_only_is_examined(python: str, tmp_path: Path) -> None:
    lines = '["torch==1.13.1", "torchvision==0.15.1"]'
    text = f'[project]\nname = "x"\nrequires-python = "{python}"\ndependencies = {lines}\n'

    assert codes(tmp_path, {"pyproject.toml": text}) == ["MW106"]


def test_a_pipfile_for_one_release_of_python_is_examined(tmp_path: Path) -> None:
    text = '[packages]\ntorch = "==1.13.1"\ntorchvision = "==0.15.1"\n[requires]\npython_version = "3.8.12"\n'

    assert codes(tmp_path, {"Pipfile": text}) == ["MW106"]


def test_poetrys_python_key_keeps_the_versions_of_two_pythons_apart(tmp_path: Path) -> None:
    lines = '[{version = "1.13.1", python = "<3.11"}, {version = "2.0.1", python = ">=3.11"}]'

    assert codes(tmp_path, {"pyproject.toml": f'{POETRY}python = ">=3.8,<3.12"\ntorch = {lines}\n'}) == []


def test_poetrys_platform_key_holds_for_the_source_too(tmp_path: Path) -> None:
    line = '{version = "^2.5", source = "pypi", platform = "darwin", markers = "platform_machine == \'x86_64\'"}'
    rest = "{version = \"^2.5\", markers = \"sys_platform != 'darwin' or platform_machine != 'x86_64'\"}"

    assert codes(tmp_path, {"pyproject.toml": f'{POETRY}python = "^3.11"\ntorch = [{line}, {rest}]\n'}) == []


def test_pipenvs_names_of_variables_are_markers(tmp_path: Path) -> None:
    text = (
        f'[[source]]\nname = "pypi"\nurl = "https://pypi.example/simple"\n[[source]]\nname = "cuda"\nurl = "{CUDA}"\n'
        '[packages]\ntorch = {version = "==2.9.1+cu128", index = "cuda", sys_platform = "== \'linux\'"}\n'
    )

    assert codes(tmp_path, {"Pipfile": text}) == []


def test_uvs_environments_may_be_one_string(tmp_path: Path) -> None:
    uv = "[tool.uv]\nenvironments = \"sys_platform == 'linux'\"\n"
    found = report(tmp_path, {"pyproject.toml": f'{PROJECT}dependencies = ["torch==2.9.1"]\n{uv}'})

    assert {target.name for target in found.targets} == {"linux-x86_64"}


@pytest.mark.parametrize(
    "table",
    [
        f'[tool.pixi.pypi-options]\nextra-index-urls = ["{CUDA}"]\n',
        f'[tool.pixi.feature.gpu.pypi-options]\nindex-url = "{CUDA}"\n',
        f'[tool.pixi.pypi-options]\nfind-links = [{{ url = "{CUDA}/torch_stable.html" }}]\n',
        f'[[tool.rye.sources]]\nname = "cuda"\nurl = "{CUDA}"\n',
        f'[[tool.rye.sources]]\nname = "cuda"\nurl = "{CUDA}/torch_stable.html"\ntype = "find-links"\n',
    ],
)
def test_the_indexes_of_pixi_and_rye_are_the_projects(table: str, tmp_path: Path) -> None:
    text = f'{PROJECT}dependencies = ["torch==2.2.2+cu128"]\n{table}'

    assert codes(tmp_path, {"pyproject.toml": text}, "linux-x86_64") == []


@pytest.mark.parametrize(
    "first", ["--pre", "--index-url https://pypi.example/simple", "-i https://pypi.example/simple"]
)
def test_all_options_of_a_line_are_read(first: str, tmp_path: Path) -> None:
    lines = f"{first} --extra-index-url {CUDA}\ntorch==2.9.1\n"

    assert codes(tmp_path, {"requirements.txt": lines}, "linux-x86_64") == ["MW201"]


def test_an_index_beside_another_option_is_named(tmp_path: Path) -> None:
    lines = f"--pre --extra-index-url {CUDA}\ntorch==2.9.1+cu128\n"

    assert codes(tmp_path, {"requirements.txt": lines}, "linux-x86_64") == []


@pytest.mark.parametrize("line", [".", ".[test]", "libs/foo.zip", "dist/foo-1.0.tar.gz"])
def test_a_path_is_a_requirement_to_pip(line: str, tmp_path: Path) -> None:
    assert codes(tmp_path, {"requirements.txt": f"torch==2.9.1\n{line}\n"}) == []


def test_an_index_of_others_holds_no_labelled_builds_of_torch(tmp_path: Path) -> None:
    lines = "--extra-index-url https://flashinfer.ai/whl/\ntorch==2.13.0\n"

    assert codes(tmp_path, {"requirements.txt": lines}) == []


def test_arbitrary_equality_without_a_label_is_not_changed_by_itself(tmp_path: Path) -> None:
    lines = "-f https://download.pytorch.org/whl/torch_stable.html\ntorch===1.7.1\n"
    found = report(tmp_path, {"requirements.txt": lines})

    assert [finding.code for finding in found.findings] == ["MW202"]
    assert apply(tmp_path, found.findings) == ()


@pytest.mark.parametrize(
    "files",
    [
        {"requirements.txt": f"--extra-index-url {CUDA}\n-i https://pypi.example/simple\ntorch==2.9.1\n"},
        {"requirements.txt": f"--extra-index-url {CUDA}\n-r base.txt\n", "base.txt": f"-i {CPU}\ntorch==2.9.1\n"},
        {"requirements.txt": f"torch==2.9.1 --index-url {CUDA}\n"},
        {"requirements.txt": f"torch==2.9.1 --extra-index-url={CUDA}\n"},
    ],
)
def test_an_index_that_pip_drops_is_found_and_brings_no_build(files: Mapping[str, str], tmp_path: Path) -> None:
    assert codes(tmp_path, files, "linux-x86_64") == ["MW310"]


@pytest.mark.parametrize(
    "lines",
    [
        f"--extra-index-url {CUDA} -i https://pypi.example/simple",
        f"-i https://pypi.example/simple\n--extra-index-url {CUDA}",
        f"--extra-index-url {CUDA}\n-i https://pypi.example/simple\n--extra-index-url {CUDA}",
        f"--extra-index-url {CUDA}\n-i {CUDA}",
    ],
)
def test_an_index_that_pip_keeps_is_no_fault(lines: str, tmp_path: Path) -> None:
    text = f"{lines}\ntorch==2.9.1+cu128\n"

    assert codes(tmp_path, {"requirements.txt": text}, "linux-x86_64") == []


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8"])
def test_a_requirements_file_is_read_by_its_byte_order_mark_as_pip_does(encoding: str, tmp_path: Path) -> None:
    mark = "" if encoding == "utf-16" else "\ufeff"  # that encoding writes it by itself
    (tmp_path / "requirements.txt").write_bytes(f"{mark}torch==2.9.1\r\ntorchvision==0.15.1\r\n".encode(encoding))

    assert codes(tmp_path, {}) == ["MW106"]


def test_plain_companions_on_macos_are_no_fault_of_theirs(tmp_path: Path) -> None:
    lines = f"--extra-index-url {CUDA}\ntorch==2.9.1+cu128\ntorchvision\n"

    assert codes(tmp_path, {"requirements.txt": lines}) == ["MW102"]


@pytest.mark.parametrize("lines", ["torch==2.11.0\ntorchvision==0.26.0\n", "torch==2.9.1\ntorchvision\n"])
def test_companions_on_arm_are_of_torchs_backend(lines: str, tmp_path: Path) -> None:
    assert codes(tmp_path, {"requirements.txt": lines}, "linux-aarch64") == []


@pytest.mark.parametrize("label", ["rocm6.4", "xpu", "cu118"])
def test_a_build_for_another_accelerator_than_the_machines_have_is_found(label: str, tmp_path: Path) -> None:
    lines = f"--extra-index-url {INDEX.format(label)}\ntorch==2.9.1+{label}\n"

    assert codes(tmp_path, {"requirements.txt": lines}, "linux-x86_64", backend="cu128") == ["MW112"]


@pytest.mark.parametrize("line", ["torch==2.9.1", "torch==2.9.1+cu128 --hash=sha256:00"])
def test_a_build_that_may_be_for_what_the_machines_have_is_no_fault(line: str, tmp_path: Path) -> None:
    files = {"requirements.txt": f"--index-url {CUDA}\n{line}\n"}

    assert codes(tmp_path, files, "linux-x86_64", backend="cu128") == []


@pytest.mark.parametrize(
    "table",
    [
        '[[tool.uv.index]]\nname = "jax"\nurl = "https://x.example/jax.html"\nformat = "flat"\nexplicit = true\n',
        '[[tool.poetry.source]]\nname = "jax"\nurl = "https://x.example/jax.html"\npriority = "explicit"\n',
    ],
)
def test_a_page_of_links_that_its_tool_reads_as_one_is_no_fault(table: str, tmp_path: Path) -> None:
    text = f'{PROJECT}dependencies = ["jaxlib==0.4.23"]\n{table}'

    assert codes(tmp_path, {"pyproject.toml": text}) == []


@pytest.mark.parametrize(
    "files",
    [
        {
            "pyproject.toml": f'{PROJECT}[tool.uv.workspace]\nmembers = ["packages/*"]\n{SOURCE}{UV}',
            "packages/a/pyproject.toml": '[project]\nname = "a"\nversion = "0"\ndependencies = ["torch>=2.6"]\n',
        },
        {
            "pyproject.toml": f'{PROJECT}dynamic = ["dependencies"]\n{SOURCE}{UV}',
            "requirements.txt": "torch>=2.6\n",
        },
        {"pyproject.toml": f'[build-system]\nrequires = ["torch>=2.6"]\n{PROJECT}{SOURCE}{UV}'},
        {"pyproject.toml": f'{PROJECT}[tool.uv.extra-build-dependencies]\nflash-attn = ["torch"]\n{SOURCE}{UV}'},
    ],
)
def test_a_source_that_uv_applies_is_no_fault(files: Mapping[str, str], tmp_path: Path) -> None:
    assert codes(tmp_path, files) == []


LOCK = f"""version = 1
revision = 3
requires-python = "==3.12.*"

[[package]]
name = "a"
version = "0"
source = {{ editable = "packages/a" }}
dependencies = [
    {{ name = "torch", marker = "sys_platform != 'darwin'" }},
]

[[package]]
name = "torch"
version = "2.9.1"
source = {{ registry = "{CPU}" }}
wheels = [
    {{ url = "https://x.example/torch-2.9.1-py3-none-any.whl", hash = "sha256:00" }},
]

[[package]]
name = "x"
version = "0"
source = {{ virtual = "." }}
dependencies = [
    {{ name = "a" }},
]
"""


def test_an_index_that_a_member_of_the_workspace_names_is_the_projects_own(tmp_path: Path) -> None:
    member = f'[project]\nname = "a"\nversion = "0"\ndependencies = ["torch"]\n{SOURCE}{UV}'
    root = f'{PROJECT}dependencies = ["a"]\n[tool.uv.workspace]\nmembers = ["packages/*"]\n'

    files = {"pyproject.toml": root, "packages/a/pyproject.toml": member, "uv.lock": LOCK}
    assert "MW309" not in codes(tmp_path, files)


@pytest.mark.parametrize("pattern", ["", "/packages/*", "packages/a**"])
def test_a_member_that_is_no_pattern_of_paths_is_passed_over(pattern: str, tmp_path: Path) -> None:
    text = f'{PROJECT}dependencies = ["torch"]\n[tool.uv.workspace]\nmembers = ["{pattern}"]\n'

    assert codes(tmp_path, {"pyproject.toml": text}) == []


def test_a_source_that_sends_macos_to_a_folder_without_wheels_for_it_is_found(tmp_path: Path) -> None:
    text = f'{PROJECT}dependencies = ["torch==2.9.1"]\n[tool.uv.sources]\ntorch = {{ index = "cuda" }}\n{UV}'

    assert codes(tmp_path, {"pyproject.toml": text}, "macos-arm64") == ["MW101"]
    assert codes(tmp_path, {"pyproject.toml": text}, "linux-x86_64") == []


def test_a_labelled_pin_is_split_with_its_source(tmp_path: Path) -> None:
    text = f'{PROJECT}dependencies = ["torch==2.9.1+cu128"]\n[tool.uv.sources]\ntorch = {{ index = "cuda" }}\n{UV}'
    (found,) = report(tmp_path, {"pyproject.toml": text}).findings

    assert {edit.place.line for edit in found.fix.edits} == {5, 7}
    assert "\"torch==2.9.1 ; sys_platform == 'darwin'\"" in found.fix.paste


def test_a_fix_changes_the_source_of_the_extra_that_is_meant(tmp_path: Path) -> None:
    text = (
        f'{PROJECT}[project.optional-dependencies]\ngpu = ["torch==2.8.0+cu128"]\ncpu = ["torch==2.8.0"]\n'
        "[tool.uv.sources]\n"
        'torch = [\n    { index = "cpu", extra = "cpu" },\n    { index = "cuda", extra = "gpu" },\n]\n'
        f'[tool.uv]\nconflicts = [[{{ extra = "cpu" }}, {{ extra = "gpu" }}]]\n{UV}'
    )
    (found,) = report(tmp_path, {"pyproject.toml": text}).findings

    assert 'index = "cpu"' not in found.fix.paste
    assert 'index = "cuda"' in found.fix.paste


def test_a_group_holds_what_it_includes(tmp_path: Path) -> None:
    groups = '[dependency-groups]\ntorch = ["torch==2.9.1"]\ngpu = [{include-group = "torch"}, "torchvision==0.15.1"]\n'

    assert codes(tmp_path, {"pyproject.toml": f"{PROJECT}{groups}"}) == ["MW106"]


def test_groups_that_nobody_asks_for_together_are_not_installed_together(tmp_path: Path) -> None:
    wheel = 'wheels = [\n    {{ url = "https://x.example/{0}-1-py3-none-any.whl", hash = "sha256:00" }},\n]\n'
    packages = "".join(
        f'\n[[package]]\nname = "{name}"\nversion = "1"\nsource = {{ registry = "https://x.example" }}\n'
        + wheel.format(name.replace("-", "_"))
        for name in ("onnxruntime", "onnxruntime-gpu")
    )
    root = (
        '\n[[package]]\nname = "x"\nversion = "0"\nsource = { virtual = "." }\n\n[package.dev-dependencies]\n'
        'cpu = [\n    { name = "onnxruntime" },\n]\ngpu = [\n    { name = "onnxruntime-gpu" },\n]\n'
    )

    assert codes(tmp_path, {"uv.lock": f'version = 1\nrequires-python = "==3.12.*"\n{packages}{root}'}) == []


def both_runtimes(groups: tuple[str, str], files: str) -> str:
    """Packages of a lock that install one module, each for a group."""
    return "".join(
        f'[[package]]\nname = "{name}"\nversion = "1"\ngroups = ["{group}"]\n{files.format(name.replace("-", "_"))}'
        for name, group in zip(("onnxruntime", "onnxruntime-gpu"), groups, strict=True)
    )


WHEEL = 'files = [\n    {{file = "{0}-1-py3-none-any.whl", hash = "sha256:00"}},\n]\n\n'
POETRY_LOCK = '[metadata]\nlock-version = "2.1"\npython-versions = ">=3.12"\n'


@pytest.mark.parametrize(("optional", "found"), [("true", []), ("false", ["MW111"])])
def test_poetrys_optional_groups_are_not_installed_together(optional: str, found: list[str], tmp_path: Path) -> None:
    names = {"cpu": "onnxruntime", "gpu": "onnxruntime-gpu"}
    groups = "".join(
        f'[tool.poetry.group.{group}]\noptional = {optional}\n[tool.poetry.group.{group}.dependencies]\n{name} = "1"\n'
        for group, name in names.items()
    )
    lock = both_runtimes(("cpu", "gpu"), WHEEL) + POETRY_LOCK

    assert codes(tmp_path, {"pyproject.toml": f'{POETRY}python = ">=3.12"\n{groups}', "poetry.lock": lock}) == found


def test_poetrys_optional_group_is_installed_beside_the_project(tmp_path: Path) -> None:
    groups = '[tool.poetry.group.gpu]\noptional = true\n[tool.poetry.group.gpu.dependencies]\nonnxruntime-gpu = "1"\n'
    text = f'{POETRY}python = ">=3.12"\nonnxruntime = "1"\n{groups}'
    lock = both_runtimes(("main", "gpu"), WHEEL) + POETRY_LOCK
    (found,) = report(tmp_path, {"pyproject.toml": text, "poetry.lock": lock}).findings

    assert found.code == "MW111"
    assert all(target.endswith("group gpu") for target in found.targets)


@pytest.mark.parametrize(
    ("table", "found"), [("[project.optional-dependencies]", []), ("[dependency-groups]", ["MW111"])]
)
def test_extras_in_a_pdm_lock_are_not_installed_together_but_its_groups_are(
    table: str, found: list[str], tmp_path: Path
) -> None:
    text = f'{PROJECT}{table}\ncpu = ["onnxruntime"]\ngpu = ["onnxruntime-gpu"]\n'
    lock = both_runtimes(("cpu", "gpu"), WHEEL)

    assert codes(tmp_path, {"pyproject.toml": text, "pdm.lock": lock}) == found


def test_a_line_for_all_platforms_closes_the_holes_of_an_extra(tmp_path: Path) -> None:
    extra = "gpu = [\"torch==2.6.0 ; sys_platform == 'linux'\", \"torch==2.6.0 ; sys_platform == 'win32'\"]"
    text = f'{PROJECT}dependencies = ["torch==2.6.0"]\n[project.optional-dependencies]\n{extra}\n'

    assert codes(tmp_path, {"pyproject.toml": text}) == []


def test_a_lock_with_what_overrides_ask_for_is_up_to_date(tmp_path: Path) -> None:
    text = f'{PROJECT}dependencies = ["torch==2.9.0"]\n[tool.uv]\noverride-dependencies = ["torch==2.9.1"]\n'

    assert "MW402" not in codes(tmp_path, {"pyproject.toml": text, "uv.lock": LOCK})


def test_the_hashes_of_an_old_pdm_lock_stand_at_its_end(tmp_path: Path) -> None:
    text = (
        '[[package]]\nname = "torch"\nversion = "1.13.1"\n\n[metadata]\nlock_version = "4.0"\n\n[metadata.files]\n'
        '"torch 1.13.1" = [\n    {url = "https://x.example/torch-1.13.1-py3-none-any.whl", hash = "sha256:00"},\n]\n'
    )

    assert codes(tmp_path, {"pdm.lock": text}) == []


def test_the_hashes_of_a_poetry_lock_of_before_1_0_stand_at_its_end(tmp_path: Path) -> None:
    text = (
        '[[package]]\nname = "torch"\nversion = "1.3.1"\noptional = false\npython-versions = "*"\n\n'
        '[metadata]\npython-versions = "^3.7"\n\n[metadata.hashes]\ntorch = ["00"]\n'
    )

    assert codes(tmp_path, {"poetry.lock": text}) == []


@pytest.mark.parametrize("name", ["pyproject.toml", "Pipfile"])
def test_arbitrary_equality_of_what_is_no_version_pins_nothing(name: str, tmp_path: Path) -> None:
    text = f'{POETRY}torch = "===foo"\n' if name == "pyproject.toml" else '[packages]\ntorch = "===foo"\n'

    assert report(tmp_path, {name: text}).files == (name,)
