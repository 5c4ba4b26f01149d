"""Engines, and services of several engines, over time: slow, one step after the other, and right by definition.

Plain Python, with nothing approximated: every block of the cache and every token is counted, and what is counted is
checked at every step.
"""

from tests.oracle.serving.alone import serve
from tests.oracle.serving.service import Server, Service, ServiceOutcome, serve_service

__all__ = ["Server", "Service", "ServiceOutcome", "serve", "serve_service"]
