"""Simulated engines with real prices: what queueing theory and the request job say, metrics, gradients, bounds."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hwspaces
import workloads
from jaxroof.batch import STATUSES, Batch, Decode, Policy, Prefill, Served, Timeline, Traffic
from jaxroof.jobs.composition import Requests
from jaxroof.jobs.request import request_cost
from jaxroof.jobs.serve import LATENCIES, PERCENTILES, Objective, serving_metrics, weighted_percentile
from jaxroof.prices.prices import octave_interval, step_prices, visible_host_time
from jaxroof.prices.tables import Limits, octaves
from jaxroof.scheduler import Size, begin, proceed, served, simulate
from jaxroof.step.step import step_time
from sweeps.ask.cases import model_deployment
from sweeps.run.precision import precision
from workloads.streams.stream import Stream, kept, traffic
from workloads.streams.streams import generated

pytestmark = [pytest.mark.usefixtures("float64"), pytest.mark.xdist_group("serving")]

SIZE = Size(slots=16, iterations=1200, context=8192)
REQUESTS = 300


@pytest.fixture(scope="module")
def engine():
    """A device, a model, a deployment, an efficiency, as arrays."""
    with precision("float64"):
        entry = workloads.model("Llama-3.1-8B")
        efficiency = hwspaces.efficiency("derated")
        things = (
            hwspaces.hardware("H100-SXM").hardware,
            entry.model,
            model_deployment(entry, None),
            efficiency.efficiency,
        )
        return arrays(things)


@pytest.fixture(scope="module")
def stream():
    return generated("poisson:6", "lognormal:mean=700,sigma=0.5", "lognormal:mean=100,sigma=0.5", requests=REQUESTS)


@jax.jit
def run(engine, requests, policy):
    found, timeline = simulate(*engine, requests, policy, SIZE)
    return found, timeline, serving_metrics(found, timeline, requests, 4096.0, Objective(ttft=0.2, tpot=0.01))


@functools.partial(jax.jit, static_argnums=(0, 4))
def stepped(price, requests, policy, blocks, size):
    """What a simulation finds under prices that a test makes."""
    return served(*proceed(price, begin(requests, policy, blocks, size), requests, policy, size))


def arrays(tree):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), tree)


def test_one_server_waits_as_queueing_theory_says():
    """Poisson arrivals, equal service times, one slot: Lindley's recursion; rho / 2 (1 - rho) services on average."""
    service, requests = 0.05, 1500
    arrival = np.cumsum(np.random.Generator(np.random.PCG64(3)).exponential(service / 0.7, requests))
    queue = Traffic(arrival=jnp.asarray(arrival), isl=jnp.full(requests, 9.0), osl=jnp.full(requests, 1.0))
    policy = arrays(Policy(max_sequences=1.0))
    size = Size(slots=1, iterations=3 * requests)

    def price(batch, rows):
        return jnp.asarray(service), jnp.zeros(())

    found, _ = stepped(price, queue, policy, 1e4, size)
    start = np.zeros(requests)
    for i in range(requests):
        start[i] = max(arrival[i], start[i - 1] + service) if i else arrival[i]
    np.testing.assert_allclose(found.admitted, start, rtol=1e-12)
    np.testing.assert_allclose(found.finish, start + service, rtol=1e-12)
    wait = np.mean(found.admitted - found.arrival)
    assert wait == pytest.approx(0.7 / (2 * 0.3) * service, rel=0.25)


def test_one_request_at_a_time_is_the_request_job(engine):
    hardware, model, deployment, efficiency = engine
    isl, osl = np.ones(REQUESTS), np.zeros(REQUESTS)
    isl[:8], osl[:8] = [64, 100, 512, 700, 1024, 2000, 3000, 4000], [1, 2, 16, 100, 128, 200, 256, 300]
    arrival = np.where(osl > 0, np.arange(REQUESTS) * 100.0, np.inf)
    found, _, _ = run(engine, arrays(Traffic(arrival=arrival, isl=isl, osl=osl)), arrays(Policy()))
    none = np.zeros(8)
    requests = Requests(batch=np.ones(8), isl=isl[:8], osl=osl[:8], cached=none, acceptance=none, delay=none)
    requests = arrays(requests)
    cost = jax.vmap(lambda one: request_cost(hardware, model, deployment, one, efficiency))(requests)
    np.testing.assert_allclose((found.first_token - found.arrival)[:8], cost.ttft, rtol=2e-3)
    np.testing.assert_allclose((found.finish - found.arrival)[:8], cost.e2e, rtol=1e-3)


def test_prices_are_those_of_steps(engine):
    """On nodes exactly, between them within what tiles make; without a limit of power, which a step alone ignores."""
    limited, *others = engine
    power = dataclasses.replace(limited.power, tdp=jnp.asarray(1e6))
    hardware = dataclasses.replace(limited, power=power)

    @jax.jit
    def both(prompt, sequences, context):
        _, price = step_prices(hardware, *others, Limits(rows=4096, sequences=64, context=8192))
        batch = Batch(
            prefill=Prefill(sequences=2.0 * (prompt > 0).astype(float), tokens=prompt, past=jnp.zeros(())),
            decode=Decode(sequences=sequences, context=context),
            logits=sequences + 2.0 * (prompt > 0).astype(float),
        )
        device, host = price(batch, prompt + sequences)
        return device + host, step_time(hardware, *others[:2], batch, others[2])

    for values in ((0.0, 1.0, 100.0), (0.0, 64.0, 64 * 1024.0), (777.0, 13.0, 9000.0), (2048.0, 1.0, 33.0)):
        table, exact = both(*(jnp.asarray(value) for value in values))
        assert table == pytest.approx(float(exact), rel=1e-3)


def test_prices_are_those_of_static_batches(engine):
    """Micro-batches and the limit of power as in `request_cost`: also of fewer sequences than stages."""
    hardware, model, deployment, efficiency = engine
    deployment = dataclasses.replace(deployment, pp=jnp.asarray(4.0))
    host = dataclasses.replace(efficiency.host, request_time=jnp.zeros(()))
    efficiency = dataclasses.replace(efficiency, host=host)
    place = model, deployment

    @jax.jit
    def both(tdp, sequences, hidden):
        power = dataclasses.replace(hardware.power, tdp=tdp)
        limited = dataclasses.replace(hardware, power=power)
        zero = jnp.zeros(())
        _, price = step_prices(limited, *place, efficiency, Limits(4096, 64, 4096), zero, hidden)
        nothing = Prefill(sequences=zero, tokens=zero, past=zero)
        decoding = Decode(sequences=sequences, context=sequences * 1536.0)
        prompt = Prefill(sequences=zero + 1.0, tokens=zero + 2048.0, past=zero)
        none = Decode(sequences=zero, context=zero)
        asked = Requests(batch=sequences, isl=zero + 1535.0, osl=zero + 2.0, cached=zero, acceptance=zero, delay=zero)
        alone = dataclasses.replace(asked, batch=zero + 1.0, isl=zero + 2048.0)
        return (
            price(Batch(prefill=nothing, decode=decoding, logits=sequences), sequences),
            price(Batch(prefill=prompt, decode=none, logits=zero + 1.0), zero + 2048.0),
            request_cost(limited, *place, asked, efficiency).tpot,
            request_cost(limited, *place, alone, efficiency).ttft,
        )

    limits = float(hardware.power.static) + np.array([1000.0, 20.0])
    for tdp in limits:
        for sequences in (1.0, 3.0, 16.0):
            decoded, prefilled, tpot, ttft = both(*map(jnp.asarray, (tdp, sequences, 0.0)))
            assert sum(decoded) == pytest.approx(float(tpot), rel=1e-9)
            assert sum(prefilled) == pytest.approx(float(ttft), rel=1e-9)
    of_one = float(efficiency.host.sequence_time)  # of the prompt's first token, and far below the device's time
    free, tight = (both(jnp.asarray(tdp), jnp.asarray(1.0), jnp.asarray(1.0)) for tdp in limits)
    assert sum(free[1]) == pytest.approx(float(free[3]) - of_one, rel=1e-9)
    # Energy binds; what is hidden only moves the voltage at which the clock has fallen far enough.
    assert sum(tight[1]) == pytest.approx(float(tight[3]), rel=1e-3)


def test_the_host_works_for_the_sequences_beside_the_device(engine):
    """Hand-worked: 64 sequences at 20 us are 1.28 ms of the host, 2 s at 31.25 ms; 0.3 ms stay once per step."""
    *place, efficiency = engine

    @jax.jit
    def both(sequence_time, hidden):
        host = dataclasses.replace(efficiency.host, step_time=jnp.asarray(3e-4), sequence_time=sequence_time)
        own = dataclasses.replace(efficiency, host=host)
        _, price = step_prices(*place, own, Limits(4096, 64, 4096), 0.0, hidden)
        zero = jnp.zeros(())
        sequences = zero + 64.0
        batch = Batch(
            prefill=Prefill(sequences=zero, tokens=zero, past=zero),
            decode=Decode(sequences=sequences, context=sequences * 1024.0),
            logits=sequences,
        )
        return price(batch, sequences)

    device = float(both(jnp.asarray(20e-6), jnp.asarray(0.0))[0])
    assert 1.28e-3 < device < 2.0
    # after the device: 0.3 + 1.28 ms; beside it: 0.3 ms; longer than the device: the rest of it stands out
    for each, hidden, visible in ((20e-6, 0.0, 1.58e-3), (20e-6, 1.0, 0.3e-3), (31.25e-3, 1.0, 2.0003 - device)):
        time, host = both(jnp.asarray(each), jnp.asarray(hidden))
        assert float(time) == pytest.approx(device, rel=1e-9)
        assert float(host) == pytest.approx(visible, rel=1e-6)


@pytest.mark.parametrize(
    ("device", "per_step", "of_sequences", "hidden", "visible"),
    [(4.0, 1.0, 3.0, 0.0, 4.0), (4.0, 1.0, 3.0, 1.0, 1.0), (2.0, 1.0, 3.0, 1.0, 2.0), (2.0, 0.0, 0.0, 1.0, 0.0)],
)
def test_what_of_the_host_is_visible(device, per_step, of_sequences, hidden, visible):
    # 1 + max(4, 3) = 5 s, of which 4 the device; 1 + max(2, 3) = 4 s, of which 2
    assert float(visible_host_time(device, per_step, of_sequences, hidden)) == pytest.approx(visible)


@pytest.mark.parametrize("per_octave", [4, 16, 128])
def test_whole_numbers_are_nodes(per_octave):
    nodes = np.asarray(octaves(4096, per_octave))
    positions = np.add(*map(np.asarray, octave_interval(jnp.asarray(nodes), per_octave, len(nodes))))
    np.testing.assert_allclose(positions, np.arange(len(nodes)), atol=1e-4)
    assert set(range(1, per_octave)) <= set(nodes) and nodes[-1] == 4096


def test_metrics_are_numpys(engine, stream):
    requests = arrays(traffic(stream))
    found, _timeline, metrics = run(engine, requests, arrays(Policy()))
    assert np.all(found.status == STATUSES.index("finished"))
    ttft, e2e = np.asarray(found.first_token - found.arrival), np.asarray(found.finish - found.arrival)
    several = stream.osl > 1
    tpot = (e2e - ttft) / np.maximum(stream.osl - 1, 1)
    for name, values in (("ttft", ttft), ("e2e", e2e), ("tpot", tpot[several])):
        assert metrics[f"{name}_mean"] == pytest.approx(values.mean())
        for percent in PERCENTILES:
            assert metrics[f"{name}_p{percent}"] == pytest.approx(np.percentile(values, percent))
    good = (ttft <= 0.2) & ((tpot <= 0.01) | ~several)
    kept_up = 6.0 / REQUESTS  # it keeps up, so that requests are answered as fast as they arrive
    assert metrics["goodput"] == pytest.approx(kept_up * good.sum())
    assert metrics["tokens_per_second"] == pytest.approx(kept_up * stream.osl.sum())
    span = float(np.max(found.finish) - stream.arrival[0])
    assert metrics["run_tokens_per_second"] == pytest.approx(stream.osl.sum() / span)
    assert 0.0 < metrics["utilization"] <= 1.0
    # The mean over tokens of the time between tokens is the tokens' mean of TPOT.
    assert metrics["itl_mean"] == pytest.approx((e2e - ttft)[several].sum() / (stream.osl[several] - 1).sum(), rel=1e-6)
    assert {f"{name}_mean" for name in LATENCIES} <= set(metrics)


def one_after_another(arrival, slots, service, clients=None):
    """Metrics of requests of 2 + 4 tokens, each served for `service` s by one of `slots`, in the order of arrival."""
    free, begun = np.zeros(slots), []
    for at in arrival:
        place = int(np.argmin(free))
        begun.append(max(at, free[place]))
        free[place] = begun[-1] + service
    begun, count = np.array(begun), len(arrival)
    zeros = jnp.zeros(count, dtype=jnp.int32)
    found = Served(
        arrival=jnp.asarray(begun if clients else arrival),
        admitted=jnp.asarray(begun),
        first_token=jnp.asarray(begun + 0.25 * service),
        finish=jnp.asarray(begun + service),
        status=zeros,
        preemptions=zeros,
        cached=zeros,
    )
    counts = dict.fromkeys(("steps", "decoding", "prompt_tokens", "blocks", "joined", "running"), zeros[:1])
    timeline = Timeline(end=jnp.ones(1), duration=jnp.ones(1), **counts)
    lengths = {"isl": jnp.full(count, 2.0), "osl": jnp.full(count, 4.0)}
    closed = {} if clients is None else {"clients": jnp.asarray(float(clients))}
    requests = Traffic(arrival=found.arrival, **lengths, **closed)
    return serving_metrics(found, timeline, requests, 1.0, Objective())


@pytest.mark.parametrize(
    ("arrival", "slots", "service", "clients", "rate"),
    [
        (np.arange(101) * 0.5, 9, 4.0, None, 2.0),  # 2/s arrive, 9 / 4 s could be served: as fast as they arrive
        (np.arange(100) * 0.1, 8, 4.0, None, 2.0),  # 10/s arrive, 8 / 4 s are served
        (np.zeros(64), 8, 4.0, 8, 2.0),  # 8 clients: 8 requests in 4 s
        (np.zeros(3), 1, 5.0, 1, 0.2),  # a client alone: one request in 5 s
        (np.zeros(8), 8, 4.0, None, 2.0),  # too short for a steady part: 8 requests in 4 s, the whole run
        (np.arange(20) * 0.1, 99, 8.0, None, 20 / 9.9),  # the last is begun before the first ends: the whole run
    ],
)
def test_rates_are_those_of_the_steady_part(arrival, slots, service, clients, rate):
    metrics = one_after_another(arrival, slots, service, clients)
    assert metrics["requests_per_second"] == pytest.approx(rate, rel=1e-9)
    assert metrics["tokens_per_second"] == pytest.approx(4.0 * rate, rel=1e-9)
    assert metrics["prompt_tokens_per_second"] == pytest.approx(2.0 * rate, rel=1e-9)
    assert metrics["run_tokens_per_second"] <= metrics["tokens_per_second"] * (1.0 + 1e-9)


def test_the_median_of_four_values_lies_between_the_middle_two():
    median = weighted_percentile(jnp.array([4.0, 1.0, 3.0, 2.0]), jnp.ones(4), jnp.array([0.5]))
    assert median == pytest.approx([2.5])


def test_percentiles_of_weights_are_those_of_copies():
    rng = np.random.Generator(np.random.PCG64(0))
    values, weights = rng.normal(size=40), rng.integers(0, 5, 40)
    shares = np.array([0.0, 0.5, 0.9, 0.99, 1.0])
    found = weighted_percentile(jnp.asarray(values), jnp.asarray(weights * 1.0), jnp.asarray(shares))
    np.testing.assert_allclose(found, np.quantile(np.repeat(values, weights), shares))
    assert np.isnan(weighted_percentile(jnp.asarray(values), jnp.zeros(40), jnp.asarray(shares))).all()


def test_what_iterations_do_not_suffice_for_is_reported(stream):
    requests, policy = arrays(traffic(stream)), arrays(Policy())
    size = Size(slots=16, iterations=200)

    def price(batch, rows):
        return 1e-2 + 1e-5 * rows, jnp.zeros(())

    found, _ = stepped(price, requests, policy, 1e4, size)
    left = np.asarray(found.status) == STATUSES.index("unfinished")
    assert 0 < left.sum() < REQUESTS
    assert np.all(np.isnan(found.finish[left])) and np.all(np.isfinite(found.finish[~left]))


def test_too_long_requests_are_refused_and_the_others_served(engine, stream):
    isl = np.array(stream.isl)
    isl[5] = 5e6
    long = dataclasses.replace(stream, isl=isl)
    found, _, metrics = run(engine, arrays(traffic(long)), arrays(Policy()))
    assert STATUSES[int(found.status[5])] == "refused" and metrics["refused"] == 1.0
    assert np.sum(np.asarray(found.status) == 0) == REQUESTS - 1


def test_gradients_are_elasticities_of_means(engine, stream):
    """A gradient says what speed changes in the mean, not what it changes in the order of events."""
    requests, policy = arrays(traffic(stream)), arrays(Policy())

    names = ("e2e_mean", "ttft_mean", "ttft_p99")

    def means(scale):
        hardware = engine[0]
        hbm = dataclasses.replace(hardware.memory.hbm, bandwidth=hardware.memory.hbm.bandwidth * scale)
        matrix = {key: peak * scale for key, peak in hardware.matrix.items()}
        faster = dataclasses.replace(hardware, matrix=matrix, memory=dataclasses.replace(hardware.memory, hbm=hbm))
        found = run((faster, *engine[1:]), requests, policy)[2]
        return jnp.log(jnp.stack([found[name] for name in names]))

    e2e, ttft, tail = jax.jit(jax.jacrev(means))(jnp.asarray(1.0))
    differences = np.asarray(means(1.05) - means(0.95)) / 0.1
    assert e2e == pytest.approx(differences[0], abs=0.25) and -1.3 < e2e < -0.4
    assert ttft == pytest.approx(differences[1], abs=0.35)
    assert np.isfinite(tail) and -3.0 < tail < 0.0


def test_other_numbers_do_not_compile_again(engine, stream):
    requests = arrays(traffic(stream))
    run(engine, requests, arrays(Policy()))
    before = run._cache_size()
    run(engine, requests, arrays(Policy(order=1.0, token_budget=512.0, chunked=0.0, reserve=1.0, block_size=8.0)))
    run(engine, arrays(traffic(dataclasses.replace(stream, arrival=stream.arrival * 0.5))), arrays(Policy()))
    assert run._cache_size() == before


def test_keep_is_what_a_later_one_shares():
    rng = np.random.Generator(np.random.PCG64(1))
    n = 200
    group = rng.integers(-1, 12, n).astype(np.int32)
    isl, osl = rng.integers(1, 500, n) * 1.0, rng.integers(1, 90, n) * 1.0
    shared = np.where(group < 0, 0.0, np.floor(isl * rng.random(n)))
    found = kept(Stream("x", np.arange(n) * 1.0, isl, osl, group, shared, "test"))
    for i in range(n):
        later = [shared[j] for j in range(i + 1, n) if group[j] == group[i] >= 0]
        assert found[i] == min(max(later, default=0.0), isl[i] + osl[i] - 1.0)


def test_token_gaps_of_nothing():
    empty = jnp.zeros(3)
    whole = jnp.zeros(3, dtype=jnp.int32)
    timeline = Timeline(
        end=empty,
        duration=empty,
        steps=whole,
        decoding=whole,
        prompt_tokens=whole,
        blocks=whole,
        joined=whole,
        running=whole,
    )
    absent = Served(
        arrival=empty,
        admitted=empty,
        first_token=empty,
        finish=empty,
        status=jnp.full(3, STATUSES.index("absent")),
        preemptions=whole,
        cached=whole,
    )
    queue = Traffic(arrival=empty, isl=empty, osl=empty)
    metrics = jax.jit(serving_metrics)(absent, timeline, queue, 10.0, Objective())
    assert np.isnan(metrics["ttft_mean"]) and metrics["requests_per_second"] == 0.0


def test_without_a_cache_nothing_is_answered_and_only_latencies_have_no_value():
    requests, policy = Traffic(arrival=jnp.zeros(3), isl=jnp.full(3, 9.0), osl=jnp.full(3, 2.0)), arrays(Policy())
    size = Size(slots=16, iterations=8)

    def price(batch, rows):
        return 1e-2 + 1e-5 * rows, jnp.zeros(())

    found, timeline = stepped(price, requests, policy, 0.0, size)
    metrics = jax.jit(serving_metrics)(found, timeline, requests, 0.0, Objective(ttft=0.2, tpot=0.01))
    assert metrics["refused"] == 3.0 and metrics["kv_use_mean"] == metrics["kv_use_max"] == 0.0
    unknown = {name for name, value in metrics.items() if not np.isfinite(value)}
    assert unknown == {f"{name}_{which}" for name in LATENCIES for which in ("mean", *(f"p{p}" for p in PERCENTILES))}


def test_a_prefix_that_is_a_whole_prompt_leaves_its_last_token_to_compute():
    """Four prompts of four whole blocks, all the same: the later ones find three blocks, and all four end."""
    four = np.full(4, 1.0)
    same = Traffic(
        arrival=np.arange(4.0), isl=64 * four, osl=3 * four, group=0 * four, shared=64 * four, keep=64 * four
    )

    def price(batch, rows):
        return jnp.asarray(0.01) + 1e-4 * batch.prefill.tokens, jnp.zeros(())

    found, _ = stepped(
        price, arrays(same), arrays(Policy(block_size=16.0)), 1e4, Size(slots=4, iterations=64, groups=1)
    )
    assert (found.status == STATUSES.index("finished")).all()
    np.testing.assert_allclose(found.cached, [0.0, 48.0, 48.0, 48.0])
    # A step of 10 ms, and 0.1 ms for every token of the prompt that is computed.
    np.testing.assert_allclose(found.first_token - found.arrival, [0.0164, 0.0116, 0.0116, 0.0116], rtol=1e-9)


def test_two_tokens_have_a_time_between_them():
    """Of two requests, the one of a single token has no time per output token, and the one of two tokens has."""
    two = Traffic(arrival=np.array([0.0, 1.0]), isl=np.array([64.0, 64.0]), osl=np.array([1.0, 2.0]))

    def price(batch, rows):
        return jnp.asarray(0.01) + 1e-4 * batch.prefill.tokens, jnp.zeros(())

    requests = arrays(two)
    found, timeline = stepped(price, requests, arrays(Policy()), 1e4, Size(slots=4, iterations=64))
    metrics = serving_metrics(found, timeline, requests, 1e4, Objective(ttft=1.0, tpot=1.0))
    assert float(metrics["tpot_mean"]) == pytest.approx(0.01, rel=1e-9)
