"""Hardware: the catalogue of accelerators, a user's own devices, and their units."""

from hwspaces.accelerators.constants import Constant as Constant
from hwspaces.accelerators.constants import technology_constants as technology_constants
from hwspaces.accelerators.constants import technology_names as technology_names
from hwspaces.accelerators.entry import HardwareEntry as HardwareEntry
from hwspaces.accelerators.entry import overridden as overridden
from hwspaces.accelerators.entry import require_precision as require_precision
from hwspaces.accelerators.load import catalogue as catalogue
from hwspaces.accelerators.load import names as names
from hwspaces.accelerators.load import priced as priced
from hwspaces.accelerators.load import rented_names as rented_names
from hwspaces.accelerators.prices import Price as Price
from hwspaces.accelerators.prices import market_price as market_price
from hwspaces.accelerators.space import hardware as hardware
from hwspaces.engines.engine import EngineEntry as EngineEntry
from hwspaces.engines.engine import engine as engine
from hwspaces.engines.engine import engine_names as engine_names
from hwspaces.performance.efficiency import EfficiencyEntry as EfficiencyEntry
from hwspaces.performance.efficiency import efficiencies as efficiencies
from hwspaces.performance.efficiency import efficiency as efficiency
from hwspaces.quantities.leaves import PRECISIONS as PRECISIONS
from hwspaces.quantities.leaves import leaf_unit as leaf_unit
from hwspaces.quantities.units import formatted as formatted
from hwspaces.quantities.units import from_key as from_key
from hwspaces.quantities.units import quantity as quantity
from jaxroof.version import VERSION as __version__  # noqa: F401
