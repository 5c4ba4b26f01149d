"""Inference engines: presets, policies, host times and memory rules by release, and the module that reads them."""
