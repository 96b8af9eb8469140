"""Putting lines into pip's and uv's settings, and taking them out."""

from __future__ import annotations

import tomllib
from configparser import RawConfigParser
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metawheel.errors import OutputError, UnknownName
from metawheel.install import pipconf
from metawheel.install.pipconf import Place, Record
from metawheel.install.pipsettings import pip_lines, uv_lines
from tests.fakes.ledgers import untimed
from tests.fakes.machine import interpreter

URL = "https://index.invalid/cu128/simple/"
OURS = {"extra-index-url": URL, "constraint": "/env/.metawheel/constraints.txt"}


def values(text: str, section: str, name: str) -> list[str]:
    parser = RawConfigParser()
    parser.read_string(text)
    return parser.get(section, name).split()


PIP = {
    "nothing": "",
    "other settings": "[global]\ntimeout = 30\n",
    "other sections": "[freeze]\ntimeout = 10\n",
    "a value on the line": "[global]\nextra-index-url = https://a.invalid/simple\ntimeout = 30\n",
    "values below": "[global]\nextra-index-url =\n    https://a.invalid/simple\n    https://b.invalid/simple\n",
    "comments between": "; mine\n[global]\nextra-index-url = https://a.invalid/simple\n  # why\n    https://b.invalid/s\n",
    "underscores": "[global]\nextra_index_url: https://a.invalid/simple\n",
    "spaces before": "[global]\n   extra-index-url=https://a.invalid/simple\n   timeout=3\n",
    "a section of its own": "[install]\nextra-index-url = https://a.invalid/simple\nconstraint = c.txt\n",
    "both": "[install]\nconstraint = a.txt b.txt\n[global]\nconstraint = c.txt\n",
    "Windows lines": "[global]\r\nextra-index-url = https://a.invalid/simple\r\ntimeout = 30\r\n",
    "no last newline": "[global]\nconstraint = c.txt",
    "a comment behind the header": "[global]  # ours\nextra-index-url = https://a.invalid/simple\n",
}


@pytest.mark.parametrize("text", PIP.values(), ids=PIP)
def test_pip_settings_gain_our_values_and_lose_none(text: str) -> None:
    result, runs = pip_lines(text, OURS, {})
    before, after = RawConfigParser(), RawConfigParser()
    before.read_string(text)
    after.read_string(result)
    for section in before.sections():
        for name, value in before.items(section):
            assert set(value.split()) <= set(after.get(section, name).split())
    for name, value in OURS.items():
        spelled = name if after.has_option("global", name) else name.replace("-", "_")
        assert value in values(result, "global", spelled)
        if before.has_option("install", name):
            assert value in values(result, "install", name)
    assert all(run in result for run in runs)


@pytest.mark.parametrize("text", PIP.values(), ids=PIP)
def test_without_the_lines_the_text_is_what_it_was(text: str, tmp_path: Path) -> None:
    result, runs = pip_lines(text, OURS, {})
    left = pipconf._without(tmp_path, result.encode(), record(runs, before="eA=="))
    assert (left or b"").decode() == (text if not text or text.endswith("\n") else f"{text}\n")


def record(runs: tuple[str, ...], before: str | None = None) -> Record:
    return Record(config="", before=before, after="", lines=runs, index=URL, backend="cu128")


def test_values_that_ours_would_hide_are_said_again() -> None:
    together = {
        ("global", "extra-index-url"): "https://a.invalid/s\nhttps://b.invalid/s",
        ("install", "constraint"): "c.txt",
    }
    result, _ = pip_lines("", OURS, together)
    assert values(result, "global", "extra-index-url") == ["https://a.invalid/s", "https://b.invalid/s", URL]
    assert values(result, "install", "constraint") == ["c.txt", OURS["constraint"]]
    assert values(result, "global", "constraint") == [OURS["constraint"]]


@given(
    st.dictionaries(
        st.sampled_from(["timeout", "extra-index-url", "constraint", "no-cache-dir", "find-links"]),
        st.lists(st.from_regex(r"[a-z]{1,6}(/[a-z]{1,6})?", fullmatch=True), min_size=1, max_size=3),
    ),
    st.sampled_from(["global", "install", "download"]),
    st.sampled_from([" = ", "=", ": ", " =\n    "]),
    st.booleans(),
)
@untimed
def test_any_settings_survive(settings: dict[str, list[str]], section: str, between: str, newline: bool) -> None:
    lines = [name + between + "\n    ".join(found) for name, found in settings.items()]
    text = f"[{section}]\n" + "\n".join(lines) + "\n" * newline
    result, runs = pip_lines(text, OURS, {})
    for name, found in settings.items():
        assert set(found) <= set(values(result, section, name))
    assert URL in values(result, "global", "extra-index-url")
    left = pipconf._without(Path("x"), result.encode(), record(runs, before="eA=="))
    assert (left or b"").decode().rstrip("\n") == text.rstrip("\n")


UV = {
    "nothing": "",
    "other settings": "no-cache = true\n[pip]\nstrict = true\n",
    "indexes": 'offline = false\n\n[[index]]\nname = "a"\nurl = "https://a.invalid/s"\n[[index]]\nurl = "https://b.invalid/s"\n',
    "no last newline": "no-cache = true",
    "comments": "# mine\n  [[ index ]]  # the company's\n  url = 'https://a.invalid/s'\n",
}


@pytest.mark.parametrize("text", UV.values(), ids=UV)
def test_uv_settings_gain_our_index_before_all_others(text: str) -> None:
    result, (run,) = uv_lines(text, URL)
    data = tomllib.loads(result)
    assert data.pop("index") == [{"name": "metawheel", "url": URL}, *tomllib.loads(text).get("index", [])]
    assert data == {key: value for key, value in tomllib.loads(text).items() if key != "index"}
    assert result.replace(run, "").rstrip("\n") == text.rstrip("\n")


@pytest.mark.parametrize(
    "text",
    ['index = [{ url = "https://a.invalid/s" }]\n', "not toml", 'x = """\n[[index]]\n"""\n[[index]]\nurl = "u"\n'],
)
def test_uv_settings_that_lines_cannot_be_put_into_are_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 the caller names the file
        uv_lines(text, URL)


def place(folder: Path) -> Place:
    return Place(tool="uv", scope="venv", config=folder / "uv.toml", folder=folder / "env" / ".metawheel")


def put(where: Place) -> Record:
    return pipconf.insert(where, index=URL, backend="cu128", constraints=(), interpreter=interpreter())


@pytest.mark.parametrize("before", [None, b"", b"no-cache = true\r\n# \xc3\xa4", b"\xef\xbb\xbfno-cache = true"])
def test_what_was_there_is_there_again_byte_for_byte(tmp_path: Path, before: bytes | None) -> None:
    where = place(tmp_path)
    if before is not None:
        where.config.write_bytes(before)
    try:
        put(where)
    except OutputError:  # a byte order mark is no TOML
        assert before is not None
        assert before.startswith(b"\xef")
    pipconf.remove(where)
    assert (where.config.read_bytes() if where.config.exists() else None) == before
    assert not where.folder.exists()


def test_a_record_is_for_its_owner_alone_and_a_files_mode_stays(tmp_path: Path) -> None:
    where = place(tmp_path)
    where.config.write_text("no-cache = true\n", encoding="utf-8")
    where.config.chmod(0o640)
    put(where)
    assert where.record.stat().st_mode & 0o777 == 0o600
    assert where.config.stat().st_mode & 0o777 == 0o640


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    where = place(tmp_path)
    real = tmp_path / "dotfiles" / "uv.toml"
    real.parent.mkdir()
    real.write_text("no-cache = true\n", encoding="utf-8")
    where.config.symlink_to(real)
    put(where)
    assert where.config.is_symlink()
    assert URL in real.read_text(encoding="utf-8")
    pipconf.remove(where)
    assert real.read_text(encoding="utf-8") == "no-cache = true\n"


def test_lines_that_were_changed_by_hand_are_left_to_the_user(tmp_path: Path) -> None:
    where = place(tmp_path)
    put(where)
    text = where.config.read_text(encoding="utf-8").replace("metawheel: end", "mine")
    where.config.write_text(text, encoding="utf-8")
    with pytest.raises(OutputError, match="take it out by hand"):
        pipconf.remove(where)
    assert where.config.read_text(encoding="utf-8") == text


def test_a_file_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    where = place(tmp_path)
    put(where)
    where.config.unlink()
    assert pipconf.remove(where)
    assert not where.config.exists()


def test_a_stop_after_the_record_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = place(tmp_path)
    where.config.write_text("no-cache = true\n", encoding="utf-8")
    write = pipconf._write

    def stop(path: Path, content: bytes, *, private: bool = False) -> None:
        if path == where.config:
            raise KeyboardInterrupt
        write(path, content, private=private)

    monkeypatch.setattr(pipconf, "_write", stop)
    with pytest.raises(KeyboardInterrupt):
        put(where)
    monkeypatch.undo()
    assert where.config.read_text(encoding="utf-8") == "no-cache = true\n"
    pipconf.remove(where)
    assert where.config.read_text(encoding="utf-8") == "no-cache = true\n"


def test_a_record_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    where = place(tmp_path)
    where.folder.mkdir(parents=True)
    where.record.write_text("{}", encoding="utf-8")
    with pytest.raises(OutputError, match=r"uv\.json"):
        pipconf.remove(where)


def test_a_folder_that_cannot_be_written_is_named_and_nothing_is_changed(tmp_path: Path) -> None:
    where = place(tmp_path)
    (tmp_path / "env").write_text("no folder", encoding="utf-8")
    with pytest.raises(OutputError, match=r"uv\.json: cannot be"):
        put(where)
    assert not where.config.exists()


def test_an_interpreter_without_environment_has_no_settings_of_its_own() -> None:
    base = replace(interpreter(), is_venv=False)
    with pytest.raises(UnknownName, match="--scope user"):
        pipconf.place_of("pip", "venv", base, {})


def test_a_users_places_follow_the_environment(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert pipconf.place_of("uv", "user", interpreter(), environ).config == tmp_path / "uv" / "uv.toml"
    assert pipconf.place_of("pip", "user", interpreter(), environ).config == tmp_path / "pip" / "pip.conf"
