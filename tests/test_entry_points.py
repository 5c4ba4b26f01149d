"""Entry points of Python: their words and help, what their answers show, and that they are those of the verbs."""

import inspect
import json
import pydoc
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import jaxroof
import sweeps
from hwspaces.files.extras import installing
from sweeps.answers.brief import LINES, WIDTH
from sweeps.answers.to_json import json_text
from sweeps.cli import main
from sweeps.entries.result import Result
from tests import keywords

VERBS = (
    "request",
    "step",
    "train",
    "train_search",
    "price",
    "serve",
    "compare",
    "compare_static",
    "capacity",
    "service_capacity",
)
VERBS += ("sensitivity", "optimize", "collective", "fleet")

PLACE = {"hardware": "H100-SXM", "model": "Llama-3.1-8B", "efficiency": "derated"}
WORK = {"batch": 8, "isl": 512, "osl": 64}
LOAD = {"rate": 4, "isl": 256, "osl": 16, "requests": 20}


def softmax(x):
    return jax.nn.softmax(x @ x.T)


ARRAY = jax.ShapeDtypeStruct((256, 512), jnp.bfloat16)

ASKED = {
    "request": lambda: sweeps.request(**PLACE, workload=WORK),
    "step": lambda: sweeps.step(**PLACE, workload={"decode": 8, "context": 512}),
    "train": lambda: sweeps.train(**PLACE, workload={"global_batch": 8, "seq": 1024}, deployment={"dp": 8}),
    "train_search": lambda: sweeps.train_search(**PLACE, devices=4, workload={"global_batch": 8, "seq": 1024}),
    "price": lambda: sweeps.price(softmax, ARRAY, hardware="H100-SXM"),
    "rows of price": lambda: sweeps.price(softmax, ARRAY, hardware=["H100-SXM", "MI300X"]),
    "serve": lambda: sweeps.serve(**PLACE, **LOAD, slo="ttft=500ms"),
    "compare": lambda: sweeps.compare(
        PLACE["model"], "ttft=1s,tpot=50ms", isl=512, osl=64, hardware=["H100-SXM"], devices=range(1, 3), simulate=0
    ),
    "compare_static": lambda: sweeps.compare_static(PLACE["model"], 512, 64, hardware=["H100-SXM"], devices=[1, 2]),
    "sensitivity": lambda: sweeps.sensitivity(**PLACE, workload=WORK, metrics=["tpot"], knobs=["hardware.memory.hbm"]),
    "maps": lambda: sweeps.sensitivity(
        **PLACE, workload={**WORK, "batch": [1, 8]}, metrics=["tpot"], knobs=["hardware.memory.hbm"]
    ),
    "collective": lambda: sweeps.collective("H100-SXM", 8, size="1MiB..64MiB"),
}
"""Answers that take a moment; those of searches and of optima are below."""


@pytest.fixture(scope="module")
def answers():
    made: dict = {}

    def answer(name):
        if name not in made:
            made[name] = ASKED[name]()
        return made[name]

    return answer


@pytest.mark.parametrize("name", ASKED)
def test_an_answer_shows_its_short_form(name, answers):
    found = answers(name)
    assert isinstance(found, Result)
    lines = repr(found).splitlines()
    assert 2 < len(lines) <= LINES and max(map(len, lines)) <= WIDTH
    assert ".table()" in lines[-1] and "--" not in lines[-1] and " -v" not in repr(found)
    page = found._repr_html_()
    assert page.count("<tr") <= 12 and page.startswith("<div><p>") and "<table" in page
    assert len(found.text()) > len(repr(found)) / 2


@pytest.mark.parametrize("name", ASKED)
def test_an_answer_has_a_table_a_dataset_and_a_record(name, answers, tmp_path):
    found = answers(name)
    table, dataset = found.table(), found.dataset
    assert isinstance(table, pd.DataFrame) and len(table)
    assert isinstance(dataset, xr.Dataset) and dataset.data_vars
    assert all("units" in dataset[each].attrs for each in dataset.data_vars if not str(each).startswith("kv_"))
    dataset.to_netcdf(tmp_path / "out.nc")
    json.loads(json_text(found.record()))
    assert hasattr(dataset, "jaxroof")


@pytest.mark.parametrize("name", ASKED)
def test_an_answer_has_a_picture(name, answers):
    figure = pytest.importorskip("matplotlib.figure")
    assert isinstance(answers(name).plot(), figure.Figure)


COMMANDS = {
    "request": "request --hardware H100-SXM --model Llama-3.1-8B --efficiency derated --batch 8 --isl 512 --osl 64",
    "step": "step --hardware H100-SXM --model Llama-3.1-8B --efficiency derated --decode 8 --context 512",
    "train": "train --hardware H100-SXM --model Llama-3.1-8B --efficiency derated --global-batch 8 --seq 1024 --dp 8",
    "train_search": "train --search --hardware H100-SXM --model Llama-3.1-8B --efficiency derated --global-batch 8 "
    "--seq 1024 --devices 4",
    "collective": "collective --hardware H100-SXM --devices 8 --size 1MiB..64MiB",
    "compare_static": "compare --static --model Llama-3.1-8B --isl 512 --osl 64 --hardware H100-SXM --devices 1,2",
    "compare": "compare --model Llama-3.1-8B --isl 512 --osl 64 --hardware H100-SXM --devices 1,2 --simulate 0 "
    "--slo ttft=1s,tpot=50ms",
    "sensitivity": "sensitivity --hardware H100-SXM --model Llama-3.1-8B --efficiency derated --batch 8 --isl 512 "
    "--osl 64 --metric tpot --knob hardware.memory.hbm",
}


LEFT_OUT = ("seconds", "estimate_seconds", "command")
"""Keys of a record: how long making it took, and the words of the command."""


def without_times(record):
    """A record without these."""
    if isinstance(record, dict):
        return {key: without_times(each) for key, each in record.items() if key not in LEFT_OUT}
    return [without_times(each) for each in record] if isinstance(record, list) else record


@pytest.mark.parametrize("name", COMMANDS)
def test_answers_are_those_of_the_command(name, answers, capsys):
    assert main([*COMMANDS[name].split(), "--json"]) == 0
    assert without_times(json.loads(json_text(answers(name).record()))) == without_times(
        json.loads(capsys.readouterr().out)
    )


def test_a_capacity_and_an_optimum():
    found = sweeps.capacity(
        PLACE["model"], "H100-SXM", "ttft=1s", isl=128, osl=8, requests=10, rates=[1.0, 4.0], efficiency="derated"
    )
    assert len(repr(found).splitlines()) <= LINES and found.table().hardware.item() == "H100-SXM"
    assert found.capacities[0].state == "more" and found.dataset.capacity.item() >= 4.0
    axes = {"hardware.memory.hbm.bandwidth": {"from": "2TB/s", "to": "4TB/s"}}
    best = sweeps.optimize(
        **PLACE,
        job="step",
        workload={"decode": 8, "context": 128},
        axes=axes,
        optimize={"minimize": "step_time", "starts": 2, "grid": 100},
    )
    assert len(repr(best).splitlines()) <= LINES and len(best.table())
    assert best.dataset.hbm_bandwidth.values[0] == pytest.approx(4e12, rel=1e-6)


def test_several_routers_are_one_answer():
    found = sweeps.serve(**PLACE, **LOAD, deployment={"dp": 2}, router="round_robin,random")
    assert found.dataset.sizes["router"] == 2 and list(found.table().index) == ["round_robin", "random"]
    assert set(found.simulations) == {"round_robin", "random"} and len(repr(found).splitlines()) <= LINES


@pytest.mark.parametrize("name", ASKED)
def test_an_answer_is_a_report(name, answers, tmp_path):
    pytest.importorskip("altair", reason=installing("report"))
    page = tmp_path / "page.html"
    answers(name).report(page)
    assert "H100-SXM" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("package", [sweeps, jaxroof])
def test_dir_lists_public_names_only(package):
    assert dir(package) == sorted([*package.__all__, "__version__"])


@pytest.mark.parametrize("name", VERBS)
def test_help_fits_a_screen_and_has_an_example(name):
    shown = pydoc.plain(pydoc.render_doc(getattr(sweeps, name)))
    lines = [part for line in shown.splitlines() for part in textwrap.wrap(line, 100) or [""]]
    words = len(inspect.signature(getattr(sweeps, name)).parameters)
    # A verb of few words fits 40 lines; those with the words of a load or of a specification name each of them.
    assert len(lines) <= (40 if words < 20 else 60), len(lines)
    assert "Example:" in shown and f"sweeps.{name}(" in shown


def test_an_unknown_word_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="there is no key worklod|there is no key efficency; did you mean efficiency"):
        sweeps.request("H100-SXM", "Llama-3.1-8B", workload=WORK, efficency="derated")


def test_types_of_words_are_those_of_the_declarations():
    assert keywords.PAGE.read_text(encoding="utf-8") == keywords.page(), "python -m tests.keywords writes them anew"


NUMBERS = {
    "NumPy's": (np.int64, np.float32, lambda *ends: np.arange(*ends)),
    "JAX's": (jnp.int32, jnp.float32, lambda *ends: jnp.arange(*ends)),
    "ranges": (int, np.float64, range),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_of_any_kind_are_those_of_python(kind, answers):
    whole, real, several = NUMBERS[kind]
    work = {name: whole(value) for name, value in WORK.items()}
    assert sweeps.request(**PLACE, workload=work).metrics == answers("request").metrics
    step = sweeps.step(**PLACE, workload={"decode": real(8), "context": whole(512)}, deployment={"tp": whole(1)})
    assert step.metrics == answers("step").metrics
    train = {"global_batch": whole(8), "seq": real(1024)}
    assert sweeps.train(**PLACE, workload=train, deployment={"dp": whole(8)}).metrics == answers("train").metrics
    load = {"rate": real(4), "isl": whole(256), "osl": real(16), "requests": whole(20)}
    assert sweeps.serve(**PLACE, **load, slo={"ttft": real(0.5)}).metrics == answers("serve").metrics
    words = {"isl": whole(512), "osl": whole(64), "hardware": ["H100-SXM"], "simulate": whole(0)}
    asked = {"ttft": real(1.0), "tpot": 0.05}
    found = sweeps.compare(PLACE["model"], asked, devices=several(1, 3), **words)
    assert [row.metrics for row in found.rows] == [row.metrics for row in answers("compare").rows]
    static = sweeps.compare_static(PLACE["model"], whole(512), real(64), hardware=["H100-SXM"], devices=several(1, 3))
    assert static.rows == answers("compare_static").rows
    sizes = [real(2**20), whole(2**22)]
    assert sweeps.collective("H100-SXM", whole(8), size=sizes, stride=whole(1)).table().shape[0] == 2
    symbol = jax.ShapeDtypeStruct((jax.export.symbolic_shape("b")[0], 512), jnp.bfloat16)
    priced = sweeps.price(softmax, symbol, hardware="H100-SXM", over={"b": several(255, 257)})
    assert priced.table().b.tolist() == [255.0, 256.0]
    exact = sweeps.sensitivity(**PLACE, workload=work, metrics=["tpot"], knobs=["hardware.memory.hbm"])
    assert exact.table().equals(answers("sensitivity").table())
