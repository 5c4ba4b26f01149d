"""Sensitivities: elasticities of a job's metrics, at one point or over a sweep."""
