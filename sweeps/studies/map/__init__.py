"""Search of the best mapping of a loop nest."""

from sweeps.studies.map.search import METHODS, OBJECTIVES, FoundMapping, found_mapping

__all__ = ["METHODS", "OBJECTIVES", "FoundMapping", "found_mapping"]
