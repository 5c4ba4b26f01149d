"""Steps of an engine as rows: what was in the batch, rows that are none, errors by batch, the command."""

import json

import pytest

import hwspaces
from sweeps.cli import main
from sweeps.measure.validate.engine_steps import COLUMNS, measured_steps, octave, step_errors

MODEL = "Llama-3.1-8B"
ROWS = [
    f"{MODEL},1,9000,0,32,0,32000",  # decoding alone: contexts of 1000
    f"{MODEL},1,30000,512,32,1,33000",  # with a prompt of 512
    f"{MODEL},1,0,0,32,0,32000",
    f"{MODEL},1,9000,0,0,0,0",
    "none,1,9000,0,32,0,32000",
]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "steps.csv"
    path.write_text("\n".join([",".join(COLUMNS), *ROWS]) + "\n")
    return path


def test_rows_become_batches(file):
    """33,000 tokens of 33 sequences: the prompt has 1,000, of which 512 are new; the others share 32,000."""
    (alone, mixed), left = measured_steps(file)
    assert (alone.batch.decode.sequences, alone.batch.decode.context, alone.prompts) == (32.0, 32000.0, False)
    assert (mixed.batch.prefill.tokens, mixed.batch.prefill.past) == (512.0, 488.0)
    assert (mixed.batch.decode.context, mixed.batch.logits, mixed.seconds) == (32000.0, 33.0, 0.03)
    assert [one.row for one in left] == [4, 5, 6]
    assert [one.reason for one in left[:2]] == ["true_cycle_us is 0", "nothing ran in the step"]


def test_octaves_are_powers_of_two():
    assert [octave(n) for n in (0.0, 1.0, 2.0, 3.0, 33.0)] == [1, 1, 2, 4, 64]


def test_a_step_with_a_prompt_takes_longer_and_errors_are_by_batch(file):
    found = step_errors(file, "H100-SXM", hwspaces.efficiency("derated").efficiency)
    alone, mixed = (one.predicted for one in found.scored)
    assert mixed > alone > 16e9 / 3.35e12, "the weights are read once at least"
    errors = found.errors("batch")
    assert {name: one["rows"] for name, one in errors.items()} == {"decoding": 1, "prompts and decoding": 1}
    assert errors["decoding"]["signed_median"] == pytest.approx(alone / 9e-3 - 1.0)


def test_the_command_names_what_it_leaves_out(file, capsys):
    words = ["validate", "steps", "--data", str(file), "--efficiency", "derated"]
    assert main([*words, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["hardware"] == "H100-SXM" and len(answer["rows"]) == 2 and len(answer["left_out"]) == 3
    assert main([*words, "-v"]) == 0
    said = capsys.readouterr().out
    assert "prompts and decoding" in said and "1 rows not predicted: nothing ran in the step" in said
