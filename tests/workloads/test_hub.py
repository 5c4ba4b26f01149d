"""Configs of the Hub by the names of their repositories, of a server on this machine that stands in for it."""

import hashlib
import http.server
import json
import sys
import threading

import pytest

import workloads
from jaxroof.memory.capacity import parameter_count
from sweeps.cli import main
from workloads.models import hub

pytest.importorskip("huggingface_hub")

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 100,
    "torch_dtype": "bfloat16",
}
FP8 = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
FILES = {
    "maker/plain-7b/config.json": LLAMA,
    "maker/quantised-7b/config.json": LLAMA,
    "maker/quantised-7b/hf_quant_config.json": FP8,
    "maker/odd-7b/config.json": LLAMA | {"model_type": "oddity", "architectures": ["OddForCausalLM"]},
}


class Hub(http.server.BaseHTTPRequestHandler):
    """Answers as the Hub does for files of `FILES`."""

    asked: list[str] = []

    def do_HEAD(self):
        self._answer(body=False)

    def do_GET(self):
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        self.asked.append(self.path)
        repository, _, file = self.path.lstrip("/").partition("/resolve/main/")
        found = FILES.get(f"{repository}/{file}")
        if found is None:
            known = any(path.startswith(f"{repository}/") for path in FILES)
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound" if known else "RepoNotFound")
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        content = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *words) -> None:
        pass


@pytest.fixture(scope="module")
def server():
    """Address of the stand-in."""
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=served.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{served.server_address[1]}"
    served.shutdown()
    served.server_close()
    thread.join()


@pytest.fixture
def online(server, tmp_path, monkeypatch):
    """The environment of a machine that reaches the stand-in, with an empty cache."""
    monkeypatch.setenv("HF_ENDPOINT", server)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    for module in [name for name in sys.modules if name.startswith("huggingface_hub")]:
        monkeypatch.delitem(sys.modules, module)  # which reads the environment when it is imported
    hub.fetched.cache_clear()
    Hub.asked.clear()
    yield
    hub.fetched.cache_clear()


def test_a_repository_is_read_by_its_name(online):
    # 2 layers: attention 64 (64 + 2 * 32) + 64^2, feed-forward 3 * 64 * 96, norms 128; embedding and head; a norm.
    entry = workloads.model("maker/plain-7b")
    assert parameter_count(entry.model) == 2 * (64 * 128 + 4096 + 18432 + 128) + 2 * 6400 + 64
    assert entry.name == "maker/plain-7b" and entry.source == f"maker/plain-7b on the Hub, {COMMIT[:12]}"
    assert entry.notes == ("maker/plain-7b is not in the catalogue: its config.json is the Hub's",)


def test_a_file_beside_the_config_says_how_weights_are_stored(online):
    entry = workloads.model("maker/quantised-7b")
    assert entry.precision.startswith("fp8") and entry.precision_source == "hf_quant_config.json"


def test_it_is_fetched_once_and_then_from_the_cache(online, monkeypatch):
    first = workloads.model("maker/plain-7b")
    asked = len(Hub.asked)
    assert workloads.model("maker/plain-7b") == first and len(Hub.asked) == asked
    hub.fetched.cache_clear()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert workloads.model("maker/plain-7b") == first and len(Hub.asked) == asked


def test_a_type_that_is_not_known_is_read_as_another(online):
    with pytest.raises(ValueError, match="maker/odd-7b: model_type 'oddity' is not covered yet"):
        workloads.model("maker/odd-7b")
    assert workloads.model("maker/odd-7b as llama").model == workloads.model("maker/plain-7b").model


@pytest.mark.parametrize(
    ("name", "why"),
    [("maker/no-7b", "the Hub has no such repository"), ("maker/plain-8b", "the Hub has no such repository")],
)
def test_what_the_hub_does_not_have(online, name, why):
    folder = name.partition("/")[2]
    with pytest.raises(ValueError) as caught:
        workloads.model(name)
    assert why in str(caught.value) and f"put it at {folder}/config.json and name ./{folder}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nobody_to_ask(online, monkeypatch, capsys):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # where nobody listens
    assert main(["models", "maker/plain-7b"]) == 2
    assert "the Hub cannot be reached, and the cache does not have it" in capsys.readouterr().err
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert main(["models", "maker/plain-7b"]) == 2
    assert "HF_HUB_OFFLINE is set, and the cache does not have it" in capsys.readouterr().err


def test_without_the_client_it_says_what_to_install(online, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(ValueError, match="pip install huggingface_hub fetches it, or put it at plain-7b/config.json"):
        workloads.model("maker/plain-7b")


def test_names_of_the_catalogue_ask_nobody(online):
    assert workloads.model("meta-llama/Llama-3.1-8B").name == "Llama-3.1-8B"
    with pytest.raises(ValueError, match="no model of this name in the catalogue"):
        workloads.model("no-such-model")
    with pytest.raises(ValueError, match="no model of this name in the catalogue"):
        workloads.model("a/b/c")
    assert Hub.asked == []
