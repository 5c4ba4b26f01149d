"""Layers of a model as the ops that they launch on one device of a deployment."""
