"""One-trace calibration of rows: overheads that all rows share are found from any of them, and errors are counted."""

import numpy as np
import pytest

from jaxroof.efficiency import Host
from tests.evidence.one_trace import METRICS, Means, Trace, main, saturated, scores

pytestmark = pytest.mark.xdist_group("one_trace")

PRIOR = Host(step_time=3e-4, sequence_time=7e-6, request_time=9e-3)
TRUE = np.log([1e-3, 7e-6, 20e-3])


def trace(name, server, kind, prompt, decode, sequences, factor=1.0):
    """A row with device times `prompt` and `decode` in s, whose measurement is `factor` times what the truth gives."""

    def predicted(logarithms):
        step, sequence, request = np.exp(logarithms)
        tpot = decode + step + sequences * sequence
        ttft = prompt + step + request
        slope = np.array([step, sequences * sequence, 0.0])
        slopes = {"tpot": slope, "ttft": np.array([step, 0.0, request])}
        slopes["e2e"] = slopes["ttft"] + 99.0 * slope
        return Means({"ttft": ttft, "tpot": tpot, "e2e": ttft + 99.0 * tpot}, slopes)

    measured = {name: factor * predicted(TRUE).values[name] for name in METRICS}
    return Trace(name=name, server=server, kind=kind, measured=measured, predicted=predicted)


def test_what_one_row_tells_holds_for_the_others():
    traces = [
        trace("a", "x", "synchronous", 0.05, 5e-3, 1.0),
        trace("b", "x", "saturated", 0.08, 8e-3, 20.0),
        trace("c", "y", "synchronous", 0.02, 3e-3, 1.0),
    ]
    found = scores(traces, PRIOR)
    # Row a: TTFT 50 + 1 + 20 ms and 99 tokens of 5 + 1 + 0.007 ms measured; 50 + 0.3 + 9 and 5 + 0.3 + 0.007 before.
    assert found["before"]["synchronous"] > 0.1
    first = found["rows"][0]
    assert first["before"] == pytest.approx((0.0593 + 99 * 5.307e-3) / (0.071 + 99 * 6.007e-3) - 1.0)
    assert first["overheads_s"]["step_time"] == pytest.approx(1e-3, rel=0.05)
    assert first["overheads_s"]["request_time"] == pytest.approx(20e-3, rel=0.05)
    assert first["mape"]["others"] < 0.01 < first["mape_before"]["others"]
    assert found["rows"][2]["mape"]["same server"] is None


def test_a_row_that_is_odd_spoils_what_is_calibrated_to_it():
    odd = trace("odd", "x", "saturated", 0.08, 8e-3, 20.0, factor=1.5)
    others = [trace(name, name, "saturated", 0.05, 5e-3, 10.0) for name in "ab"]
    found = scores([odd, *others], PRIOR)["rows"]
    assert found[0]["mape"]["others"] > 0.2 and found[1]["errors"]["b"] == pytest.approx(0.0, abs=0.01)


def test_wrong_files_are_one_line(tmp_path, capsys):
    assert main(["--data", str(tmp_path / "none.csv")]) == 2
    assert capsys.readouterr().err.startswith("one_trace: ")
    columns = "set,exp_id,gpu,model,load_stages,tp,prompt_tokens,output_tokens_nominal,max_num_seqs"
    columns += ",max_num_batched_tokens,gt_ttft_ms,derived_itl_ms,gt_e2e_ms\n"
    file = tmp_path / "rows.csv"
    file.write_text(columns + "saturated_inference_perf,a,h100_sxm,llama-2-7b,often,1,700,200,128,2048,27,10,2000\n")
    with pytest.raises(ValueError, match="row 2: load_stages = 'often' must be like"):
        saturated(file, None)
