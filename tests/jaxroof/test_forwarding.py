"""Kernels that forward tokens inside of nodes, by hand: rows that cores handle, bytes on links, notice, choice."""

import dataclasses

import jax
import pytest

from jaxroof.collectives import ALGORITHMS, collective_algorithm, collective_time
from jaxroof.collectives.choice import sent_bytes
from jaxroof.efficiency import ExpertExchange, Forwarding, LinkEfficiency
from jaxroof.fanout import Fanout, distinct_devices
from jaxroof.hardware import Link, Links
from jaxroof.op import Collective
from tests.hand import EXACT

ROW, TOKENS = 8000.0, 1000.0
WAY = Forwarding(kernel_time=1e-5, hops=10.0, share=0.5, token_time=1e-7, row_time=5e-8, core_rate=2e10, node_rows=2.0)
BACK = dataclasses.replace(WAY, own_rows=3.0, row_rate=1e9)
KERNELS = ExpertExchange(dispatch=WAY, combine=BACK, cores=20.0, notify_time=2e-5, peer_time=1e-6)
FULL = LinkEfficiency(losses=1.0, exchange=KERNELS)
LINKS = Links(
    scale_up=Link(bandwidth=4e11, latency=1e-6, devices=8.0),
    scale_out=Link(bandwidth=5e10, latency=5e-6, devices=1024.0),
)


def exchange(devices: float, back: bool = False) -> Collective:
    """Every device holds one of as many experts, and a token goes to one of them: one copy, one node."""
    fanout = Fanout(holders=devices, experts=devices, choices=1.0, token_bytes=ROW, back=back)
    return Collective(
        operation="all_to_all",
        count=1.0,
        kernels=1.0,
        message_bytes=TOKENS * ROW,
        participants=devices,
        fanout=fanout,
    )


def microseconds(devices: float, back: bool = False, efficiency: LinkEfficiency = FULL) -> float:
    return 1e6 * float(collective_time(LINKS, exchange(devices, back), efficiency))


def test_one_node():
    # 10 us and 10 hops; a row takes 0.05 + 0.4 us, a token 0.1: 1000 x 0.55 / 20 = 27.5 us;
    # 7/8 of 8 MB at half of 400 GB/s: 35 us
    assert microseconds(8.0) == pytest.approx(10 + 10 + 35, rel=EXACT)
    few = dataclasses.replace(FULL, exchange=dataclasses.replace(KERNELS, cores=4.0))
    assert microseconds(8.0, efficiency=few) == pytest.approx(10 + 10 + 137.5, rel=EXACT)


def test_results_are_added_up():
    # four rows of 0.45 us and a token: 1000 x 1.9 / 20 = 95 us; a row alone at 1 GB/s: 8 us
    assert microseconds(8.0, back=True) == pytest.approx(10 + 10 + 8 + 95, rel=EXACT)


def test_two_nodes():
    # a copy and a node's, which counts as two rows: 1000 x (0.1 + 3 x 0.45) / 20 = 72.5 us
    # network: half of 8 MB at 50 GB/s: 80 us; 2 hops of 5 us; notice 20 + 16 us
    assert microseconds(16.0) == pytest.approx(10 + 10 + 10 + 80 + 36, rel=EXACT)


def test_a_token_crosses_the_network_once_per_node():
    """8 of 256 experts on four nodes: 7.27 devices and 3.6 nodes a token; over the network 3/4 of 3.6 copies."""
    fanout = Fanout(holders=32.0, experts=256.0, choices=8.0, token_bytes=ROW)
    needed = float(distinct_devices(32.0, 256.0, 8.0))
    op = dataclasses.replace(exchange(32.0), fanout=fanout, message_bytes=TOKENS * ROW * needed)
    sent = sent_bytes(LINKS, op)
    assert needed == pytest.approx(7.27, abs=0.01)
    assert sent["scale_out"] == pytest.approx(0.75 * 3.614 * TOKENS * ROW, rel=1e-3)
    assert sent["scale_up"] == pytest.approx(7 / 8 * needed * TOKENS * ROW, rel=EXACT)


def test_the_datasheet_alone():
    """Without losses only the links count: 7/8 of 8 MB at 400 GB/s."""
    assert microseconds(8.0, efficiency=dataclasses.replace(FULL, losses=0.0)) == pytest.approx(17.5, rel=EXACT)


def test_where_kernels_forward_nothing_else_runs():
    assert ALGORITHMS[int(collective_algorithm(LINKS, exchange(8.0), FULL))] == "forwarded"
    torus = dataclasses.replace(LINKS, scale_up=dataclasses.replace(LINKS.scale_up, topology="torus"))
    assert ALGORITHMS[int(collective_algorithm(torus, exchange(8.0), FULL))] == "direct"
    assert ALGORITHMS[int(collective_algorithm(LINKS, exchange(8.0), LinkEfficiency(losses=1.0)))] == "direct"


def test_slopes():
    def time(cores, bandwidth):
        links = dataclasses.replace(LINKS, scale_out=dataclasses.replace(LINKS.scale_out, bandwidth=bandwidth))
        kernels = dataclasses.replace(KERNELS, cores=cores)
        return collective_time(links, exchange(32.0), LinkEfficiency(losses=1.0, exchange=kernels))

    slopes = jax.jit(jax.grad(time, argnums=(0, 1)))(20.0, 5e10)
    assert all(slope <= 0.0 for slope in slopes) and any(slope < 0.0 for slope in slopes)
