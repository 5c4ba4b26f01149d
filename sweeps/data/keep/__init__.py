"""What is kept of a sweep that is too large to keep: best points, a front, histograms, quantiles, found on the fly."""

from sweeps.data.keep.parse import keepers as keepers
