"""Basic authentication by a token file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from metawheel.errors import OutputError
from metawheel.serve.auth import read_tokens
from tests.serve.running import Client, serving

PATHS = (
    "/simple/",
    "/simple/torch/",
    "/simple/Torch",
    "/files/torch_cpu-2.9.1-py3-none-any.whl",
    "/",
    "/-/metrics",
    "/x",
)
ANN = ("ann", "correct horse")


def line(user: str, token: str) -> str:
    return f"{user}:{hashlib.sha256(token.encode()).hexdigest()}\n"


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"# who may read\n\n{line(*ANN)}{line('bob', 'pässword')}", encoding="utf-8")
    return path


@pytest.fixture
def client(site: Path, tokens: Path) -> Iterator[Client]:
    with serving(site, tokens=tokens) as running:
        yield running


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_told_without_a_token(client: Client, path: str) -> None:
    for header in (None, "Basic", "Basic !!", "Basic YW5u", "Bearer x", "Basic /w==", "Basic OmNvcnJlY3QgaG9yc2U="):
        answer = client.get(path, headers={} if header is None else {"Authorization": header})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic ")
        assert "torch" not in answer.text
    for wrong in (("ann", "pässword"), ("eve", "correct horse"), ("", ""), ("ann", ""), ("ann", line(*ANN)[4:-1])):
        assert client.get(path, auth=httpx.BasicAuth(*wrong)).status_code == 401


def test_a_user_with_its_token_is_let_in(client: Client) -> None:
    for user in (ANN, ("bob", "pässword")):
        assert client.get("/simple/torch/", auth=httpx.BasicAuth(*user)).status_code == 200


def test_health_is_for_all(client: Client) -> None:
    assert client.get("/-/health").status_code == 200


def test_a_token_that_was_withdrawn_or_spoilt_lets_nobody_in(client: Client, tokens: Path) -> None:
    ann = httpx.BasicAuth(*ANN)
    tokens.write_text(line("bob", "pw"), encoding="utf-8")
    assert client.get("/simple/torch/", auth=ann).status_code == 401
    tokens.write_text("ann:correct horse\n", encoding="utf-8")
    assert client.get("/simple/torch/", auth=ann).status_code == 401
    tokens.unlink()
    assert client.get("/simple/torch/", auth=ann).status_code == 401
    tokens.write_text(line(*ANN), encoding="utf-8")
    assert client.get("/simple/torch/", auth=ann).status_code == 200


@pytest.mark.parametrize(
    "text", ["ann:secret", "ann", ":" + "0" * 64, "a b:" + "0" * 64, "ann:" + "0" * 63, ("ann:" + "0" * 64 + "\n") * 2]
)
def test_a_token_file_that_is_none_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"# users\n{text}\n", encoding="utf-8")
    with pytest.raises(OutputError, match=r"tokens, line [23]: is not user:sha256"):
        read_tokens(path)


def test_a_token_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="none: the token file cannot be read"):
        read_tokens(tmp_path / "none")
