"""Passwords in addresses: none gets into an error, onto a page, or into a file that others may read."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from metawheel import doctor, inputs
from metawheel.doctor.fixes import apply
from metawheel.errors import Unreachable
from metawheel.upstream.mirrors import Mirror
from tests.fakes.ledgers import TORCH, UPSTREAM, build_site, torch_files, write_family

PASSWORD = "hunter2"  # noqa: S105  that is the test


@pytest.mark.parametrize(
    ("url", "what"),
    [
        (f"https://bob:{PASSWORD}@mirror.example/torch/", "refused"),
        ("https://mirror.example/torch/", f"refused (fetched from https://bob:{PASSWORD}@mirror.example/)"),
    ],
)
def test_no_error_repeats_the_password_of_an_address(url: str, what: str) -> None:
    assert PASSWORD not in str(Unreachable(url, what))
    assert "mirror.example" in str(Unreachable(url, what))


def test_no_file_of_a_site_has_the_password_of_its_mirror(tmp_path: Path) -> None:
    write_family(tmp_path / "packages" / "torch", TORCH, torch_files())
    mirror = Mirror.parse(f"{UPSTREAM}=https://bob:{PASSWORD}@mirror.example/")

    build_site(tmp_path / "packages", tmp_path / "site", inputs.Options(mirrors=(mirror,)))

    texts = [path.read_bytes() for path in (tmp_path / "site").rglob("*") if path.is_file()]
    assert not any(PASSWORD.encode() in text for text in texts)
    assert any(b"https://mirror.example/" in text for text in texts)


def test_a_fixed_file_and_its_backup_are_as_private_as_the_file_was(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text(f"--index-url https://bob:{PASSWORD}@x.example/simple\ntorch===2.9.1+cu128\n", encoding="utf-8")
    path.chmod(0o600)

    apply(tmp_path, doctor.examine(tmp_path, doctor.Options()).findings)

    modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
    assert len(modes) == 2
    assert set(modes.values()) == {0o600}
