"""Short answers: at most 12 lines of 100 columns, what they say, and the ways to all of it."""

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sweeps
from jaxroof.jobs import JOBS
from jaxroof.jobs.step import StepWork
from jaxroof.numerics.arrays import eager
from sweeps.answers.answer import Answer, Column, Table, Text, instead
from sweeps.answers.assumptions import mattering
from sweeps.answers.brief import LINES, WIDTH, Brief, clipped, narrowed
from sweeps.answers.html import fragment
from sweeps.answers.serve import tpot_range
from sweeps.answers.short import Short
from sweeps.answers.tables import notes
from sweeps.ask.cases import case
from sweeps.run.answer import answer
from sweeps.run.points import answers_at
from tests.commands import printed, shown

BATCH = "--hardware H100-SXM --model Llama-3.1-8B --isl 2048 --osl 256 --batch 8"
WIDE = "--hardware H200-SXM --model DeepSeek-V3 --attention-dp 8 --ep 8 --isl 2048 --osl 256 --batch 256"
QUESTIONS = (
    f"request {BATCH}",
    f"request {WIDE}",
    "request --hardware TPU-v7 --model Llama-3.1-8B --isl 2048 --osl 256",
    "step --hardware H100-SXM --model Llama-3.1-70B --tp 8 --decode 64 --context 2048",
    "collective --hardware H100-SXM --kind all_reduce --devices 8",
    "train --model Llama-2-70B --hardware H100-SXM --tp 8 --dp 8 --global-batch 64 --seq 4096 --zero 1",
    "train --search --devices 8 --model Llama-3.1-8B --hardware H100-SXM --global-batch 16 --seq 4096",
    "compare --static --model Llama-3.1-8B --isl 2048 --osl 256 --hardware H100-SXM,L40S --devices 1,2",
    "compare --model Llama-3.1-8B --isl 2048 --osl 256 --hardware H100-SXM,L40S --devices 1 --simulate 0 "
    "--slo ttft=1s,tpot=30ms",
    "serve --hardware H100-SXM --model Llama-3.1-8B --rate 6 --isl 256 --osl 16 --requests 60 --slo ttft=500ms",
    "disaggregate --model Llama-2-70B --hardware A100-SXM-80GB --tp 4 --batch 32 --isl 2048 --osl 256 "
    "--prefill hardware=H100-SXM --prefill tp=4 --rate 2",
    "sensitivity --hardware H100-SXM --model Llama-3.1-8B --isl 256 --osl 16 --metric tpot",
    "trace --rate 6 --isl 1024 --osl 256 --requests 1000",
    "colocate --hardware H100-SXM --model Llama-3.1-8B --isl 512 --osl 64 --batch 4 --neighbour model=Llama-2-7B "
    "--neighbour isl=512 --neighbour osl=64",
    "capacity --hardware H100-SXM --model Llama-3.1-8B --dp 2 --router least_requests --isl 128 --osl 16 --requests 60 "
    "--slo ttft=500ms,tpot=22ms --tolerance 0.3",
    "price --hardware H100-SXM docs.examples.functions.graph:forward "
    "--args params=docs.examples.functions.graph:params "
    "nodes=f32[n,12] edges=f32[e,8] senders=i32[e] receivers=i32[e] --over n=1000 --over e=6000",
    "map resnet50.conv2_3x3 --arch eyeriss_like",
    "hardware",
    "hardware H100-SXM",
    "models",
    "models DeepSeek-V3",
    "space",
    "scenario list",
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_fits_a_screen(capsys, question):
    lines = shown(capsys, *question.split(), progress=True).splitlines()
    assert 2 < len(lines) <= LINES
    assert max(map(len, lines)) <= WIDTH
    # The last line says how to get the rest.
    assert lines[-1].startswith("more ") and lines[-1].endswith("-v")


def test_a_simulation_has_the_interval_of_a_step_of_its_mean_batch():
    work = {"rate": 6, "isl": 256, "osl": 16, "requests": 60}
    (run,) = sweeps.serve("H100-SXM", "Llama-3.1-8B", **work, efficiency="learned").simulations.values()
    step = dataclasses.replace(run.case.scenario, workload=StepWork(decode=run.metrics["batch_mean"], context=264.0))
    with eager():
        spread = float(answers_at(JOBS["step"], step, ("step_time_spread",))["step_time_spread"])
    low, high = tpot_range(run)
    mean = run.metrics["tpot_mean"]
    assert (high / mean, mean / low) == pytest.approx((math.exp(1.6449 * spread),) * 2, rel=1e-3)
    # Constants that say nothing of their errors have no interval.
    (other,) = sweeps.serve("H100-SXM", "Llama-3.1-8B", **work, efficiency="datasheet").simulations.values()
    assert tpot_range(other) is None


def test_the_sentence_has_intervals_and_what_limits(capsys):
    text = shown(capsys, *f"request {BATCH} --engine vllm".split())
    record = answer(
        case("request", "H100-SXM", "Llama-3.1-8B", workload={"batch": 8, "isl": 2048, "osl": 256}, engine="vllm")
    )
    tpot, spread = (record.metrics[name] for name in ("tpot", "tpot_spread"))
    low, high = (tpot * 1e3 * 2.718281828 ** (sign * 1.6449 * spread) for sign in (-1, 1))
    assert f"TPOT {tpot * 1e3:.2f} ms ({low:.2f} to {high:.2f} ms)" in text
    assert "decode by hbm" in text


def test_all_of_it_has_every_metric(capsys):
    whole = printed(capsys, *f"request {BATCH}".split())
    assert len(whole.splitlines()) > 50 and "energy_delay_product" in whole


def test_notes_are_below_the_answer(capsys):
    lines = shown(capsys, *f"request {BATCH}".split(), "--notes").splitlines()
    short = shown(capsys, *f"request {BATCH}".split()).splitlines()
    assert lines[: len(short)] == short and lines[len(short)] == ""
    assert any(line.startswith("links.scale_out") for line in lines[len(short) :])
    assert max(map(len, lines)) <= WIDTH


def test_notes_are_all_that_the_whole_answer_has(capsys):
    words = "sensitivity --hardware H100-SXM --model Llama-3.1-8B --job step --decode 8 --context 512 --smoothing 0"
    one = "--metric step_time --knob hardware.memory.hbm.bandwidth".split()
    lines = shown(capsys, *words.split(), *one, "--notes", progress=True).splitlines()
    assert any(line.startswith("exact piecewise gradients") for line in lines)
    assert any(line.startswith("links.scale_out") for line in lines)


def test_assumptions_matter_where_they_change_the_answer():
    alone = case("request", "MI355X", "Llama-3.1-8B", workload={"batch": 1, "isl": 256, "osl": 16})
    eight = case(
        "request", "MI355X", "Llama-3.1-8B", workload={"batch": 1, "isl": 256, "osl": 16}, deployment={"tp": 8}
    )
    found = [mattering(one, answer(one).metrics, notes(one)) for one in (alone, eight)]
    # The link between devices is an assumption of MI355X: it matters where there are several.
    assert not [name for name in found[0] if name.startswith("links.")]
    assert "links.scale_up" in found[1] and "links.scale_out" not in found[1]


def _table(rows, columns):
    listing = Table([Column(f"c{n}", number=n > 0, rank=rank) for n, rank in enumerate(columns)])
    for row in range(rows):
        listing.add_row(*(f"{row}-{n}" * (n + 1) for n in range(len(columns))))
    return listing


@given(
    facts=st.lists(st.tuples(st.text("ab", max_size=8), st.text("cde ", max_size=300)), max_size=20),
    rows=st.integers(0, 40),
    columns=st.lists(st.integers(0, 3), min_size=1, max_size=9),
    texts=st.tuples(st.text("xyz ", max_size=400), st.text("xyz ", max_size=400)),
    width=st.integers(40, 200),
    many=st.integers(0, 5),
)
@settings(max_examples=150, deadline=None)
def test_any_answer_has_at_most_twelve_lines(facts, rows, columns, texts, width, many):
    table = _table(rows, columns) if rows else None
    found = Brief(texts[0], "", texts[1], tuple(facts), table, ("note",) * many)
    lines = 0
    for block in found.blocks(width):
        if isinstance(block, Text):
            own = block.text.split("\n")
            assert max(map(len, own)) <= min(width, WIDTH)
            lines += len(own)
        else:
            lines += 1 + 1 + len(block.rows)
    assert lines <= LINES


def test_columns_of_the_highest_rank_go_first():
    table = _table(2, (0, 2, 1, 0))
    assert [column.title for column in narrowed(table, 100).columns] == ["c0", "c1", "c2", "c3"]
    assert [column.title for column in narrowed(table, 30).columns] == ["c0", "c2", "c3"]
    assert [column.title for column in narrowed(table, 20).columns] == ["c0", "c3"]


class Kept:
    def __init__(self):
        self.texts = []

    def show(self, block):
        self.texts.append(block.text if isinstance(block, Text) else block)


def test_the_short_form_is_made_for_a_screen_that_shows_it():
    made, screen, short = [], Kept(), Short()

    def make():
        made.append("once")
        return Brief("asked")

    assert not Answer(screen).short(make) and not made
    with instead(short):
        assert Answer(screen).short(make) and made == ["once"]
    assert short.found().asked == "asked" and not screen.texts


def test_a_notebook_shows_text_of_others_and_does_not_obey_it():
    table = Table([Column("<i>"), Column("n", number=True)])
    table.add_row("<td>&", "1")
    page = fragment(Brief("<b>", answer="<script>alert(1)</script>\x1b[0m", table=table), 200, 10)
    assert "<script" not in page and "\x1b" not in page and "<b>&lt;script" in page
    assert "&lt;td&gt;&amp;" in page and "<i>" not in page


def test_an_answer_without_a_short_form_has_its_first_lines():
    screen, short = Kept(), Short()
    for text in ("a heading\n", "status  all done", *(f"line {n}" for n in range(20))):
        short.show(Text(text))
    short.show(Text("an assumption", label="note"))
    short.end(screen)
    lines = "\n".join(screen.texts).split("\n")
    assert len(lines) <= LINES and lines[0] == "a heading"
    assert "status      all done" in lines and "notes       1 assumption: --notes" in lines


def test_a_cut_text_ends_in_dots():
    assert clipped("abcdefgh", 8) == "abcdefgh" and clipped("abcdefghi", 8) == "abcd ..."
