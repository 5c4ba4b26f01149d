"""`jaxroof models`: what a model consists of, encoder and all, in the list and alone; types read as others."""

import json

import pytest

from sweeps.cli import main

TOTALS = {
    # Billions of the sum over the weight files: encoder and decoder.
    "Whisper-large-v3": (1.543, 0.637),
    "Whisper-large-v3-turbo": (0.809, 0.637),
    "T5-large": (0.738, 0.302),
    "BART-large": (0.406, 0.152),
    "Flan-T5-XL": (2.85, 1.16),
    "Qwen2.5-VL-7B": (8.29, 0.677),
}


@pytest.fixture(scope="module")
def listed(request):
    """The records of `--json`, by name."""
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["models", "--json"]) == 0
    return {record["name"]: record for record in json.loads(out.getvalue())}


@pytest.mark.parametrize("name", TOTALS)
def test_parameters_count_the_encoder_and_say_how_many_it_has(listed, name):
    total, encoder = TOTALS[name]
    record = listed[name]
    assert record["parameters"] / 1e9 == pytest.approx(total, rel=2e-3)
    assert record["encoder_parameters"] / 1e9 == pytest.approx(encoder, rel=2e-3)
    assert record["parameters"] == record["language_parameters"] + record["encoder_parameters"]


def test_models_without_an_encoder_are_their_language_model(listed):
    record = listed["Llama-3.1-8B"]
    assert record["parameters"] == record["language_parameters"] == 8_030_261_248 and record["encoder_parameters"] == 0


def test_the_list_and_one_model_say_both(capsys):
    assert main(["models", "-v"]) == 0
    lines = capsys.readouterr().out.splitlines()
    row = next(line.split() for line in lines if line.startswith("Whisper-large-v3 "))
    assert row[4:6] == ["1.54B", "637M"]
    assert main(["models", "Whisper-large-v3", "-v"]) == 0
    shown = {
        line.rsplit(None, 1)[0].strip(): line.rsplit(None, 1)[-1]
        for line in capsys.readouterr().out.splitlines()
        if line.strip()
    }
    assert (shown["parameters"], shown["of the language model"], shown["of the encoder"]) == ("1.54B", "907M", "637M")


def test_a_type_read_as_another(tmp_path, capsys):
    sizes = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    sizes |= {"intermediate_size": 96, "vocab_size": 100, "torch_dtype": "bfloat16"}
    path = tmp_path / "odd.json"
    path.write_text(json.dumps({"model_type": "odd", **sizes}))
    assert main(["models", str(path)]) == 2
    assert "model_type 'odd' is not covered yet; --as TYPE reads it as one that is" in capsys.readouterr().err
    assert main(["models", str(path), "--as", "llama", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["notes"] == ["read as llama, as asked, not as odd"]
    request = ["--hardware", "H100-SXM", "--model", str(path), "--as", "llama", "--efficiency", "derated"]
    assert main(["request", *request, "--isl", "8", "--osl", "8", "--json"]) == 0
    assert "read as llama" in capsys.readouterr().out
    assert main(["models", "--as", "llama"]) == 2
    assert "--as llama needs the model that it is about" in capsys.readouterr().err
