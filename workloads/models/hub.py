"""Configs of models beyond the catalogue, fetched from the Hugging Face Hub by their names."""

import functools
import json
import os
import pathlib
import re
import socket
import urllib.parse
import urllib.request
from typing import Any, NoReturn

from workloads.precisions.quantization import FILES

REPOSITORY = re.compile(r"(?!\.)[\w.-]{1,96}/(?!\.)[\w.-]{1,96}")
"""The name of a repository of the Hub: OWNER/NAME."""

CONFIG = "config.json"

HUB = "https://huggingface.co"

PATIENCE = 5.0
"""s until a host that does not answer is one that cannot be reached."""


def is_repository(name: str) -> bool:
    """Whether `name` could be that of a repository of the Hub."""
    return REPOSITORY.fullmatch(name) is not None and ".." not in name and "--" not in name


@functools.cache
def fetched(name: str, unknown: str) -> pathlib.Path:
    """The config of the repository `name`, in the Hub's cache on this machine, its quantisation's files beside it.

    Nothing is fetched twice: what is in the cache is used, and asked for again only to see whether it is still the
    newest. The environment says where the Hub is (HF_ENDPOINT), where the cache is (HF_HUB_CACHE), and that nothing may
    be fetched (HF_HUB_OFFLINE).

    Args:
      name: of a repository, OWNER/NAME.
      unknown: the line that says why it is not known without the Hub, with which refusals begin.

    Raises:
      ValueError: one line: huggingface_hub is not installed, the Hub cannot be reached, or it has no such file; with
        what to install or where to put the file.
    """
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ImportError:
        _refused(name, unknown, "pip install huggingface_hub fetches it")
    disable_progress_bars()
    # The variables of huggingface_hub itself, so that one setting serves both.
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    # Asked before the client is: its own retries take half a minute.
    reached = not offline and _reached(os.environ.get("HF_ENDPOINT") or HUB)
    words: dict[str, Any] = {
        "repo_id": name,
        "endpoint": os.environ.get("HF_ENDPOINT") or None,
        "cache_dir": os.environ.get("HF_HUB_CACHE") or None,
        "local_files_only": not reached,
    }
    try:
        path = pathlib.Path(hf_hub_download(filename=CONFIG, **words))
        # A config that says how it is quantised needs no second file.
        if "quantization_config" not in json.loads(path.read_text(encoding="utf-8")):
            for file in FILES:
                try:
                    hf_hub_download(filename=file, **words)
                except EntryNotFoundError:  # that it is not in the cache, offline, is one too
                    continue
    except json.JSONDecodeError:
        return path  # its reader says what is wrong with it
    except Exception as error:  # of the Hub's client, of HTTP, of the file system: whatever it is, nothing was fetched
        _refused(name, unknown, _why(error, offline, reached))
    return path


def _reached(endpoint: str) -> bool:
    """Whether somebody listens there: the client itself tries for half a minute. Behind a proxy it has to."""
    url = urllib.parse.urlsplit(endpoint)
    # A proxy may reach what this machine cannot connect to.
    if url.scheme in urllib.request.getproxies():
        return True
    try:
        port = url.port or (80 if url.scheme == "http" else 443)
        socket.create_connection((url.hostname or "", port), PATIENCE).close()
    except (OSError, ValueError):
        return False
    return True


def _why(error: Exception, offline: bool, reached: bool) -> str:
    """In a few words, why a file was not fetched."""
    if offline:
        return "HF_HUB_OFFLINE is set, and the cache does not have it"
    if not reached:
        return "the Hub cannot be reached, and the cache does not have it"
    # By name, as importing the client's classes is not worth it for words.
    kind = type(error).__name__
    known = {
        "RepositoryNotFoundError": "the Hub has no such repository, or it is private (hf auth login)",
        "GatedRepoError": "its owner asks for an agreement on the Hub first (then hf auth login)",
        "RemoteEntryNotFoundError": f"the repository has no {CONFIG}",
        "EntryNotFoundError": f"the repository has no {CONFIG}",
        "RevisionNotFoundError": "the repository is empty",
        "HFValidationError": "it is no name of a repository",
    }
    if kind in known:
        return known[kind]
    return f"the Hub did not give it ({kind})"


def _refused(name: str, unknown: str, why: str) -> NoReturn:
    folder = name.rpartition("/")[2]
    raise ValueError(f"{unknown}; its {CONFIG} is not here: {why}, or put it at {folder}/{CONFIG} and name ./{folder}")
