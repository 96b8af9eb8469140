"""docs/serve/nginx.conf, tried with a real nginx."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients import envs
from tests.clients.interpreters import require_interpreter
from tests.serve.running import HTML, JSON, Client
from tests.serve.sites import LABELLED, YANKED, write_site
from tests.serve.test_negotiate import BROWSER, PIP, UV
from tests.serve.test_pages import PEOPLE, WHEEL

CONF = Path(__file__).parents[2] / "docs" / "serve" / "nginx.conf"
MAIN = """
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
{user}
events {{ worker_connections 64; }}
http {{
    include /etc/nginx/mime.types;
    access_log off;
    {temporary}
    include {folder}/metawheel.conf;
}}
"""
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@contextmanager
def nginx(folder: Path, site: Path) -> Iterator[Client]:
    """Run nginx over a site on a free port."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/bin")
    if program is None:
        pytest.skip("no nginx on this machine: apt-get install nginx-light")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    text = CONF.read_text()
    for documented, here in (("listen 80;", f"listen 127.0.0.1:{port};"), ("/srv/metawheel/site", str(site))):
        assert text.count(documented) == 1
        text = text.replace(documented, here)
    (folder / "metawheel.conf").write_text(text)
    temporary = "".join(f"{name}_temp_path {folder}/{name};\n" for name in TEMPORARY)
    # A master that is root would give its workers to another user, who may not read the test's folder.
    user = "user root;" if (folder.owner() == "root") else ""
    (folder / "nginx.conf").write_text(MAIN.format(folder=folder, user=user, temporary=temporary))
    with subprocess.Popen([program, "-p", folder, "-c", folder / "nginx.conf", "-e", folder / "error.log"]) as process:
        try:
            while not _answers(port):
                assert process.poll() is None, (folder / "error.log").read_text()
            with Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
                yield client
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_site(tmp_path_factory.mktemp("nginx") / "site", more=PEOPLE)


@pytest.fixture(scope="module")
def client(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with nginx(tmp_path_factory.mktemp("conf"), folder) as running:
        yield running


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (PIP, "json"),
        (UV, "json"),
        (JSON, "json"),
        (f"text/html, {JSON}", "json"),
        (f"{JSON};q=0.1", "json"),
        ("application/vnd.pypi.simple.latest+json", "json"),
        (BROWSER, "html"),
        ("*/*", "html"),
        ("", "html"),
        (HTML, "html"),
        (f"{JSON};q=0.2, text/html", "html"),
        (f"{JSON};q=0", "html"),
    ],
)
@pytest.mark.parametrize("page", ["simple/", "simple/torch-cpu/", "cu128/simple/", "cu128/simple/torch/"])
def test_the_form_is_chosen_by_accept(client: Client, folder: Path, page: str, accept: str, form: str) -> None:
    answer = client.page(f"/{page}", accept)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == {"json": JSON, "html": "text/html; charset=utf-8"}[form]
    assert answer.content == (folder / page / f"index.{form}").read_bytes()
    assert "Accept" in answer.headers["vary"]
    assert answer.headers["cache-control"] == "no-cache"
    assert ("content-security-policy" in answer.headers) == (form == "html")


def test_a_page_that_is_known_is_304(client: Client) -> None:
    first = client.page("/simple/torch/")
    again = client.get("/simple/torch/", headers={"Accept": JSON, "If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("name", [WHEEL, YANKED, LABELLED, LABELLED.replace("+", "%2B"), LABELLED.replace("+", "%2b")])
def test_wheels_and_metadata_are_immutable(client: Client, folder: Path, name: str) -> None:
    for suffix in ("", ".metadata"):
        answer = client.get(f"/files/{name}{suffix}")
        assert answer.status_code == 200
        assert (
            answer.content
            == (folder / "files" / f"{name.replace('%2B', '+').replace('%2b', '+')}{suffix}").read_bytes()
        )
        assert answer.headers["cache-control"] == "max-age=31536000, immutable"
        assert answer.headers["content-type"] == "application/octet-stream"
    part = client.get(f"/files/{name}", headers={"Range": "bytes=0-3"})
    assert (part.status_code, part.content) == (206, b"PK\x03\x04")


@pytest.mark.parametrize(
    "path",
    [
        *("/simple/nobody-knows/", "/cu129/simple/", "/cu129/simple/torch/", "/files/", "/files", "/files/none.whl"),
        *("/nothing", "/cu128/nothing", "/simple/torch/nothing", "/simple/torch/index.html/"),
        *(
            "/simple/..%2f..%2fetc/passwd",
            "/%2e%2e/%2e%2e/etc/passwd/",
            "/link",
            "/link/",
        ),
    ],
)
def test_what_is_not_there_is_404(client: Client, folder: Path, path: str) -> None:
    (folder / "link").unlink(missing_ok=True)
    (folder / "link").symlink_to("/etc/hostname")
    answer = client.get(path)
    assert answer.status_code in ({400, 404} if "%2" in path else {404})
    assert "cache-control" not in answer.headers


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/simple", "/simple/"),
        ("/simple/torch", "/simple/torch/"),
        ("/cu128/simple", "/cu128/simple/"),
        ("/cu128", "/cu128/"),
    ],
)
def test_a_missing_slash_is_added_by_a_relative_redirect(client: Client, path: str, target: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.headers["location"]) == (301, target)


def test_pages_for_people_come_with_a_strict_policy(client: Client) -> None:
    for path in ("/", "/cu128/", "/index.html"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.get("/style.css").headers["content-type"].startswith("text/css")


def test_a_new_state_is_served_without_a_reload_and_without_a_warning(tmp_path: Path) -> None:
    site = write_site(tmp_path / "site")
    (tmp_path / "conf").mkdir()
    with nginx(tmp_path / "conf", site) as client:
        for path in ("/simple/torch-cpu/", "/simple/", f"/files/{WHEEL}", "/nothing", "/simple"):
            client.page(path)
        assert "[warn]" not in (tmp_path / "conf" / "error.log").read_text()
        assert client.page("/simple/torch-xpu/").status_code == 404
        write_site(site, wrappers=["torch_xpu-2.10.0-py3-none-any.whl"])
        assert client.listing("/simple/torch-xpu/")


@pytest.mark.clients
def test_pip_and_uv_install_from_it(client: Client, tmp_path: Path) -> None:
    index = f"{client.base_url}/simple/".replace("//simple", "/simple")
    envs.run("pip", ["download", "--no-deps", "torch-cpu", "--index-url", index], cwd=tmp_path)
    assert [path.name for path in tmp_path.glob("*.whl")] == [LABELLED]
    python = str(require_interpreter("3.12", "3.11"))
    envs.run("uv", ["venv", "--no-project", "env", "--python", python], cwd=tmp_path)
    target = str(tmp_path / "env" / "bin" / "python")
    install = ["pip", "install", "--no-deps", "--python", target, "torch-cpu==2.9.1", "--default-index", index]
    assert "torch-cpu==2.9.1" in envs.run("uv", install, cwd=tmp_path).stderr
