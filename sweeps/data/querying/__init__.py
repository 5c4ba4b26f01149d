"""Questions to a finished sweep of any size: the points that keep a condition, and the best of them."""

from sweeps.data.querying.run import query as query
