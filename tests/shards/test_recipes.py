"""Recipes for clusters, as docs/guide/clusters.md has them: run as far as they go without a cluster."""

import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "guide" / "clusters.md"


def block(word: str) -> str:
    """The page's Python code that has a word in it."""
    found = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return next(code for code in found if word in code)


def test_the_job_script_of_slurm_is_the_one_on_the_page():
    pytest.importorskip("dask_jobqueue")
    code = block("SLURMCluster").replace('"ib0"', '"lo"').partition("cluster.scale")[0]
    names: dict = {}
    exec(code, names)
    with names["cluster"] as cluster:
        script = cluster.job_script()
    shown = re.search(r"```sh\n(#SBATCH.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1].splitlines()
    for line in shown[:-1]:
        assert line in script.splitlines()
    assert all(flag in script for flag in re.findall(r"--[a-z]+ (?:[\d.]+GiB|\d+)", shown[-1]))


def test_pods_of_kubernetes_have_the_volume_and_commands_that_are_there():
    pytest.importorskip("dask_kubernetes")
    names: dict = {}
    exec(block("KubeCluster").partition("cluster = KubeCluster")[0], names)
    for part in ("scheduler", "worker"):
        pod = names["spec"]["spec"][part]["spec"]
        assert pod["volumes"][0]["persistentVolumeClaim"] == {"claimName": "sweeps"}
        (container,) = pod["containers"]
        assert container["args"][:2] == ["dask", part]
        assert {"name": "NPROC", "value": "1"} in container["env"]


def test_the_page_names_what_workers_are_started_with():
    """In words of the page, whether or not the packages are installed."""
    from sweeps.run.cores import VARIABLE
    from sweeps.run.shards.api import MALLOC

    text = PAGE.read_text(encoding="utf-8")
    assert f"export {VARIABLE}=1" in text
    assert " ".join(f"{name}={value}" for name, value in MALLOC.items()) in text
