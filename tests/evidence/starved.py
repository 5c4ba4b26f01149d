"""Steps of devices with a twentieth of one number, under every efficiency: `python -m tests.evidence.starved`.

A table for docs/evidence/monotonicity.md: times as they are, and how many times as long with a twentieth.
"""

import argparse
import sys

import hwspaces
import workloads
from jaxroof import Deployment, step_time
from jaxroof.numerics.arrays import eager
from tests.evidence.harness import command
from tests.jaxroof.test_bounds import EFFICIENCIES, LEAVES, STEPS, scaled

DEVICES = ("H100-SXM", "B200-SXM", "MI300X", "L4", "TPU-v6e", "Trainium2")

PART = 0.05


@command()
def main(options: argparse.Namespace) -> int:
    """Print the table; 1 where a step under an efficiency is faster than under the datasheet."""
    model, wrong = workloads.model("Llama-3.1-8B").model, 0
    columns = [f"{step}, {name}" for step in STEPS for name in EFFICIENCIES]
    print(f"| device, a twentieth of | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for device in DEVICES:
        own = hwspaces.hardware(device).hardware
        for leaf in ("", *LEAVES):
            hardware = scaled(own, leaf, PART) if leaf else own
            if hardware is None:
                continue
            cells = []
            for batch in STEPS.values():
                with eager():
                    times = {
                        name: [
                            float(step_time(one, model, Deployment(), batch, hwspaces.efficiency(name).efficiency))
                            for one in (own, hardware)
                        ]
                        for name in EFFICIENCIES
                    }
                # No kernel is faster than its bound; host and launches only add to it.
                wrong += sum(slow < times["datasheet"][1] * (1.0 - 1e-3) for _, slow in times.values())
                cells += [f"{slow / now:.2f} x" if leaf else f"{now * 1e3:.2f} ms" for now, slow in times.values()]
            print(f"| {leaf or device} | {' | '.join(cells)} |")
    print(f"{wrong} faster than the datasheet's bound", file=sys.stderr)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
