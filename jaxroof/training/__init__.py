"""What one iteration of training costs: forward and backward ops, pipeline, gradients, optimiser, memory."""

from jaxroof.training.iteration import Iteration, iteration_cost
from jaxroof.training.training import RECOMPUTES, LoRA, Training

__all__ = ["RECOMPUTES", "Iteration", "LoRA", "Training", "iteration_cost"]
