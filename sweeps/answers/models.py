"""The catalogue of models, and one of its models, as text."""

from typing import Any


def show_catalogue(covered: list[Any], refused: dict[str, str]) -> None:
    """Print a table of the catalogue, and the architectures that are refused."""
    from sweeps.answers.tables import console, size, table

    out = console()
    if out.short(lambda: _brief_catalogue(covered)):
        return
    numbers = ("layers", "hidden", "parameters", "encoder", "active", "KV/token", "state")
    catalogue = table("name", "architecture", *numbers, "weights", numbers=numbers)
    for entry in covered:
        known = record(entry)
        catalogue.add_row(
            entry.name,
            entry.architecture,
            f"{known['layers']:.0f}",
            f"{known['hidden']:.0f}",
            _billions(known["parameters"]),
            _billions(known["encoder_parameters"]),
            _billions(known["active_parameters"]),
            size(known["kv_bytes_per_token"]),
            size(known["state_bytes"]),
            entry.precision,
        )
    out.print(catalogue)
    out.print("\nParameters are all that the model runs, its encoder among them, which has a column of its own.")
    out.print(f"{len(covered)} models; KV cache at 2 B per element, before any window closes; state of one sequence.")
    if refused:
        out.print(f"\n{len(refused)} models whose configuration is known but not covered:\n")
        reasons = table("name", "reason")
        for name, reason in refused.items():
            reasons.add_row(name, reason)
        out.print(reasons)
    out.print("\n`jaxroof models NAME` shows one; NAME may be a config.json or the folder that has it.")


def _brief_catalogue(covered: list[Any]) -> Any:
    """The names of the catalogue by architecture, those with most models first."""
    from sweeps.answers.brief import Brief

    families: dict[str, list[str]] = {}
    for entry in covered:
        families.setdefault(entry.architecture, []).append(entry.name)
    by_size = sorted(families.items(), key=lambda one: -len(one[1]))
    return Brief(
        asked=f"{len(covered)} models of {len(families)} architectures, most models first",
        facts=tuple((name[:11], ", ".join(names)) for name, names in by_size),
        next="jaxroof models NAME, a config.json or its folder",
    )


def _brief_entry(entry: Any, known: dict[str, Any]) -> Any:
    """What is asked most of a model."""
    from sweeps.answers.brief import Brief
    from sweeps.answers.tables import size

    counts = f"{_billions(known['parameters'])} parameters"
    if known["active_parameters"] != known["parameters"]:
        counts += f", {_billions(known['active_parameters'])} of them active per token"
    cache = size(known["kv_bytes_per_token"])
    facts = [
        ("layers", f"{known['layers']:.0f} of width {known['hidden']:.0f}, vocabulary {known['vocabulary']:,.0f}"),
        ("weights", f"{entry.precision} ({entry.precision_source}), {size(known['weight_bytes'])}"),
        ("KV cache", f"{cache} per token at 2 B per element" if known["kv_bytes_per_token"] else "none"),
        *((("state", f"{size(known['state_bytes'])} per sequence"),) if known["state_bytes"] else ()),
        *((("positions", f"{entry.max_position:,}"),) if entry.max_position is not None else ()),
        *((("also called", ", ".join(entry.aliases)),) if entry.aliases else ()),
    ]
    asked = f"{entry.name}: {entry.architecture}, from {entry.source}"
    following = f"jaxroof request --model {entry.name}"
    return Brief(asked, answer=counts, facts=tuple(facts), notes=entry.notes, next=following)


def show_entry(entry: Any) -> None:
    """Print what is known of one model."""
    from sweeps.answers.tables import console, size, table
    from sweeps.ask.axes import leaf_paths
    from sweeps.ask.axes import number as leaf
    from sweeps.ask.text import escaped
    from sweeps.data.labels import number

    out, known = console(), record(entry)
    if out.short(lambda: _brief_entry(entry, known)):
        return
    out.print(escaped(f"{entry.name}: {entry.architecture}, from {entry.source}", breaks=True))
    if entry.aliases:
        out.print(escaped(f"also called {', '.join(entry.aliases)}", breaks=True))
    out.print()
    facts = table("", "value", numbers=("value",))
    published = known["published_parameters"]
    rows = {
        "parameters": _billions(known["parameters"]),
        "of the language model": _billions(known["language_parameters"]),
        "of the encoder": _billions(known["encoder_parameters"]),
        "parameters, as published": _billions(published),
        "active parameters per token": _billions(known["active_parameters"]),
        "weights": entry.precision,
        "weights are so by": entry.precision_source,
        "weights as stored, an encoder's too": size(known["weight_bytes"]),
        "KV cache per token at 2 B per element": size(known["kv_bytes_per_token"]),
        "state per sequence": size(known["state_bytes"]),
        "prediction head's parameters, beside": _billions(known["prediction_parameters"]),
        "positions": "-" if entry.max_position is None else f"{entry.max_position:,}",
    }
    for fact, value in rows.items():
        facts.add_row(fact, value)
    facts.add_section()
    # Every number of the model by the path that axes and settings use.
    for path in leaf_paths(entry.model, "model"):
        facts.add_row(path, number(leaf({"model": entry.model}, path)))
    out.print(facts)
    for note in entry.notes:
        out.print(escaped(f"note  {note}", breaks=True))


def record(entry: Any) -> dict[str, Any]:
    """A model for machines."""
    from jaxroof import Deployment
    from jaxroof.memory import capacity

    # One device without any split: sizes are those of the model as a whole.
    model, alone = entry.model, Deployment()
    language, encoder = float(capacity.parameter_count(model)), float(capacity.encoder_parameter_count(model))
    return {
        "name": entry.name,
        "aliases": entry.aliases,
        "architecture": entry.architecture,
        "layers": sum(block.count for block in model.blocks),
        "hidden": model.hidden,
        "vocabulary": model.vocabulary,
        "parameters": language + encoder,
        "language_parameters": language,
        "active_parameters": float(capacity.active_parameter_count(model)),
        "encoder_parameters": encoder,
        "prediction_parameters": float(capacity.prediction_parameter_count(model)),
        "published_parameters": entry.published_parameters,
        "kv_bytes_per_token": float(capacity.kv_bytes_per_token(model, alone)),
        "state_bytes": float(capacity.state_bytes_of_sequence(model, alone)),
        "weight_bytes": float(capacity.weight_bytes(model, alone)),
        "max_position": entry.max_position,
        "precision": entry.precision,
        "precision_source": entry.precision_source,
        "source": entry.source,
        "notes": entry.notes,
    }


def _billions(count: float | None) -> str:
    """A number of parameters as model names write it: 70.6B, 124M; a dash for none or an unknown one."""
    if not count:
        return "-"
    # Limits lie where three significant digits would round up to the next unit.
    if count >= 999.5e9:
        return f"{count / 1e12:.3g}T"
    return f"{count / 1e9:.3g}B" if count >= 999.5e6 else f"{count / 1e6:.3g}M"
