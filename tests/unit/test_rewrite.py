"""A relabelled wheel has the plain build's content under another version, and a RECORD that is right."""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
import io
import os
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from installer.sources import WheelFile
from packaging.metadata import Metadata

from metawheel.errors import RelabelError
from metawheel.rewrite import Relabelled, relabel_wheel, relabelled_name
from tests.cases.plain import LABELLED, MEMBERS, METADATA, PLAIN, STEM, plain_wheel, record_line, record_of, zipped
from tests.clients import envs


def renamed(name: str) -> str:
    """Where a member of the plain build lies in the relabelled one."""
    for ending in (".dist-info/", ".data/"):
        if name.startswith(STEM + ending):
            return f"{STEM}+cpu{ending}{name.removeprefix(STEM + ending)}"
    return name


def compressed(path: Path) -> dict[str, tuple[bytes, int, int]]:
    """Each member's bytes as they lie in the file, how they are compressed, and its mode."""
    raw = path.read_bytes()
    found = {}
    with zipfile.ZipFile(path) as archive:
        for item in archive.infolist():
            signature, name_length, extra_length = struct.unpack_from("<4s22xHH", raw, item.header_offset)
            assert signature == b"PK\x03\x04"
            start = item.header_offset + 30 + name_length + extra_length
            found[item.filename] = (raw[start : start + item.compress_size], item.compress_type, item.external_attr)
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return plain_wheel(tmp_path / "download")


@pytest.fixture
def made(source: Path, tmp_path: Path) -> Relabelled:
    (tmp_path / "out").mkdir()
    return relabel_wheel(source, PLAIN, "cpu", tmp_path / "out")


def test_every_member_but_metadata_and_record_is_the_same_and_not_compressed_anew(
    source: Path, made: Relabelled
) -> None:
    before, after = compressed(source), compressed(made.path)
    assert list(after) == [renamed(name) for name in before], "the order stays too"
    changed = {name for name in before if before[name] != after[renamed(name)]}
    assert changed == {f"{STEM}.dist-info/METADATA", f"{STEM}.dist-info/RECORD"}
    with zipfile.ZipFile(made.path) as archive:
        assert archive.testzip() is None
        for name, data in MEMBERS.items():
            if name not in changed:
                assert archive.read(renamed(name)) == data


def test_the_dist_info_and_data_folders_are_renamed_and_nothing_else(made: Relabelled) -> None:
    with zipfile.ZipFile(made.path) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names} == {"torch", f"{STEM}+cpu.data", f"{STEM}+cpu.dist-info"}
    assert f"{STEM}+cpu.data/data/share/{STEM}.dist-info.txt" in names


def test_the_version_in_metadata_changes_once_and_not_in_the_description(made: Relabelled) -> None:
    with zipfile.ZipFile(made.path) as archive:
        metadata = archive.read(f"{STEM}+cpu.dist-info/METADATA")
    assert made.metadata == metadata
    assert metadata == METADATA.replace(b"\nVersion: 2.9.1\nSummary", b"\nVersion: 2.9.1+cpu\nSummary")
    parsed = Metadata.from_email(metadata)
    assert (parsed.name, str(parsed.version)) == ("torch", "2.9.1+cpu")
    assert [str(line) for line in parsed.requires_dist or ()] == ["sympy==2.9.1"]


def test_line_ends_of_windows_in_metadata_are_read(tmp_path: Path) -> None:
    windows = {**MEMBERS, f"{STEM}.dist-info/METADATA": METADATA.replace(b"\n", b"\r\n")}
    made = relabel_wheel(plain_wheel(tmp_path / "download", windows), PLAIN, "cpu", tmp_path)
    assert str(Metadata.from_email(made.metadata).version) == "2.9.1+cpu"
    with zipfile.ZipFile(made.path) as archive:
        assert archive.read(f"{STEM}+cpu.dist-info/METADATA") == made.metadata


def test_metadata_without_description_is_the_same_but_for_its_version(tmp_path: Path) -> None:
    head = METADATA.partition(b"\n\n")[0] + b"\n"
    members = {**MEMBERS, f"{STEM}.dist-info/METADATA": head}
    made = relabel_wheel(plain_wheel(tmp_path / "download", members), PLAIN, "cpu", tmp_path)
    assert made.metadata == head.replace(b"\nVersion: 2.9.1\n", b"\nVersion: 2.9.1+cpu\n")


def test_record_is_right_by_installers_check_and_by_ours(made: Relabelled) -> None:
    with WheelFile.open(made.path) as wheel:
        wheel.validate_record()
        assert (wheel.distribution, wheel.version) == ("torch", "2.9.1+cpu")
    with zipfile.ZipFile(made.path) as archive:
        rows = list(csv.reader(io.StringIO(archive.read(f"{STEM}+cpu.dist-info/RECORD").decode())))
        content = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    own = f"{STEM}+cpu.dist-info/RECORD"
    assert sorted(map(tuple, rows)) == sorted(
        (name, *(("", "") if name == own else record_line(data))) for name, data in content.items()
    )


def test_the_hash_and_size_told_are_those_of_the_file(made: Relabelled) -> None:
    assert made.path.name == LABELLED
    assert made.sha256 == hashlib.sha256(made.path.read_bytes()).hexdigest()
    assert made.size == made.path.stat().st_size


def test_the_same_wheel_gives_the_same_bytes_whatever_the_zlib_and_the_time(
    source: Path, made: Relabelled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(*_: object) -> object:
        raise AssertionError("something was compressed")

    monkeypatch.setattr(zlib, "compressobj", other)
    os.utime(source, (0, 0))
    (tmp_path / "again").mkdir()
    again = relabel_wheel(source, PLAIN, "cpu", tmp_path / "again")
    assert again.path.read_bytes() == made.path.read_bytes()


def test_a_wheel_that_was_streamed_becomes_one_with_sizes_in_front(made: Relabelled, tmp_path: Path) -> None:
    streamed = plain_wheel(tmp_path / "streamed", streamed=True)
    with zipfile.ZipFile(streamed) as archive:
        assert any(item.flag_bits & 0x08 for item in archive.infolist()), "APPNOTE.TXT 4.4.4: sizes follow the data"
    (tmp_path / "again").mkdir()
    assert relabel_wheel(streamed, PLAIN, "cpu", tmp_path / "again").path.read_bytes() == made.path.read_bytes()


@pytest.mark.parametrize("program", ["installer", pytest.param("pip", marks=pytest.mark.clients)])
def test_it_installs_and_the_environment_says_the_labelled_version(
    made: Relabelled, program: str, tmp_path: Path
) -> None:
    target = tmp_path / "installed"
    if program == "pip":
        arguments = ["install", "--no-index", "--no-deps", "--target", str(target), str(made.path)]
        envs.run("pip", arguments, cwd=tmp_path)
    else:
        command = [sys.executable, "-m", "installer", "--prefix", str(target), str(made.path)]
        subprocess.run(command, check=True, capture_output=True)
    (folder,) = (path.parent for path in target.rglob(f"{STEM}+cpu.dist-info"))
    (found,) = importlib.metadata.distributions(path=[str(folder)])
    assert (found.metadata["Name"], found.version) == ("torch", "2.9.1+cpu")
    assert (folder / "torch" / "lib" / "libtorch.dylib").read_bytes() == MEMBERS["torch/lib/libtorch.dylib"]
    assert [path for path in target.rglob("torchrun") if "print('ran')" in path.read_text(encoding="utf-8")]


Damage = Callable[[dict[str, bytes]], bytes]


def _wrong_record(members: dict[str, bytes]) -> bytes:
    # case X03, https://github.com/pytorch/pytorch/issues/97153
    right = record_of(members)
    return zipped(
        members
        | {f"{STEM}.dist-info/METADATA": METADATA.replace(b"Summary", b"Platform")}
        | {f"{STEM}.dist-info/RECORD": right}
    )


def _record_lacks_a_file(members: dict[str, bytes]) -> bytes:
    right = record_of({name: data for name, data in members.items() if not name.endswith(".dylib")})
    return zipped({**members, f"{STEM}.dist-info/RECORD": right})


def _without(name: str) -> Damage:
    def damage(members: dict[str, bytes]) -> bytes:
        whole = {**members, f"{STEM}.dist-info/RECORD": record_of(members)}
        return zipped({key: data for key, data in whole.items() if not key.endswith(name)})

    return damage


def _with_metadata(content: bytes) -> Damage:
    def damage(members: dict[str, bytes]) -> bytes:
        members = {**members, f"{STEM}.dist-info/METADATA": content}
        return zipped({**members, f"{STEM}.dist-info/RECORD": record_of(members)})

    return damage


def _cut_off(members: dict[str, bytes]) -> bytes:
    return zipped({**members, f"{STEM}.dist-info/RECORD": record_of(members)})[:-5000]


def _a_bit_flipped(members: dict[str, bytes]) -> bytes:
    content = bytearray(zipped({**members, f"{STEM}.dist-info/RECORD": record_of(members)}))
    content[content.index(b"__version__") + 3] ^= 1
    return bytes(content)


def _metadata_that_cannot_be_unpacked(members: dict[str, bytes]) -> bytes:
    whole = zipped({**members, f"{STEM}.dist-info/RECORD": record_of(members)})
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        item = archive.getinfo(f"{STEM}.dist-info/METADATA")
    start = item.header_offset + 30 + len(item.filename)
    return whole[:start] + b"\xff" + whole[start + 1 :]


REFUSED: dict[str, tuple[Damage, str]] = {
    "a wrong RECORD": (_wrong_record, "does not match its RECORD"),
    "a RECORD that lacks a file": (_record_lacks_a_file, "does not match its RECORD"),
    "no RECORD": (_without("/RECORD"), "RECORD"),
    "no METADATA": (_without("/METADATA"), "METADATA"),
    "another version": (_with_metadata(METADATA.replace(b"2.9.1", b"2.9.0")), "does not state version 2.9.1 once"),
    "two versions": (_with_metadata(b"Version: 2.9.1\n" * 3 + METADATA), "does not state version 2.9.1 once"),
    "cut off": (_cut_off, "is not a wheel that can be relabelled"),
    "empty": (lambda members: b"", "is not a wheel that can be relabelled"),
    "a page instead of a wheel": (lambda members: b"<html>sorry</html>", "is not a wheel that can be relabelled"),
    "METADATA that cannot be unpacked": (_metadata_that_cannot_be_unpacked, "is not a wheel that can be relabelled"),
    "a flipped bit": (_a_bit_flipped, "RECORD|relabelled"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_a_wheel_that_is_wrong_is_refused_and_nothing_is_written(fault: str, tmp_path: Path) -> None:
    damage, told = REFUSED[fault]
    source, out = tmp_path / "download", tmp_path / "out"
    source.write_bytes(damage(dict(MEMBERS)))
    out.mkdir()
    (out / LABELLED).write_bytes(b"what was there before")
    with pytest.raises(RelabelError, match=told) as caught:
        relabel_wheel(source, PLAIN, "cpu", out)
    assert PLAIN in str(caught.value)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {LABELLED: b"what was there before"}


def test_an_archive_without_dist_info_is_refused(tmp_path: Path) -> None:
    (tmp_path / "download").write_bytes(zipped({"torch/__init__.py": b""}))
    with pytest.raises(RelabelError, match=r"dist-info"):
        relabel_wheel(tmp_path / "download", PLAIN, "cpu", tmp_path)


def test_a_name_gets_its_label_behind_the_version_and_before_a_build_number() -> None:
    assert relabelled_name("torch-2.9.1-1-cp310-none-macosx_11_0_arm64.whl", "cpu") == (
        "torch-2.9.1+cpu-1-cp310-none-macosx_11_0_arm64.whl"
    )


def test_a_wheel_that_has_a_label_is_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(RelabelError, match=r"has the local version label cu128 already"):
        relabel_wheel(source, PLAIN.replace("2.9.1", "2.9.1+cu128"), "cpu", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["download"]
