"""Precisions of weights: number formats, and the quantization that checkpoints and their exporters describe."""
