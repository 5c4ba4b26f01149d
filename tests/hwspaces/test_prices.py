"""Market prices: rows of the file, the figure that stands for them, estimates, and prices that a user gives."""

import dataclasses
import datetime
import statistics

import pytest

import hwspaces
from hwspaces.accelerators.prices import BOUGHT, SELLERS, TERMS, Offer, market_price, offers, quarter, summarised
from tests.evidence.price_fit import bandwidth_margin, estimates, margin_of, rental_margin

EVERY = [row for rows in offers().values() for row in rows]
QUARTER = quarter(max(row.date for row in EVERY))


def row(usd, kind="neocloud", date="2026-10-01", terms="on_demand", seller="Seller"):
    return Offer("H100-SXM", terms, usd, seller, kind, "", date, "a page", "")


NEVER_SOLD = {"TPU-v1", "MTIA-300", "MTIA-400", "MTIA-450", "MTIA-500", "Maia-200"}
UNKNOWN_PRICE = {
    *("SN50", "SN40L", "Ascend-910C", "WSE-2", "WSE-3", "GroqChip1", "Groq-3", "Corsair", "AiMX", "Rubin-CPX"),
    *("Wormhole-n150", "Wormhole-n300-chip", "Blackhole-p150", "TPU-v8t", "TPU-v8i", "Apple-M5-Max"),
    *("Jetson-AGX-Thor", "Cloud-AI-100-Ultra"),
}


def test_every_accelerator_has_a_price_with_its_kind_date_and_source_or_none_is_known():
    for name, entry in hwspaces.catalogue().items():
        price = entry.price
        assert price == market_price(name) and (price is None) == (name in NEVER_SOLD | UNKNOWN_PRICE)
        if price is None:
            continue
        assert price.usd_per_hour > 0 and price.kind and price.source and price.date
        assert entry.hardware.price == entry.figures["price"] == pytest.approx(price.usd_per_hour / 3600)
        assert entry.sources["price"] == price.source
        assert price.estimate == (price.kind == "estimate" or price.seller == BOUGHT)


def test_no_table_of_an_accelerator_declares_a_price_besides():
    for table in hwspaces.accelerators.load.catalogue_tables().values():
        assert not [key for key in table if key.startswith("price")]


def test_rows_name_an_accelerator_terms_a_kind_of_seller_a_date_and_a_source():
    kinds = {"purchase": {"new", "used", "rack"}} | dict.fromkeys(TERMS, set(SELLERS))
    assert offers().keys() <= set(hwspaces.names())
    for one in EVERY:
        assert one.usd > 0 and one.source and one.kind in kinds[one.terms]
        assert bool(one.seller) == (one.kind != "estimate")
        datetime.date.fromisoformat(one.date + "-01-01"[len(one.date) - 4 :])
        assert one.date <= "2026-12"
    keys = [(one.accelerator, one.terms, one.kind, one.seller) for one in EVERY]
    assert len(set(keys)) == len(keys), "one row for each seller"


def test_an_older_quarter_is_there_only_where_the_newest_has_nothing():
    groups = {}
    for one in EVERY:
        if one.terms in TERMS:
            groups.setdefault((one.accelerator, one.terms, one.kind), set()).add(quarter(one.date))
    assert all(len(quarters) == 1 for quarters in groups.values())
    sold = {name for name, terms, kind in groups if terms == "on_demand" and kind != "estimate"}
    estimated = {name for name, terms, kind in groups if kind == "estimate"}
    assert not sold & estimated and sold | estimated == set(hwspaces.rented_names())
    bought = {name for name in hwspaces.names() if (price := market_price(name)) and price.seller == BOUGHT}
    assert bought | set(hwspaces.rented_names()) | NEVER_SOLD | UNKNOWN_PRICE == set(hwspaces.names())
    current = [name for name in sold if quarter(market_price(name).date) == QUARTER]
    assert len(current) > len(sold) / 2, "most prices are of the file's quarter"


def test_the_price_is_the_median_of_one_kind_of_seller_in_one_quarter():
    """By hand: of four neoclouds one is a quarter older; the other three have 2, 3 and 7, so 3. Two have the mean."""
    rows = [row(7.0), row(2.0), row(3.0, date="2026-12-31"), row(1.0, date="2026-09-30")]
    rows += [row(0.5, "marketplace"), row(9.0, "hyperscaler"), row(0.1, "china"), row(0.2, "estimate")]
    price = summarised(rows)
    assert (price.usd_per_hour, price.date) == (3.0, "2026-12-31")
    assert price.kind == "on demand, neocloud, median of 3" and not price.estimate
    assert summarised(rows[:2]).usd_per_hour == 4.5
    assert summarised([]) is None


@pytest.mark.parametrize(
    ("kinds", "chosen"),
    [
        (("marketplace", "hyperscaler"), "hyperscaler"),
        (("hyperscaler", "china"), "china"),
        (("marketplace", "estimate"), "marketplace"),
        (("marketplace", "neocloud"), "neocloud"),
    ],
)
def test_kinds_of_sellers_are_not_mixed(kinds, chosen):
    """Also when the preferred kind's row is a year older: its date says so."""
    dates = {kind: "2025-10" if kind == chosen else "2026-10" for kind in kinds}
    price = summarised([row(1.0 + place, kind, dates[kind]) for place, kind in enumerate(kinds)])
    assert price.usd_per_hour == 1.0 + kinds.index(chosen) and price.date == dates[chosen]
    assert price.kind.startswith(f"on demand, {SELLERS[chosen]}")


@pytest.mark.parametrize(
    ("date", "of"), [("2026-10-04", "2026-Q4"), ("2026-09", "2026-Q3"), ("2026-01-31", "2026-Q1"), ("2026", "2026")]
)
def test_quarter(date, of):
    assert quarter(date) == of


def test_what_nobody_rents_out_has_its_price_as_new_over_its_life():
    """By hand: 80 USD over four years of 8766 h; there is no reservation of a board on a desk."""
    price = hwspaces.hardware("Raspberry-Pi-5").price
    assert price.usd_per_hour == pytest.approx(80 / (4 * 8766)) and price.seller == BOUGHT and price.estimate
    assert price.kind == "bought new for 80 USD, over 4 years" and price.date == "2023-09"
    assert market_price("Raspberry-Pi-5", "reserved_1y") is None
    assert "Raspberry-Pi-5" not in hwspaces.rented_names() and market_price("TPU-v1") is None


def test_h100_by_hand():
    """Eight neoclouds: 3.2 3.627 3.9 3.99 3.99 4.41 4.5 6.155 USD/h; the fourth and the fifth are 3.99."""
    price = hwspaces.hardware("H100-SXM").price
    assert price.usd_per_hour == pytest.approx(3.99) and price.kind == "on demand, neocloud, median of 8"
    assert "Lambda 3.99" in price.source and quarter(price.date) == QUARTER


def test_estimates_are_what_their_fit_gives():
    """To the three digits that the file has."""
    inside = {one.accelerator: one for one in EVERY if one.kind == "estimate"}
    refitted = {one.accelerator: one for one in estimates()}
    assert inside.keys() == refitted.keys() and len(inside) == 15
    for name, one in refitted.items():
        assert (inside[name].usd, inside[name].source) == (pytest.approx(one.usd, rel=2e-3), one.source)


def test_a_rental_price_follows_from_the_cost_of_owning():
    """Margins and their spreads as docs/reference/prices.md gives them.

    0.15: a factor of 1.16 for two of three accelerators with two sellers or more. Where one seller alone has a device,
    the spread is three times as wide, which is why those do not fit the margin.
    """
    fit, lone = rental_margin(), rental_margin(1)
    assert fit.mean == pytest.approx(1.86, abs=0.01) and len(fit.ratios) == 13
    assert 0.05 < fit.spread < 0.15 < lone.spread < 0.4
    assert statistics.median(lone.ratios.values()) == pytest.approx(fit.mean, rel=0.05), "the same in the middle"


def test_the_margin_of_a_vendor_is_its_own_where_enough_of_its_accelerators_are_sold():
    """Three of AMD's are, two of them by one seller alone; none of Intel's in the quarter."""
    assert [margin_of(name)[0] for name in ("MI300A", "B100-SXM", "Gaudi3")] == ["AMD", "NVIDIA", "all"]
    amd, nvidia = margin_of("MI300A")[1], margin_of("B100-SXM")[1]
    assert set(amd.ratios) == {"MI300X", "MI325X", "MI350X"} and len(nvidia.ratios) == 12
    assert amd.mean == pytest.approx(2.67, abs=0.01) and nvidia.mean == pytest.approx(1.84, abs=0.01)
    assert 0.2 < amd.spread < 0.35, "a factor of 1.34 for two of three"


def test_a_price_in_proportion_to_a_neighbours_bandwidth_is_within_a_factor_of_two():
    fit = bandwidth_margin()
    assert 0.1 < fit.spread < 0.25 and 0.8 < fit.mean < 1.2
    assert all(0.5 < ratio < 2.0 for ratio in fit.ratios.values())


def test_a_price_that_is_set_says_so():
    entry = hwspaces.overridden(hwspaces.hardware("H100-SXM"), {"price": "2 USD/h"})
    assert entry.price.usd_per_hour == pytest.approx(2.0) and entry.price.kind == "given in --set"
    assert entry.price.date is None and not entry.price.estimate
    other = hwspaces.overridden(hwspaces.hardware("H100-SXM"), {"power.tdp": "500 W"})
    assert other.price == hwspaces.hardware("H100-SXM").price
    assert dataclasses.replace(other.hardware, power=None) == dataclasses.replace(
        hwspaces.hardware("H100-SXM").hardware, power=None
    )


OWN = """
H100 = "1.9 USD/h"
["RTX 4090"]
price = "0.5 USD/h"
date = 2026-11-02
source = "contract 17"
"""


def own(folder, text=OWN):
    path = folder / "contract.toml"
    path.write_text(text)
    return str(path)


def test_a_users_prices_replace_those_of_their_accelerators_alone(tmp_path):
    path = own(tmp_path)
    h100, card, other = (hwspaces.priced(hwspaces.hardware(name), path) for name in ("H100-SXM", "RTX-4090", "A10"))
    assert h100.hardware.price == pytest.approx(1.9 / 3600) and h100.price.kind == f"given in {path}"
    assert h100.price.date is None and h100.price.seller == "own"
    assert (card.price.usd_per_hour, card.price.date, card.price.source) == (0.5, "2026-11-02", "contract 17")
    assert card.sources["price"] == "contract 17"
    assert other == hwspaces.hardware("A10")
    own(tmp_path, 'H100-SXM = "2.25 USD/h"')
    assert hwspaces.priced(hwspaces.hardware("H100-SXM"), path).price.usd_per_hour == pytest.approx(2.25)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('H1000 = "1.9 USD/h"', "'H1000' is neither in the catalogue nor a .toml or .json file; did you mean H100"),
        ('H100 = "1.9 USD/s2"', "H100 = '1.9 USD/s2' has the unit 'USD/s2'; allowed: USD/s, USD/h"),
        ('H100 = "1.9 GB/s"', "H100 = '1.9 GB/s' has the unit 'GB/s'"),
        ('H100 = "0 USD/h"', "H100 = '0 USD/h' must be a positive"),
        ('H100 = "-1 USD/h"', "H100 = '-1 USD/h' must be a positive"),
        ('H100 = "nan USD/h"', "H100 = 'nan USD/h'"),
        ("H100 = 1.9", "H100 = 1.9 must be text with its unit"),
        ("H100 = true", "H100 = True must be text"),
        ('H100 = "1 USD/h"\nH100-SXM = "2 USD/h"', "H100-SXM: the price of H100-SXM is given twice"),
        ('[H100]\ncost = "1 USD/h"', "H100: cost is not known"),
        ('[H100]\nsource = "x"', "H100: price is missing"),
        ('[H100]\nprice = "1 USD/h"\nsource = 3', "H100: source = 3 is not text"),
        ('[H100]\nprice = "1 USD/h"\ndate = "May"', "H100: date = 'May' is not a date"),
        ('"my.toml" = "1 USD/h"', "my.toml is no name of the catalogue; a file of an accelerator says its own price"),
        ("", "no price in it"),
        ("H100 = ", "contract.toml"),
    ],
)
def test_a_file_of_prices_with_a_mistake_is_refused_in_one_line(tmp_path, text, said):
    path = own(tmp_path, text)
    with pytest.raises(ValueError) as error:
        hwspaces.priced(hwspaces.hardware("A10"), path)
    assert str(error.value).startswith(path) and said in str(error.value) and "\n" not in str(error.value)


def test_other_terms():
    """By hand: of neoclouds, Hyperstack 2.72 and DigitalOcean 3.26 for a year; nobody reserves a VR200."""
    h100, rubin = hwspaces.hardware("H100-SXM"), hwspaces.hardware("VR200")
    year = hwspaces.priced(h100, "reserved-1y")
    assert year.price.usd_per_hour == pytest.approx(2.99) and year.price.kind.startswith("reserved for 1 year, neocl")
    assert hwspaces.priced(h100, "on_demand").price == h100.price and hwspaces.priced(h100, None) is h100
    unsold = hwspaces.priced(rubin, "reserved_3y")
    assert unsold.price is unsold.hardware.price is None and "price" not in unsold.figures | unsold.sources
    with pytest.raises(
        ValueError, match=r"prices = 'reserved' is neither a \.toml file nor terms; did you mean reserve"
    ):
        hwspaces.priced(h100, "reserved")
    with pytest.raises(ValueError, match="missing.toml"):
        hwspaces.priced(h100, "missing.toml")


def test_an_accelerator_of_a_users_file_keeps_its_price(tmp_path):
    """Also where it is called as one of the catalogue."""
    text = """
[accelerator.H100-SXM]
matrix.bf16_TFLOPs = 500
vector.fp32_TFLOPs = 25
cores.count = 100
memory.hbm.capacity_GiB = 96
memory.hbm.bandwidth_TBps = 4
price_USD_per_h = 3.6
"""
    path = tmp_path / "mine.toml"
    path.write_text(text)
    entry = hwspaces.priced(hwspaces.hardware(str(path)), "reserved_1y")
    assert entry.price.usd_per_hour == pytest.approx(3.6) and entry.price.kind == f"given in {path}"
