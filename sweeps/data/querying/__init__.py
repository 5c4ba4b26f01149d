"""Questions to a finished sweep of any size: which points keep a condition, and which of them are best."""

from sweeps.data.querying.run import query as query
