"""Scores of predictions against measured files, a module per kind of data."""
