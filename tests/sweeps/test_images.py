"""Images in the requests of a simulated engine: their tokens, the encoder's time, and the verbs that take them."""

import argparse
import dataclasses
import json
import shlex

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sweeps
import workloads
from jaxroof.batch import Batch, Decode, Encode, Policy, Prefill, Traffic
from jaxroof.jobs.composition import Requests, prefill_batch
from jaxroof.numerics.arrays import eager
from jaxroof.op import Kernel
from jaxroof.prices.prices import step_price, step_prices
from jaxroof.prices.tables import Limits
from jaxroof.scheduler import Size, begin
from jaxroof.steady.steady_state import Demand, step_times
from jaxroof.steady.step_costs import step_costs
from jaxroof.step.forward import step_ops
from jaxroof.step.step import step_time
from sweeps.ask.cases import case
from sweeps.ask.spec import spec
from sweeps.cli import serve as serve_verb
from sweeps.cli.serve_command import serve_command
from sweeps.run.answer import answer
from sweeps.run.precision import precision
from sweeps.run.simulated.load import load
from sweeps.run.simulated.plan import planned
from sweeps.run.simulated.spec import serve_spec
from sweeps.serving.run import setup
from sweeps.studies.compare.candidates import columns, room
from sweeps.studies.compare.question import question
from sweeps.studies.compare.search import search
from sweeps.studies.compare.words import AskedComparison
from sweeps.studies.optimize.spec import problem
from tests.commands import printed, refused
from tests.pool_commands import pool_command

pytestmark = [pytest.mark.xdist_group("serve"), pytest.mark.usefixtures("standard_promotion")]

PLACE = {"hardware": "H100-SXM", "model": "Qwen2.5-VL-7B"}
NAMES = ("--hardware", "H100-SXM", "--model", "Qwen2.5-VL-7B", "--efficiency", "derated")
LENGTHS = ("--isl", 256, "--osl", 3)
ALONE = ("--arrivals", "once", "--requests", 1, "--policy", "hidden_host=0")

UNLIMITED = {"efficiency": "derated", "overrides": {"hardware.power.tdp": "10kW"}}
"""Times of parts of a step add up where no limit of power stretches it."""

IMAGE, TOKENS, PATCHES = "1036x1036", 37 * 37, 74 * 74
"""37 x 37 squares of 28 pixels, each a token of the prompt and four patches."""


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--image", IMAGE),
        ("--image", f"{IMAGE},640x480"),
        ("--image", IMAGE, "--images", 3),
        ("--image", IMAGE, "--tp", 4),
    ],
)
def test_one_request_waits_for_its_first_token_as_long_as_request_says(capsys, words):
    """The whole prompt is one step, with the encoder's ops in front."""
    alone = json.loads(printed(capsys, "request", *NAMES, *LENGTHS, *words, "--json"))["metrics"]["ttft"]
    served = json.loads(printed(capsys, "serve", *NAMES, *LENGTHS, *words, *ALONE, "--json", progress=True))
    assert served["metrics"]["ttft_mean"] == pytest.approx(alone, rel=1e-6)


def test_images_given_again_are_a_list(capsys):
    both = [("--image", f"{IMAGE},640x480"), ("--image", IMAGE, "--image", "640x480")]
    once, again = (printed(capsys, "request", *NAMES, *LENGTHS, *words, "--json") for words in both)
    assert json.loads(once)["metrics"] == json.loads(again)["metrics"]


def test_tokens_of_images_lengthen_every_prompt():
    """Two images of 1,369 tokens: 2,738 beside the text, of 10,952 patches in two inputs of the encoder."""
    found = load(serve_spec(**PLACE, isl="uniform:10..90", osl=3, rate=2, requests=20, image=IMAGE, images=2))
    plain = load(serve_spec(**PLACE, isl="uniform:10..90", osl=3, rate=2, requests=20))
    np.testing.assert_array_equal(found.stream.isl, plain.stream.isl + 2 * TOKENS)
    assert found.traffic.encode == Encode(sequences=2.0, tokens=2.0 * PATCHES) and plain.traffic.encode is None
    assert "with 2 images of 1036x1036" in found.text and "image" not in plain.text
    assert found.stream.source == f"{plain.stream.source}; 2 images of 1036x1036"
    shared = load(serve_spec(**PLACE, isl=100, osl=3, rate=2, requests=20, image=IMAGE, hit_rate=0.5))
    assert set(shared.stream.shared) == {50.0} and set(shared.stream.isl) == {100.0 + TOKENS}  # of the text alone


def test_the_encoder_works_in_the_step_of_the_first_chunk():
    """1,625 tokens in four steps of 512 at most: beside as many tokens of text, the first step alone is longer."""
    chunks = {"policy": {"token_budget": 512}, "osl": 20, "arrivals": "once", "requests": 1, **UNLIMITED}
    seen = sweeps.serve(**PLACE, isl=256, image=IMAGE, **chunks).dataset
    read = sweeps.serve(**PLACE, isl=256 + TOKENS, **chunks).dataset
    seen_steps, read_steps = (found.isel(iteration=found.steps.values > 0) for found in (seen, read))
    assert list(seen_steps.prompt_tokens.values[:4]) == [512, 512, 512, 89]
    np.testing.assert_array_equal(seen_steps.steps, read_steps.steps)
    longer = seen_steps.iteration_time.values - read_steps.iteration_time.values
    np.testing.assert_allclose(longer[1:], 0.0, atol=1e-12)
    scenario = case("request", workload={"isl": 256 + TOKENS, "osl": 1}, **PLACE, **UNLIMITED).scenario
    place = scenario.hardware, scenario.model, scenario.deployment
    chunk = Batch(prefill=Prefill(sequences=1.0, tokens=512.0, past=0.0), decode=None, logits=0.0)
    image = dataclasses.replace(chunk, encode=Encode(sequences=1.0, tokens=float(PATCHES)))
    with eager():
        with_image, without = (float(step_time(*place, one, scenario.efficiency)) for one in (image, chunk))
    assert longer[0] == pytest.approx(with_image - without, rel=1e-3) and longer[0] > 0.015
    assert json.loads(seen.attrs["images"]) == {
        "sizes": [[1036, 1036]],
        "count": 1,
        "encoder_tokens": PATCHES,
        "encoder_inputs": 1,
        "prompt_tokens": TOKENS,
    }
    assert json.loads(seen.attrs["spec"])["image"] == IMAGE and "images" not in read.attrs
    assert "prompts are text" in read.attrs["notes"] and "prompts are text" not in seen.attrs["notes"]


@pytest.mark.parametrize("deployment", [{}, {"tp": 3}, {"tp": 8, "attention_dp": 4}])
def test_a_step_that_encodes_has_the_price_of_its_ops(deployment):
    """The images of one prompt and of seven, beside 13 decoding sequences, on nodes of the table: as `step_time`."""
    words = {**PLACE, **UNLIMITED, "deployment": deployment}
    scenario = case("request", workload={"isl": 8, "osl": 8}, check=False, **words).scenario  # 3 splits no encoder
    place = scenario.hardware, scenario.model, scenario.deployment, scenario.efficiency
    each = Encode(sequences=5.0, tokens=5.0 * 1024.0)
    with precision("float64"):
        arrays = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), place)
        _, price = step_prices(*arrays, Limits(rows=16384, sequences=16, context=2048), encode=each)
        for number in (1.0, 7.0):
            batch = Batch(
                prefill=Prefill(sequences=number, tokens=number * 1500.0, past=0.0),
                decode=Decode(sequences=13.0, context=13.0 * 1024.0),
                logits=13.0 + number,
            )
            images = Encode(sequences=number * 5.0, tokens=number * 5.0 * 1024.0)
            seen = dataclasses.replace(batch, encode=images)
            batch, seen = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), (batch, seen))
            rows = jnp.asarray(number * 1500.0 + 13.0)
            more = sum(price(seen, rows)) - sum(price(batch, rows))
            right = step_time(*arrays[:3], seen, arrays[3]) - step_time(*arrays[:3], batch, arrays[3])
            assert float(more) == pytest.approx(float(right), rel=1e-6)


def test_without_images_the_program_has_nothing_of_them():
    """Not a number more in what an iteration carries."""
    policy, size = Policy(), Size(slots=16, iterations=4)
    arrays = {"arrival": np.zeros(3), "isl": np.full(3, 9.0), "osl": np.full(3, 2.0)}
    plain = begin(Traffic(**arrays), policy, 100.0, size)
    seen = begin(Traffic(**arrays, encode=Encode(sequences=1.0, tokens=4.0)), policy, 100.0, size)
    assert plain.state.step.encodes is None and plain.engine.encode is None
    assert len(jax.tree.leaves(seen)) == len(jax.tree.leaves(plain)) + 3


def test_inputs_of_an_encoder_do_not_see_one_another():
    """Two images of 1,369 x 4 patches: twice the products of one, and twice its pairs, not four times."""
    model = workloads.model("Qwen2.5-VL-7B").model
    deployment = case("request", workload={"isl": 8, "osl": 8}, **PLACE).scenario.deployment

    def flops(inputs: float) -> dict[str, float]:
        asked = Requests(isl=3000.0, osl=1.0, encoder_tokens=2.0 * PATCHES, encoder_inputs=inputs)
        ops = step_ops(model, deployment, prefill_batch(asked, model, deployment))
        kernels = [op for op in ops.values() if op.layer == "encoder.0." and isinstance(op, Kernel) and op.matrix_flops]
        return {op.role: float(op.matrix_flops) for op in kernels}

    one, two = flops(1.0), flops(2.0)
    assert two.pop("attention") == pytest.approx(one.pop("attention") / 2.0) and one == two
    tiled = workloads.ImageTokens(rule="tiles", patch=14, side=448, merge=2, most_tiles=12)
    count = workloads.encoder_tokens(tiled, 1344, 896)  # 3 x 2 tiles, and the whole image at the size of one
    assert (count.inputs, count.encoder, count.language) == (7.0, 7 * 1024.0, 7 * 256.0)


def test_a_prompt_adds_its_images_to_the_steps_of_a_steady_state():
    """Hand-worked: 2 ms a prompt and 1 us a token; 5 us a patch of 300: 2 + 0.4 + 1.5 ms, in a part of a step too."""

    def price(batch, rows):
        encoded = 0.0 if batch.encode is None else 5e-6 * batch.encode.tokens
        return 2e-3 * (batch.logits - batch.decode.sequences) + 1e-6 * (rows - batch.decode.sequences) + encoded, 0.0

    means = {"prompt": 400.0, "cached": 0.0, "evenness": 1.0, "output": 9.0, "briefness": 1.0}
    seen = Demand(**means, context=450.0, held=450.0, encode=Encode(sequences=1.0, tokens=300.0))
    for budget in (8192.0, 108.0):
        times = step_times(price, Policy(token_budget=budget), seen, jnp.asarray(8.0))
        assert float(times.first) == pytest.approx(3.9e-3)


def test_a_comparison_pays_for_images_and_says_so():
    """Estimates alone: less load than of as many tokens of text; the row's simulation and its pools have the images."""
    keys = {"hardware": ["H100-SXM"], "max_devices": 2, "efficiency": "derated", "simulate": 0, "osl": 128}
    read = sweeps.compare(PLACE["model"], "ttft=1s,tpot=30ms", isl=256 + TOKENS, **keys)
    seen = sweeps.compare(PLACE["model"], "ttft=1s,tpot=30ms", isl=256, image=IMAGE, **keys)
    for plain, row in zip(read.rows[:2], seen.rows[:2], strict=True):
        assert row.metrics["load"] < 0.8 * plain.metrics["load"]
    pools = next(row for row in seen.rows if row.prefill is not None)
    plain = next(row for row in read.rows if row.prefill is not None)
    assert pools.metrics["load"] < 0.8 * plain.metrics["load"]
    spec = seen.rows[0].spec
    assert spec["image"] == IMAGE and load(serve_spec(**spec)).images.language == TOKENS
    words = shlex.split(serve_command(serve_spec(**spec)))
    assert words[words.index("--image") + 1] == IMAGE
    flags = argparse.ArgumentParser()
    serve_verb.arguments(flags)
    again = serve_verb.asked(flags.parse_args(words[2:]))
    assert (again.image, again.isl) == (IMAGE, "256")
    record = {"spec": pools.spec, "prefill": pools.prefill, "rank": 1, **pools.metrics}
    words = shlex.split(pool_command(record))
    assert words[words.index("--image") + 1] == IMAGE and words[words.index("--isl") + 1] == "256"


def test_estimated_steps_encode_at_what_it_costs_op_by_op():
    """Lines between powers of two of prompts: within 3 % of `step`, for one prompt and for six."""
    found = question(
        AskedComparison(
            model=PLACE["model"],
            slo="ttft=1s",
            load={"isl": 256, "osl": 9, "image": IMAGE},
            hardware=["H100-SXM"],
            devices=[1],
        )
    )
    options, needs = found.options, found.requests.demand(True)
    with eager():
        (group,) = columns(options, room(options).legal, 128)
        place = group.hardware, options.model.model, group.deployment
        costs = step_costs(*place, options.efficiency, needs.context, needs.encode)
        price = step_price(costs.cost, *place, (float(options.efficiency.host.step_time), 0.0))
        for prompts in (1.0, 6.0):
            shaped = np.full((1, 1), prompts)
            step = Batch(
                prefill=Prefill(sequences=shaped, tokens=shaped * 1625.0, past=0.0 * shaped),
                decode=Decode(sequences=0.0 * shaped, context=0.0 * shaped),
                logits=shaped,
                encode=Encode(sequences=shaped, tokens=shaped * PATCHES),
            )
            time = float(np.ravel(sum(price(step, shaped * 1625.0)))[0])
            work = {"prefill": 1625, "prefills": prompts, "encoder_tokens": PATCHES}
            exact = answer(case("step", workload=work, **PLACE)).metrics["step_time"]
            assert time == pytest.approx(exact, rel=0.03)


def test_the_closed_form_of_an_optimum_encodes_as_a_comparison_does():
    """Largest rates of an engine by its steady state, priced op by op and from coarse tables."""
    load_of = {"isl": 256, "osl": 128, "image": IMAGE}
    words = {"hardware": ["H100-SXM"], "devices": [1], "efficiency": "derated", "policy": {"token_budget": 8192}}
    compared = question(AskedComparison(model=PLACE["model"], slo="ttft=1s,tpot=30ms", load=load_of, **words))
    rate = float(np.nanmax(search(compared, "requests_per_second", simulated=0).estimate.load))
    sought = {
        "job": "serve",
        **PLACE,
        "efficiency": "derated",
        "slo": "ttft=1s,tpot=30ms",
        "workload": load_of,
        "policy": {"token_budget": 8192},
        "axes": {"hardware.memory.hbm.bandwidth": {"from": "1TB/s", "to": "8TB/s"}},
        "optimize": {"minimize": "ttft_mean"},
    }
    member = problem(sought).flat[0].evaluator
    assert member.metrics(np.array([[3.35e12]]))["capacity"][0] == pytest.approx(rate, rel=0.05)
    with pytest.raises(ValueError, match="images are not the same tokens to several models"):
        problem({**sought, "model": [PLACE["model"], "Gemma-3-27B"]})


def test_a_prefill_pool_runs_the_encoder(capsys):
    """The prompt of an image takes as much longer than text in a pool as in `request`."""
    words = [("--isl", 256, "--image", IMAGE), ("--isl", 256 + TOKENS)]
    more = []
    for verb in ("request", "disaggregate"):
        found = [json.loads(printed(capsys, verb, *NAMES, *one, "--osl", 9, "--json"))["metrics"] for one in words]
        more.append(found[0]["ttft"] - found[1]["ttft"])
    assert more[0] > 0.015 and more[1] == pytest.approx(more[0], rel=0.05)  # less of the transfer stands out


def test_a_capacity_pays_for_images(capsys):
    words = ("--osl", 8, "--requests", 40, "--slo", "ttft=200ms", "--rates", "8,64", "--tolerance", "10%", "--json")
    seen, read = (
        json.loads(printed(capsys, "capacity", *NAMES, *one, *words, progress=True))
        for one in (("--isl", 256, "--image", IMAGE), ("--isl", 256 + TOKENS))
    )
    first, second = (found["rows"][0]["capacity"] for found in (seen, read))
    assert first < 0.9 * second and seen["images"]["sizes"] == [[1036, 1036]] and "images" not in read


def test_a_sweep_of_simulations_varies_images():
    """Sizes along an axis, for two models: 37 x 37 and 23 x 17 tokens of Qwen's, and its name is the user's."""
    _, plan = planned(
        spec(
            {
                "job": "serve",
                **PLACE,
                "efficiency": "derated",
                "workload": {"isl": 100, "osl": 4, "rate": 1, "requests": 3},
                "axes": {"workload.image": [IMAGE, "640x480"]},
            }
        )
    )
    assert [point.workload.traffic.isl[0] for point in plan._simulations] == [100 + TOKENS, 100 + 23 * 17]
    assert [point.workload.traffic.encode.tokens for point in plan._simulations] == [PATCHES, 4 * 23 * 17]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--image", "1036"), "image = '1036' must be WIDTHxHEIGHT in pixels, such as 1024x768"),
        (("--image", f"{IMAGE},0x5"), "image = '0x5' must be WIDTHxHEIGHT in pixels"),
        (("--image", "4000x10"), "an image of 4000 x 10 pixels; its sides may differ by a factor of 200"),
        (("--images", 2), "images = 2 counts images of image = WIDTHxHEIGHT, which is missing"),
        (("--image", IMAGE, "--images", "1.5"), "images = '1.5' must be"),
        (("--image", IMAGE, "--images", "0"), "images = '0' must be"),
        (("--image", IMAGE, "--images", "9e9"), "at most 10,000,000 are possible"),
        (("--image", IMAGE, "--sessions", "turns=2..3,think=5"), "image = '1036x1036' cannot be given with sessions"),
    ],
)
@pytest.mark.parametrize("verb", ["serve", "capacity", "compare"])
def test_images_that_cannot_be_are_refused(capsys, verb, words, said):
    names = ("--model", PLACE["model"], "--hardware", "H100-SXM", "--isl", 9, "--osl", 3)
    more = ("--rate", 1) if verb == "serve" else ("--slo", "ttft=1s")
    assert said in refused(capsys, verb, *names, *more, *words)


def test_a_model_that_reads_sees_no_images(capsys):
    names = ("--model", "Llama-3.1-8B", "--hardware", "H100-SXM", "--isl", 9, "--osl", 3, "--image", IMAGE)
    for words in (("serve", "--rate", 1), ("capacity", "--slo", "ttft=1s"), ("compare", "--slo", "ttft=1s")):
        assert "image = '1036x1036', but Llama-3.1-8B sees no images" in refused(capsys, *words, *names)


def test_static_batches_are_text(capsys):
    words = ("compare", "--model", PLACE["model"], *LENGTHS, "--static", "--image", IMAGE)
    assert "--image cannot be given with --static" in refused(capsys, *words)


def test_the_setup_of_a_simulation_counts_images_in_lengths():
    """128,000 positions: 93 images of 1,369 tokens are more."""
    found = setup(serve_spec(**PLACE, efficiency="derated", isl=900, osl=4, rate=1, requests=2, image=IMAGE, images=93))
    assert any("longer than the model's" in note for note in found.notes)
