"""The cost model a second time, in plain NumPy from its definitions: oracle of tests, NumPy side of benchmarks.

It takes the structs of `jaxroof` as containers and nothing else from it. Leaves are numbers or arrays of shape
(points,), and everything broadcasts over the points, in float64. A quantity that a kernel does not use is 0
and a rate that is unknown is infinite, so that there is one path through every formula.
"""

from tests.oracle.memory import kv_bytes_of_sequence, kv_bytes_per_token, weight_bytes
from tests.oracle.request import request
from tests.oracle.step import LAUNCH, RESOURCES, step, step_time

__all__ = [
    "LAUNCH",
    "RESOURCES",
    "kv_bytes_of_sequence",
    "kv_bytes_per_token",
    "request",
    "step",
    "step_time",
    "weight_bytes",
]
