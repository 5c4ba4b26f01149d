"""Server of the explorer: one address, its own page alone, refusals in one line, its end."""

import contextlib
import http.client
import json
import re
import signal
import socket
import sys
import time
from urllib.parse import urlsplit

import pytest

import sweeps.ui
from sweeps.cli import main
from tests.ui.browser import begun


def got(address: str, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    """Status, headers in lower case and body of an answer."""
    with contextlib.closing(http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)) as connection:
        connection.request("GET", path, headers={key.replace("_", "-"): value for key, value in headers.items()})
        response = connection.getresponse()
        found = {key.lower(): value for key, value in response.getheaders()}
        return response.status, found, response.read().decode()


def test_the_page_and_its_files_name_nothing_outside(address):
    for path, kind in (("/", "text/html"), ("/page/page.js", "text/javascript"), ("/page/page.css", "text/css")):
        status, headers, text = got(address, path)
        assert status == 200 and headers["content-type"].startswith(kind)
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        # The one address is a name of SVG's elements, which is not asked for.
        assert set(re.findall(r"\w+://[^\s\"')]*", text)) <= {"http://www.w3.org/2000/svg"}
    assert got(address, "/page/../state.py")[0] == got(address, "/page/%2e%2e/state.py")[0] == 404


def test_an_answer_and_a_refusal_are_json(address):
    status, headers, text = got(address, "/answer?model=Llama-3.1-8B&tp=1")
    answer = json.loads(text)
    assert status == 200 and headers["content-type"] == "application/json"
    assert answer["command"].startswith("jaxroof request --hardware H200-SXM --model Llama-3.1-8B --batch 16")
    assert len(json.loads(got(address, "/curve?model=Llama-3.1-8B&tp=1")[2])["batch"]) == 11
    for query in ("tp=x", "model=none", "tp=3", "%ff=%00", "batch=" + "1" * 3000):
        status, _, text = got(address, f"/answer?{query}")
        error = json.loads(text)["error"]
        assert status == 422 and error and "\n" not in error


@pytest.mark.parametrize(
    "path, headers",
    [
        ("/", {"Host": "evil.example"}),
        ("/answer", {"Host": "evil.example:80"}),
        ("/", {"Host": "127.0.0.1"}),
        ("/answer", {"Origin": "https://evil.example"}),
        ("/answer", {"Origin": "null"}),
        ("/answer", {"Sec_Fetch_Site": "cross-site"}),
        ("/page/page.js", {"Sec_Fetch_Site": "same-site"}),
    ],
)
def test_other_pages_are_refused(address, path, headers):
    status, _, text = got(address, path, **headers)
    assert status == 403 and text.startswith("this server answers") and "\n" not in text


def test_a_link_from_elsewhere_opens_the_page_and_localhost_is_this_machine(address):
    assert got(address, "/?tp=2", Sec_Fetch_Site="cross-site")[0] == 200
    port = urlsplit(address).port
    assert got(address, "/answer", Host=f"localhost:{port}", Origin=f"http://localhost:{port}")[0] == 200


def test_only_this_machine_is_listened_on(address):
    port = urlsplit(address).port
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for other in others | {"127.0.0.2"}:
        with pytest.raises(OSError):
            socket.create_connection((other, port), timeout=2).close()


def test_a_port_in_use_is_one_line(address, capsys):
    port = urlsplit(address).port
    assert main(["ui", "--no-open", "--port", str(port)]) == 2
    line = f"jaxroof ui: port {port}: Address already in use; --port N takes another one, --port 0 a free one\n"
    assert capsys.readouterr().err == line


@pytest.mark.parametrize("words", [["--port", "65536"], ["--port", "x"], ["--port", "-1"]])
def test_flags_are_refused_in_one_line(words, capsys):
    assert main(["ui", "--no-open", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"jaxroof ui: {words[0]}") and error.count("\n") == 1


def test_without_the_extra_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    # As if nothing had imported the server yet.
    monkeypatch.delitem(sys.modules, "sweeps.ui.app", raising=False)
    monkeypatch.delattr(sweeps.ui, "app", raising=False)
    assert main(["ui", "--no-open"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("jaxroof ui: the explorer needs Starlette and uvicorn: pip install ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_with_a_line(address, number, status):
    with begun("--port", "0") as running:
        own = running.stdout.readline().split()[3]
        assert got(own, "/")[0] == 200
        stopped = time.perf_counter()
        running.send_signal(number)
        assert running.wait(10) == status and time.perf_counter() - stopped < 5.0
        assert running.stderr.read() == f"jaxroof ui: stopped by {signal.Signals(number).name}\n"
