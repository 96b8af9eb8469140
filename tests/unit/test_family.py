"""Families: what a family.toml may say, and which of upstream's files belong to it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import pytest
from packaging.version import Version

from metawheel.errors import FamilyError, UnknownName
from metawheel.family import Family, WrapperRule, find_packages, load_families, load_family
from metawheel.model import UpstreamFile
from tests.fakes.pages import CANONICAL, ROOT, SNAPSHOT, metawheel, page, state, write_family, write_pages


def changed(tmp_path: Path, old: str, new: str) -> Path:
    """A family's folder with one part of its family.toml replaced."""
    folder = write_family(tmp_path / "packages", vision=True)
    text = (folder / "family.toml").read_text()
    assert old in text
    (folder / "family.toml").write_text(text.replace(old, new, 1))
    return folder


def listed(path: str, source: str = "up") -> UpstreamFile:
    return UpstreamFile(filename=path.rpartition("/")[2], source=source, url=CANONICAL + path.replace("+", "%2B"))


def test_every_family_of_the_repository_can_be_used() -> None:
    families = {family.name: family for family in load_families(ROOT / "packages")}
    assert {"torch-cpu", "torch-cuda", "jaxlib-select"} <= set(families)
    assert all(family.headline.startswith(family.project) for family in families.values())


def test_the_families_are_found_from_any_folder_below(tmp_path: Path) -> None:
    write_family(tmp_path / "packages")
    deep = tmp_path / "some" / "where"
    deep.mkdir(parents=True)
    assert find_packages(deep) == tmp_path / "packages"
    with pytest.raises(UnknownName, match="--packages"):
        find_packages(Path(tmp_path.anchor) / "nowhere")


WRONG = {
    "unknown key": ('summary = "PyTorch"', 'sumary = "PyTorch"', "sumary"),
    "unknown key of a source": ('kind = "simple"', 'knid = "simple"\nkind = "simple"', "source.0.knid"),
    "unknown key of a wrapper": ("view =", "veiw =", "wrapper.0.veiw"),
    "missing key": ('plain = "cpu"', "", "plain"),
    "wrong type": ('plain = "cpu"', "plain = 1", "plain"),
    "number for text in a list": ('fallback = ["darwin"]', "fallback = [1]", "wrapper.0.fallback"),
    "text for a list": ('fallback = ["darwin"]', 'fallback = "darwin"', "wrapper.0.fallback"),
    "unknown system": ('fallback = ["darwin"]', 'fallback = ["macos"]', "wrapper.0.fallback"),
    "bad regular expression": (r"'cu\d+'", r"'cu(\d+'", "wrapper.0.backend"),
    "bad specifier": ('releases = ">=1.8"', 'releases = "from 1.8"', "releases"),
    "name not normalized": ('project = "torch"', 'project = "Torch_X"', "torch-x"),
    "kind unknown": ('kind = "simple"', 'kind = "complex"', "source.0.kind"),
    "no place for the project": ("whl/{project}/", "whl/", "{project}"),
    "no url": ('url = "https://upstream.example/whl/{project}/"', "", "url"),
    "a folder without path": ('kind = "simple"', 'kind = "folder"', "path"),
    "no source": ('projects = ["torch", "torchvision"]', "projects = []", "source.0.projects"),
    "two ways to a name": ("view =", 'newest-of = "torch-{backend}"\nview =', "newest-of"),
    "newest of nothing": (r"backend = 'cu\d+'", 'newest-of = "torch-gpu"', "torch-gpu"),
    "adds no companion": ("view =", 'adds = ["torchtext"]\nview =', "torchtext"),
    "a project that no source lists": ('projects = ["torch", "torchvision"]', 'projects = ["torchvision"]', "'torch'"),
    "a companion that no source lists": (
        'projects = ["torch", "torchvision"]',
        'projects = ["torch"]',
        "'torchvision'",
    ),
    "two sources of one name": (
        "[[source]]",
        '[[source]]\nname = "up"\nkind = "pypi"\nprojects = ["torch"]\n\n[[source]]',
        "two sources",
    ),
    "a plugin's requirement that is none": (
        "[[companion]]",
        '[[plugin]]\nbackend = "cu128"\nrequires = ["torch (what)"]\n\n[[companion]]',
        "torch (what)",
    ),
    "bad prefix": ('plain = "cpu"', 'plain = "cpu"\nprefix = "Acme_"', "Acme_"),
    "not TOML": ('plain = "cpu"', 'plain = "cpu', "TOML"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_fault_in_a_family_is_named_with_file_and_key(fault: str, tmp_path: Path) -> None:
    old, new, named = WRONG[fault]
    folder = changed(tmp_path, old, new)
    with pytest.raises(FamilyError) as caught:
        load_family(folder)
    assert str(folder / "family.toml") in str(caught.value)
    assert named in str(caught.value)


@pytest.mark.parametrize("name", ["torch-{cuda}", "torch-{", "torch-{backend}-{}"])
def test_a_wrapper_name_with_a_group_that_its_pattern_lacks_is_an_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(FamilyError, match="wrapper"):
        load_family(changed(tmp_path, 'name = "torch-{backend}"', f'name = "{name}"'))


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    folder = changed(tmp_path, 'plain = "cpu"', "plain = 1\nsumary = 2")
    with pytest.raises(FamilyError) as caught:
        load_family(folder)
    assert "'plain'" in str(caught.value)
    assert "'sumary'" in str(caught.value)


def test_a_family_that_is_no_text_is_named(tmp_path: Path) -> None:
    folder = write_family(tmp_path / "packages")
    (folder / "family.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(FamilyError) as caught:
        load_family(folder)
    assert str(folder) in str(caught.value)


def test_an_unknown_family_is_named_beside_those_there_are(tmp_path: Path) -> None:
    write_family(tmp_path / "packages")
    with pytest.raises(UnknownName) as caught:
        load_families(tmp_path / "packages", ["torch-cuda", "torch-cdua"])
    assert "'torch-cdua'" in str(caught.value)
    assert "torch-cuda" in str(caught.value)


def test_a_folder_without_families_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownName) as caught:
        load_families(tmp_path / "packages")
    assert str(tmp_path) in str(caught.value)


@pytest.fixture
def cuda(tmp_path: Path) -> Family:
    return load_family(write_family(tmp_path / "packages"))


@pytest.mark.parametrize(
    ("path", "backend"),
    [
        ("cu116/torch-1.13.1+cu116-cp311-cp311-linux_x86_64.whl", "cu116"),
        ("cu118/torch-1.13.1+cu116-cp311-cp311-linux_x86_64.whl", "cu116"),
        ("cu102/torch-1.9.0-cp38-cp38-linux_x86_64.whl", "cu102"),
        ("torch-2.0.1-cp38-cp38-manylinux2014_aarch64.whl", "cpu"),
        ("cpu/torch-2.0.1-cp310-none-macosx_11_0_arm64.whl", "cpu"),
        ("cu121_full/torch-2.1.0+cu121-cp310-cp310-linux_x86_64.whl", "cu121"),
        ("rocm6.2.4/torch-2.6.0+rocm6.2.4-cp310-cp310-linux_x86_64.whl", "rocm6.2.4"),
    ],
)
def test_a_backend_is_the_local_label_or_for_a_plain_build_its_folder(cuda: Family, path: str, backend: str) -> None:
    assert cuda.backend(listed(path)) == backend


@pytest.mark.parametrize(
    ("path", "system", "wanted"),
    [
        ("cu199/torch-3.0.0+cu199-cp311-cp311-linux_x86_64.whl", "linux", True),
        ("cpu/torch-3.0.0+cpu-cp311-cp311-linux_x86_64.whl", "linux", False),
        ("cpu/torch-3.0.0-cp311-none-macosx_11_0_arm64.whl", "darwin", True),
        ("cpu/torch-3.0.0-cp311-cp311-manylinux2014_aarch64.whl", "linux", False),
        ("cu118/torch-1.7.1+cu118-cp38-cp38-linux_x86_64.whl", "linux", False),
        ("cu118/torch-3.0.0rc1+cu118-cp311-cp311-linux_x86_64.whl", "linux", False),
        ("cu118/torch-3.0.0.dev20260101+cu118-cp311-cp311-linux_x86_64.whl", "linux", False),
        ("cu118/torch-2.0.0.post1+cu118-cp311-cp311-linux_x86_64.whl", "linux", True),
        ("xpu/torch-3.0.0+xpu-cp311-cp311-linux_x86_64.whl", "linux", False),
        ("cu117_pypi_cudnn/torch-1.13.1+cu117.with.pypi.cudnn-cp311-cp311-linux_x86_64.whl", "linux", False),
    ],
)
def test_a_family_takes_stable_builds_of_its_backends_and_plain_ones_where_it_falls_back(
    cuda: Family, path: str, system: str, wanted: bool
) -> None:
    assert cuda.wants(listed(path), {system}) == wanted


def test_prereleases_belong_to_a_family_that_asks_for_them(tmp_path: Path) -> None:
    family = load_family(changed(tmp_path, 'plain = "cpu"', 'plain = "cpu"\nprereleases = true'))
    assert family.wants(listed("cu118/torch-3.0.0rc1+cu118-cp311-cp311-linux_x86_64.whl"), {"linux"})


def test_another_host_of_the_same_files_is_written_as_the_canonical_one(tmp_path: Path) -> None:
    same = 'root = "https://upstream.example/whl/"\nsame-as = ["https://other.example/w/"]'
    (source,) = load_family(changed(tmp_path, 'root = "https://upstream.example/whl/"', same)).source
    assert source.canonical("https://other.example/w/cpu/x.whl") == CANONICAL + "cpu/x.whl"
    assert source.canonical("https://third.example/w/cpu/x.whl") == "https://third.example/w/cpu/x.whl"


# Who is compared: the wheels of a page, read with nothing but a regular expression.
WHEEL = re.compile(r'href="[^"]*/whl/([^"#]+/)?((torch|torchvision|torchaudio)-([^-"]+)-[^"#]+\.whl)')


def on_pages(folder: Path) -> dict[str, tuple[str, Version, str]]:
    """The torch wheels of a snapshot: path → (project, version, backend)."""
    found: dict[str, tuple[str, Version, str]] = {}
    for project in ("torch", "torchvision", "torchaudio"):
        text = (folder / project / "index.html").read_text()
        for place, name, of, version in WHEEL.findall(text):
            number = Version(unquote(version))
            found[unquote(place + name)] = (of, number, number.local or place.strip("/") or "cpu")
    return found


OLDEST = {"torch": Version("1.8"), "torchvision": Version("0.9"), "torchaudio": Version("0.8")}


def belongs(family: str, path: str, facts: tuple[str, Version, str]) -> bool:
    project, version, backend = facts
    if version.is_prerelease or Version(version.public) < OLDEST[project]:
        return False
    if family == "torch-cpu":
        return backend == "cpu"
    return re.fullmatch(r"cu\d+", backend) is not None or (backend == "cpu" and not version.local and "macosx" in path)


def test_from_the_pages_of_june_2025_to_today_exactly_the_files_between_are_added(tmp_path: Path) -> None:
    june, today = SNAPSHOT / "as-of-2025-06" / "whl", SNAPSHOT / "whl"
    if not june.is_dir():
        pytest.skip("the snapshot of upstream's pages (../shared/upstream/pages) is not here")
    packages, families = tmp_path / "packages", ("torch-cpu", "torch-cuda")
    for family in families:
        (packages / family).mkdir(parents=True)
        shutil.copy(ROOT / "packages" / family / "family.toml", packages / family)
    for project in ("torchvision", "torchaudio"):  # no METADATA to pair by: only reported
        write_pages(tmp_path / "pypi", {project: page([f"{project}-0.0.1-py3-none-any.whl"])})

    def sync(pages: Path) -> tuple[dict[tuple[str, str], set[str]], set[str]]:
        """What changed, as (family, kind) → paths, and which releases were added."""
        mirrors = ["--mirror", f"https://download.pytorch.org/whl/={pages}", "--mirror", f"pypi={tmp_path}/pypi"]
        ran = metawheel("sync", "--json", "--packages", packages, *mirrors, cache=tmp_path / "cache")
        assert ran.code == 0, ran.err
        found: dict[tuple[str, str], set[str]] = {}
        released = set()
        for result in json.loads(ran.out)["families"]:
            for change in result["changes"]:
                path = unquote(change["url"].removeprefix("https://download.pytorch.org/whl/"))
                found.setdefault((result["family"], change["kind"]), set()).add(path)
                released.add(change["version"])
        return found, released

    old, new = (
        {family: {path for path, facts in on_pages(at).items() if belongs(family, path, facts)} for family in families}
        for at in (june, today)
    )
    assert sync(june)[0] == {(family, "added"): paths for family, paths in old.items()}
    before = state(packages)
    assert (sync(june), state(packages)) == (({}, set()), before)
    found, released = sync(today)
    assert {"2.8.0", "2.13.0"} <= released
    for family in families:
        assert found.get((family, "added"), set()) == new[family] - old[family]
        assert found.get((family, "gone"), set()) == old[family] - new[family]
    before = state(packages)
    assert (sync(today), state(packages)) == (({}, set()), before)


def test_every_template_may_name_the_groups_of_the_pattern_and_no_format() -> None:
    keys = {"name": "torch-x{v}", "summary": "{v} {version}", "backend": r"cpu|cu(?P<v>\d+)"}
    rule = WrapperRule.model_validate(keys)

    assert rule.filled(rule.summary, "cu116", version="1") == "116 1"
    assert rule.filled(rule.name, "cpu") == "torch-x"
    with pytest.raises(ValueError, match="name has"):
        WrapperRule.model_validate({**keys, "name": "torch-{backend:d}"})
