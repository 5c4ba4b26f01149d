"""Public names: what `dir`, `help` and `__version__` show to somebody who explores the packages."""

import dataclasses
import inspect

import pytest

import jaxroof
import sweeps
from jaxroof.version import VERSION
from sweeps import adapters
from sweeps.ask.offered_load import COMPARED
from sweeps.ask.spec import KEYS
from sweeps.run.simulated.spec import ServeSpec


def named(function):
    return inspect.signature(function).parameters


def test_version():
    assert jaxroof.__version__ == VERSION


def test_dir_shows_what_is_imported_when_it_is_first_used():
    assert set(sweeps.__all__) <= set(dir(sweeps))
    assert set(adapters.__all__) <= set(dir(adapters))
    assert callable(adapters.with_scipy.arguments)
    with pytest.raises(AttributeError, match="has no attribute 'with_guesses'"):
        _ = adapters.with_guesses


def test_sweep_shows_the_keys_of_a_specification():
    own = {"source", "progress"}
    assert set(named(sweeps.sweep)) == own | set(KEYS)
    with pytest.raises(ValueError, match="there is no key hardwar; did you mean hardware?"):
        sweeps.sweep(hardwar="H100-SXM")


@pytest.mark.parametrize("name", ["serve", "latency_curve", "capacity"])
def test_simulations_show_the_fields_of_their_question(name):
    fields = {field.name for field in dataclasses.fields(ServeSpec)}
    if name != "latency_curve":
        fields = fields - {"overrides"} | {"set"}
    assert fields <= set(named(getattr(sweeps, name)))
    assert named(getattr(sweeps, name))["think"].default == 0.0
    needed = {"serve": {}, "latency_curve": {"rates": [1.0]}, "capacity": {"slo": "ttft=1s"}}[name]
    with pytest.raises(ValueError, match="there is no key trase"):
        getattr(sweeps, name)(model="Llama-3.1-8B", hardware="H100-SXM", trase="a.csv", **needed)


def test_a_comparison_shows_the_fields_of_its_load():
    assert set(COMPARED) <= set(named(sweeps.compare)) and "concurrency" not in named(sweeps.compare)
    with pytest.raises(ValueError, match="there is no key deployment"):
        sweeps.compare("Llama-3.1-8B", "ttft=1s", isl=8, osl=8, deployment="tp2")


CLASSES = ("Case", "Comparison", "Result", "StaticComparison")


@pytest.mark.parametrize("name", [name for name in sweeps.__all__ if name not in ("adapters", *CLASSES)])
def test_every_parameter_has_a_name_and_a_type(name):
    for parameter in named(getattr(sweeps, name)).values():
        # The arguments of the user's own function have names of his; of results there is any number.
        own = (("from_function", "args"), ("price", "args"), ("report", "results"))
        several = (name, parameter.name) in own
        kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        assert several or parameter.kind not in kinds
        assert parameter.annotation is not inspect.Parameter.empty
