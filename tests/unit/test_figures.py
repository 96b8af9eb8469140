"""The figures in README.md and docs/ are those of the last benchmark, and one part's run changes that part alone."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as runner
from bench.figures import FIGURES, PAGES, FigureError, filled
from bench.peers import Peers
from bench.report import Part, Table, dump, markdown
from tests.clients.envs import CLIENTS, Client, ClientFailedError

ROOT = Path(__file__).parents[2]
RESULTS: dict[str, Any] = json.loads((ROOT / runner.RESULTS).read_text(encoding="utf-8"))
MARKED = re.compile(r"<!-- bench: (\S+) -->.*?<!-- /bench -->", re.DOTALL)
MEASURED = re.compile(r"\d (?:s|ms|µs|seconds|MB|GB|bytes|(?:pages|wheels|requests) a second)\b")


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_every_figure_is_what_the_last_benchmark_found(page: str) -> None:
    assert read(page) == filled(read(page), RESULTS)


def test_every_figure_that_there_is_stands_on_a_page() -> None:
    assert {name for page in PAGES for name in MARKED.findall(read(page))} == set(FIGURES)


@pytest.mark.parametrize("page", ["README.md", "docs/doctor.md"])
def test_no_figure_stands_outside_the_marks(page: str) -> None:
    assert MEASURED.findall(MARKED.sub("", read(page))) == []


def test_the_page_of_benchmarks_is_that_of_the_results() -> None:
    assert read(runner.PAGE) == markdown(RESULTS.values())
    assert (ROOT / runner.RESULTS).read_text(encoding="utf-8") == dump(RESULTS)


def test_a_stale_figure_is_replaced_and_what_is_around_it_kept() -> None:
    rows = {"metawheel doctor": {"s": 1.2345}}
    results = {"doctor": {"tables": [{"title": "uv.lock, 500 packages", "rows": rows}]}}
    page = "It takes <!-- bench: doctor-500 -->9.9 s<!-- /bench -->, no more."
    assert filled(page, results) == "It takes <!-- bench: doctor-500 -->1.23 s<!-- /bench -->, no more."


def test_a_block_keeps_the_lines_of_its_marks() -> None:
    block = filled("<!-- bench: locking -->\n<!-- /bench -->\n", RESULTS)
    assert block.startswith("<!-- bench: locking -->\n| wheels downloaded, time | wrapper |")
    assert block.endswith("|\n<!-- /bench -->\n")


def test_a_mark_that_names_no_figure_is_refused_by_its_name() -> None:
    with pytest.raises(FigureError, match=r"no figure doctor-9000; there are .*doctor-500"):
        filled("<!-- bench: doctor-9000 -->1 s<!-- /bench -->", RESULTS)


@pytest.mark.parametrize(
    "page",
    [
        "<!-- bench: doctor-500 -->1 s",
        "1 s<!-- /bench -->",
        "<!-- bench: doctor-500 -->1 s <!-- bench: doctor-5000 -->2 s<!-- /bench -->",
        "<!-- bench: -->1 s<!-- /bench -->",
    ],
)
def test_a_mark_without_its_other_half_is_refused(page: str) -> None:
    with pytest.raises(FigureError, match=r"a mark without its other half: <!-- /?bench"):
        filled(page, RESULTS)


def test_what_was_not_measured_is_refused_by_its_place_and_the_reason() -> None:
    results = RESULTS | {"doctor": {"skipped": "uv is not here", "tables": []}}
    with pytest.raises(
        FigureError, match=r"^doctor / uv.lock, 500 packages / metawheel doctor / s was .*: uv is not here$"
    ):
        filled("<!-- bench: doctor-500 -->1 s<!-- /bench -->", results)


def test_a_program_that_cannot_be_installed_is_named_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(client: Client) -> str:
        if client.program == "pdm":
            raise ClientFailedError("no network")
        return "1.0"

    monkeypatch.setattr("bench.peers.client_version", version)
    peers = Peers.of([CLIENTS["uv"], CLIENTS["pdm"], None])
    assert peers.skipped == "pdm could not be installed"
    assert [peers.have(client) for client in (CLIENTS["uv"], CLIENTS["pdm"], None)] == [True, False, True]
    assert Peers.of([CLIENTS["uv"]]).skipped is None


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what the benchmark writes; a part measures 12.5 s for doctor, whatever is asked."""
    for name in (runner.RESULTS, runner.PAGE, *PAGES):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    rows = {"metawheel doctor": {"s": 12.5}}
    tables = [Table(title=f"uv.lock, {count} packages", about="", rows=rows) for count in ("500", "5,000")]
    part = Part(title="doctor", tables=tables, versions={}, machine="one")
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    monkeypatch.setattr(runner, "_measure", lambda name, work, asked: part)
    monkeypatch.setenv("METAWHEEL_CACHE", "")  # which a run sets
    return tmp_path


def test_a_run_of_one_part_changes_that_part_and_the_figures_from_it(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["bench", "doctor"])
    runner.main()
    found = json.loads((checkout / runner.RESULTS).read_text(encoding="utf-8"))
    assert {name for name in found if found[name] != RESULTS[name]} == {"doctor"}
    assert list(found) == list(RESULTS)
    assert "takes <!-- bench: doctor-500 -->12.5 s<!-- /bench -->" in (checkout / "docs/doctor.md").read_text("utf-8")
    assert (checkout / "docs/serve.md").read_text(encoding="utf-8") == read("docs/serve.md")


def test_a_part_that_does_not_exist_is_refused_before_anything_is_measured(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bench", "doctor", "doktor"])
    with pytest.raises(SystemExit):
        runner.main()
    assert "no such part: doktor" in capsys.readouterr().err
    assert (checkout / runner.RESULTS).read_text(encoding="utf-8") == dump(RESULTS)
