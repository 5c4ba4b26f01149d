"""Parts that are kept of a sweep too large to keep: best points, a front, histograms, quantiles."""

from sweeps.data.keep.parse import keepers as keepers
