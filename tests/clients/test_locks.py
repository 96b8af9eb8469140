"""The lock readers, on small literal locks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.locks import (
    LINUX_AARCH64,
    LINUX_X86_64,
    MACOS_ARM64,
    MACOS_X86_64,
    WINDOWS_AMD64,
    Lock,
    LockError,
    PoetryLock,
    ReportLock,
    RequirementsLock,
    UvLock,
    read_lock,
)

UV = """
version = 1
requires-python = ">=3.10"
resolution-markers = ["sys_platform == 'darwin'", "sys_platform != 'darwin'"]

[[package]]
name = "app"
version = "1.0"
source = { virtual = "." }
dependencies = [{ name = "torch-cu116", extra = ["vision"] }]

[package.dev-dependencies]
dev = [{ name = "filelock" }]

[[package]]
name = "filelock"
version = "3.0"
source = { registry = "http://127.0.0.1:1/simple/" }
wheels = [{ url = "http://127.0.0.1:1/filelock-3.0-py3-none-any.whl", hash = "sha256:00" }]

[[package]]
name = "torch"
version = "1.13.1"
source = { registry = "http://127.0.0.1:1/simple/" }
resolution-markers = ["sys_platform == 'darwin'"]
wheels = [
  { url = "http://127.0.0.1:1/cpu/torch-1.13.1-cp310-none-macosx_11_0_arm64.whl", hash = "sha256:00" },
]

[[package]]
name = "torch"
version = "1.13.1+cu116"
source = { registry = "http://127.0.0.1:1/simple/" }
resolution-markers = ["sys_platform != 'darwin'"]
wheels = [
  { url = "http://127.0.0.1:1/cu116/torch-1.13.1%2Bcu116-cp310-cp310-linux_x86_64.whl", hash = "sha256:00" },
  { url = "http://127.0.0.1:1/cu116/torch-1.13.1%2Bcu116-cp310-cp310-win_amd64.whl", hash = "sha256:00" },
]

[[package]]
name = "torch-cu116"
version = "1.13.1"
source = { registry = "http://127.0.0.1:1/simple/" }
dependencies = [
  { name = "torch", version = "1.13.1", source = { registry = "http://127.0.0.1:1/simple/" }, \
marker = "sys_platform == 'darwin'" },
  { name = "torch", version = "1.13.1+cu116", source = { registry = "http://127.0.0.1:1/simple/" }, \
marker = "sys_platform != 'darwin'" },
]
wheels = [{ url = "http://127.0.0.1:1/torch_cu116-1.13.1-py3-none-any.whl", hash = "sha256:00" }]

[package.optional-dependencies]
vision = [{ name = "torchvision", marker = "sys_platform == 'linux'" }]

[[package]]
name = "torchvision"
version = "0.14.1+cu116"
source = { registry = "http://127.0.0.1:1/simple/" }
dependencies = [{ name = "torch", marker = "sys_platform == 'linux'" }]
wheels = [
  { url = "http://127.0.0.1:1/torchvision-0.14.1%2Bcu116-cp310-cp310-linux_x86_64.whl", hash = "sha256:00" },
]
"""

POETRY_2 = """
[[package]]
name = "torch"
version = "1.13.1"
python-versions = ">=3.7.0"
groups = ["main"]
markers = "sys_platform == \\"darwin\\""
files = [{file = "torch-1.13.1-cp310-none-macosx_11_0_arm64.whl", hash = "sha256:00"}]

[package.source]
type = "legacy"
url = "http://127.0.0.1:1/simple"
reference = "metawheel"

[[package]]
name = "torch"
version = "1.13.1+cu116"
python-versions = ">=3.7.0"
groups = ["main"]
markers = "sys_platform != \\"darwin\\""
files = [
    {file = "torch-1.13.1+cu116-cp310-cp310-linux_x86_64.whl", hash = "sha256:00"},
    {file = "torch-1.13.1+cu116-cp310-cp310-win_amd64.whl", hash = "sha256:00"},
]

[[package]]
name = "torchvision"
version = "0.14.1"
optional = true
python-versions = ">=3.7"
groups = ["main"]
markers = "extra == \\"vision\\" and sys_platform == \\"linux\\""
files = []

[[package]]
name = "pytest"
version = "8.0"
python-versions = ">=3.8"
groups = ["main", "dev"]
markers = {main = "sys_platform == \\"win32\\""}
files = []

[metadata]
lock-version = "2.1"
python-versions = ">=3.10"
content-hash = "00"
"""

POETRY_1 = """
[[package]]
name = "torch"
version = "1.13.1"
python-versions = ">=3.7.0"
files = [{file = "torch-1.13.1-cp310-none-macosx_11_0_arm64.whl", hash = "sha256:00"}]

[[package]]
name = "torch"
version = "1.13.1+cu116"
python-versions = ">=3.7.0"
files = [{file = "torch-1.13.1+cu116-cp310-cp310-linux_x86_64.whl", hash = "sha256:00"}]

[[package]]
name = "torchvision"
version = "0.14.1"
python-versions = ">=3.7"
files = []

[[package]]
name = "torch-cu116"
version = "1.13.1"
python-versions = ">=3.7"
files = []

[package.dependencies]
torch = [
    {version = "1.13.1", markers = "sys_platform == \\"darwin\\""},
    {version = "1.13.1+cu116", markers = "sys_platform != \\"darwin\\""},
]

[package.dependencies.torchvision]
version = "<0.9 || >=0.14"
optional = true
markers = 'sys_platform == "linux" and extra == "vision" or sys_platform == "win32" and extra == "vision"'

[package.extras]
vision = ["torchvision (==0.14.1)"]

[metadata]
lock-version = "2.0"
python-versions = ">=3.10,<4.0"
content-hash = "00"
"""

COMPILED = """# made by a compiler
--index-url http://127.0.0.1:1/simple/
torch-cu116==1.13.1 \\
    --hash=sha256:00
    # via -r requirements.in
torch==1.13.1 ; sys_platform == 'darwin'
    # via torch-cu116
torch==1.13.1+cu116 ; sys_platform != 'darwin' \\
    --hash=sha256:00 \\
    --hash=sha256:01
six @ http://127.0.0.1:1/six-1.16.0-py2.py3-none-any.whl#sha256=00
"""

EXPECTED = {
    "linux-x86_64": "1.13.1+cu116",
    "linux-aarch64": "1.13.1+cu116",
    "macos-arm64": "1.13.1",
    "macos-x86_64": "1.13.1",
    "windows-amd64": "1.13.1+cu116",
}


def poetry_1(dependency: str) -> PoetryLock:
    """Read the older lock for a project with one dependency."""
    return PoetryLock(POETRY_1, f'[tool.poetry.dependencies]\npython = "^3.10"\n{dependency}\n')


@pytest.mark.parametrize(
    "lock",
    [
        UvLock(UV),
        PoetryLock(POETRY_2),
        poetry_1('torch-cu116 = "1.13.1"'),
        RequirementsLock(COMPILED),
    ],
    ids=["uv", "poetry-2", "poetry-1", "compiled"],
)
def test_every_form_gives_the_same_versions(lock: Lock) -> None:
    assert lock.versions("torch") == EXPECTED


@pytest.mark.parametrize("lock", [UvLock(UV), PoetryLock(POETRY_2)], ids=["uv", "poetry-2"])
def test_locked_is_not_installable(lock: Lock) -> None:
    linux, arm = lock.find("torch", LINUX_X86_64), lock.find("torch", LINUX_AARCH64)
    assert linux is not None
    assert linux.installable == ("torch-1.13.1+cu116-cp310-cp310-linux_x86_64.whl",)
    assert arm is not None
    assert arm.files
    assert arm.installable == ()
    newer = lock.find("torch", LINUX_X86_64.with_python("3.11"))
    assert newer is not None
    assert newer.installable == ()


def test_uv_walks_extras_and_groups() -> None:
    lock = UvLock(UV)
    assert [item.name for item in lock.active(LINUX_X86_64)] == ["torch", "torch-cu116", "torchvision"]
    assert [item.name for item in lock.active(MACOS_ARM64)] == ["torch", "torch-cu116"]
    assert [item.name for item in lock.active(MACOS_ARM64, groups=["dev"])] == ["filelock"]


def test_uv_refuses_a_python_outside_the_lock() -> None:
    with pytest.raises(LockError, match="Python 3"):
        UvLock(UV).find("torch", LINUX_X86_64.with_python("3.9"))


def test_poetry_groups_extras_and_source() -> None:
    lock = PoetryLock(POETRY_2)
    assert lock.find("torchvision", LINUX_X86_64) is None
    assert lock.find("torchvision", LINUX_X86_64, extras=["vision"]) is not None
    assert lock.find("torchvision", MACOS_ARM64, extras=["vision"]) is None
    assert lock.find("pytest", LINUX_X86_64) is None
    assert lock.find("pytest", WINDOWS_AMD64) is not None
    assert lock.find("pytest", LINUX_X86_64, groups=["dev"]) is not None
    mac = lock.find("torch", MACOS_X86_64)
    assert mac is not None
    assert mac.source == "http://127.0.0.1:1/simple"


def test_poetry_1_narrows_by_every_edge() -> None:
    lock = poetry_1('torch-cu116 = "1.13.1"\ntorch = ">=1.10"')
    assert lock.versions("torch") == EXPECTED


def test_poetry_1_extras() -> None:
    bare = poetry_1('torch-cu116 = "1.13.1"')
    assert bare.find("torchvision", LINUX_X86_64) is None
    with_extra = poetry_1('torch-cu116 = {version = "1.13.1", extras = ["vision"]}')
    assert with_extra.find("torchvision", LINUX_X86_64) is not None
    assert with_extra.find("torchvision", WINDOWS_AMD64) is not None
    assert with_extra.find("torchvision", MACOS_ARM64) is None


def test_two_active_versions_are_an_error() -> None:
    both = PoetryLock(POETRY_2.replace('sys_platform == \\"darwin\\"', "").replace("darwin", "none"))
    with pytest.raises(LockError, match="more than once"):
        both.find("torch", LINUX_X86_64)


def test_report_speaks_of_its_own_platform_only() -> None:
    url = "http://127.0.0.1:1/cu116/torch-1.13.1%2Bcu116-cp310-cp310-linux_x86_64.whl"
    item = {"metadata": {"name": "torch", "version": "1.13.1+cu116"}, "download_info": {"url": url}}
    lock = ReportLock(json.dumps({"environment": LINUX_X86_64.environment, "install": [item]}))
    found = lock.find("torch", LINUX_X86_64)
    assert found is not None
    assert found.installable == ("torch-1.13.1+cu116-cp310-cp310-linux_x86_64.whl",)
    with pytest.raises(LockError, match="sys_platform"):
        lock.find("torch", MACOS_ARM64)


def test_read_lock_goes_by_the_file_name(tmp_path: Path) -> None:
    for name, text in (("uv.lock", UV), ("poetry.lock", POETRY_2), ("requirements.txt", COMPILED)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert read_lock(tmp_path / name).versions("torch") == EXPECTED
    (tmp_path / "other").write_text("", encoding="utf-8")
    with pytest.raises(LockError, match="known"):
        read_lock(tmp_path / "other")
