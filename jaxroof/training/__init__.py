"""Cost of one iteration of training: forward and backward ops, pipeline, gradients, optimiser, memory."""

from jaxroof.training.iteration import Iteration, iteration_cost
from jaxroof.training.memory import TrainingMemory, training_memory
from jaxroof.training.training import RECOMPUTES, LoRA, Training

__all__ = ["RECOMPUTES", "Iteration", "LoRA", "Training", "TrainingMemory", "iteration_cost", "training_memory"]
