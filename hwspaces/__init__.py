"""Hardware: the catalogue of accelerators, a user's own devices, and their units."""

from hwspaces.constants import Constant as Constant
from hwspaces.constants import technology_constants as technology_constants
from hwspaces.constants import technology_names as technology_names
from hwspaces.efficiency import EfficiencyEntry as EfficiencyEntry
from hwspaces.efficiency import efficiencies as efficiencies
from hwspaces.efficiency import efficiency as efficiency
from hwspaces.engine import EngineEntry as EngineEntry
from hwspaces.engine import engine as engine
from hwspaces.engine import engine_names as engine_names
from hwspaces.entry import HardwareEntry as HardwareEntry
from hwspaces.entry import overridden as overridden
from hwspaces.entry import require_precision as require_precision
from hwspaces.leaves import PRECISIONS as PRECISIONS
from hwspaces.leaves import leaf_unit as leaf_unit
from hwspaces.load import catalogue as catalogue
from hwspaces.load import names as names
from hwspaces.load import rented_names as rented_names
from hwspaces.named import hardware as hardware
from hwspaces.price_lists import priced as priced
from hwspaces.prices import Price as Price
from hwspaces.prices import market_price as market_price
from hwspaces.units import formatted as formatted
from hwspaces.units import from_key as from_key
from hwspaces.units import quantity as quantity
