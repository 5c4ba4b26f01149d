"""Prices in `jaxroof hardware NAME`: one figure for each term of renting, and every offer that it is from."""

from typing import Any


def price_record(entry: Any) -> dict[str, Any]:
    """For machines: the price, its kind, date and source, and every offer; null where there is no price."""
    offers = {"offers": [row._asdict() for row in _offers(entry)]}
    return ({"price_usd_per_hour": None} if entry.price is None else entry.price.record()) | offers


def print_prices(entry: Any, out: Any) -> None:
    """Print the price, those of other terms, and the offers as a table."""
    from hwspaces.accelerators.prices import TERMS, summarised
    from sweeps.cli.printing import escaped
    from sweeps.cli.tables import table

    rows = _offers(entry)
    if entry.price is None:
        out.print("price unknown: give price_USD_per_h in its file, or --set hardware.price=2USD/h")
    else:
        out.print(escaped(f"price   {entry.price.text}", breaks=True))
    for terms in TERMS:
        other = summarised([row for row in rows if row.terms == terms])
        if other is not None and other != entry.price:
            out.print(escaped(f"        {other.text}", breaks=True))
    if not rows:
        return
    offers = table("terms", "USD", "seller", "kind", "date", "source", numbers=("USD",))
    for row in rows:
        source = f"{row.source}: {row.note}" if row.note else row.source
        words = TERMS.get(row.terms, "to buy")
        offers.add_row(words, f"{row.usd:,.6g}", _seller(row), row.kind, row.date, source)
    out.print(offers)
    out.print("USD per device and hour; to buy: per device")


def _offers(entry: Any) -> tuple[Any, ...]:
    """Rows of the prices file; none for an accelerator of a user's file, whatever its name."""
    from hwspaces.accelerators.load import CATALOGUE_PLACE
    from hwspaces.accelerators.prices import offers

    return offers().get(entry.name, ()) if entry.file.startswith(CATALOGUE_PLACE) else ()


def _seller(row: Any) -> str:
    return f"{row.seller}, {row.region}" if row.region else row.seller or "-"
