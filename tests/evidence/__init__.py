"""Fits of constants and reproduced claims: what needs measured data."""
