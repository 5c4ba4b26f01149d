"""Settings of JAX for every test (no silent promotion of ranks or types), and small structs with round numbers."""

import gc
import importlib
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # `tests.oracle` is found however pytest was started

from sweeps.cli import COLLECTIONS
from tests.quick_compilation import quick_compilation

quick_compilation()
os.environ["HF_HUB_OFFLINE"] = "1"  # no test asks the network what a name means

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # begun in the background; children that tests stop inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
gc.set_threshold(*COLLECTIONS)

import jax  # noqa: E402
import pytest  # noqa: E402

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_enable_compilation_cache", False)  # no test fills the user's folder of compiled programs

from jaxroof import (  # noqa: E402
    Attention,
    Block,
    Cores,
    Deployment,
    Experts,
    FeedForward,
    Hardware,
    Link,
    Links,
    Memory,
    MemoryLevel,
    Model,
    Power,
    WeightFormat,
)

importlib.import_module("hwspaces.performance.efficiency").DEFAULT = "derated"
"""Tests of everything but kernels run on constant shares, which compile in a fifth of the time; those of kernels name
the constants that they test."""


@pytest.fixture
def float64():
    """JAX in 64-bit mode during one test. Through the config, which every supported version of JAX has."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture(scope="module")
def standard_promotion():
    """Types promoted in one module as users' are: the scheduler's price tables add whole numbers to floats."""
    before = jax.config.jax_numpy_dtype_promotion
    jax.config.update("jax_numpy_dtype_promotion", "standard")
    yield
    jax.config.update("jax_numpy_dtype_promotion", before)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A folder of compiled programs for a module's commands alone; JAX's settings as they were afterwards."""
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs", "jax_enable_compilation_cache")
    before = {name: getattr(jax.config, name) for name in names}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        jax.config.update("jax_enable_compilation_cache", True)
        yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.fixture(scope="session")
def chip() -> Hardware:
    """A device of 100 cores: 1 PFLOP/s, 2 TB/s; in total 50 T vector FLOP/s, 4 T exp/s, 20 TB/s scratchpad."""
    return Hardware(
        matrix={"bf16": 1e15, "fp8": 2e15, "fp4": 4e15},
        cores=Cores(count=100.0, vector_flops=5e11, exp_rate=4e10),
        memory=Memory(
            hbm=MemoryLevel(bandwidth=2e12, capacity=80e9),
            l2=MemoryLevel(bandwidth=1e13, capacity=5e7),
            scratchpad=MemoryLevel(bandwidth=2e11, capacity=1.8e5),
            register_capacity=2.5e5,
        ),
        links=Links(
            scale_up=Link(bandwidth=4e11, latency=1e-6, devices=8.0),
            scale_out=Link(bandwidth=5e10, latency=5e-6, devices=1024.0),
        ),
        power=Power(tdp=700.0),
        price=1e-3,
    )


@pytest.fixture(scope="session")
def bf16() -> WeightFormat:
    return WeightFormat(bytes=2.0, compute="bf16")


@pytest.fixture(scope="session")
def attention(bf16) -> Attention:
    """10 query heads on 2 KV heads, all 100 wide, for hidden vectors of 1000."""
    return Attention(heads=10.0, kv_heads=2.0, head_dim=100.0, value_dim=100.0, window=None, qkv=bf16, output=bf16)


@pytest.fixture(scope="session")
def feedforward(bf16) -> FeedForward:
    return FeedForward(intermediate=3000.0, up_projections=2.0, up=bf16, down=bf16)


@pytest.fixture(scope="session")
def experts(bf16) -> Experts:
    """2 of 8 experts of width 500."""
    return Experts(
        experts=8.0, top_k=2.0, intermediate=500.0, up_projections=2.0, up=bf16, down=bf16, router=bf16, shared=None
    )


@pytest.fixture(scope="session")
def dense(attention, feedforward, bf16) -> Model:
    """Four dense layers on hidden vectors of 1000 and a vocabulary of 20,000, head untied."""
    return _model(attention, feedforward, bf16)


@pytest.fixture(scope="session")
def mixture(attention, experts, bf16) -> Model:
    """As `dense`, with experts in place of the feed-forward."""
    return _model(attention, experts, bf16)


@pytest.fixture(scope="session")
def single() -> Deployment:
    """One device, everything at 16 bits."""
    return Deployment()


def _model(attention, feedforward, weights) -> Model:
    return Model(
        hidden=1000.0,
        vocabulary=20_000.0,
        blocks=(Block(count=4.0, attention=attention, feedforward=feedforward, other_parameters=2000.0),),
        embedding=weights,
        head=weights,
        untied=1.0,
        other_parameters=1000.0,
    )
