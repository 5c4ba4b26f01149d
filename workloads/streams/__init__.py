"""Streams of requests: arrivals, lengths, shared prefixes and classes, drawn with a seed."""
