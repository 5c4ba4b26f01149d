"""A design problem as a function of torch tensors, for BoTorch's models and for torch's own optimisers."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sweeps.studies.adapters.libraries import library
from sweeps.studies.optimize.cube import Cube, Shares
from sweeps.studies.optimize.problem import Problem


def outcomes(problem: Problem) -> Callable[[Any], Any]:
    """outcomes(X) of points of the unit cube, shape [n, d], as tensors of shape [n, objectives + constraints].

    As BoTorch wants them: objectives to be made large, the negative logarithms of what the problem makes small, then
    constraints, which are kept where <= 0. `Cube(problem).designs(X)` are the designs. Values only; gradients are
    those of `goals`.

    Raises:
      ValueError: one line with the command that installs BoTorch, where torch is missing.
    """
    torch = library("torch", "botorch")
    cube = Cube(problem)

    def found(points: Any) -> Any:
        objectives, constraints = cube.evaluate(points.detach().cpu().numpy())
        # BoTorch maximises: the problem's objectives, which are made small, change their sign.
        scores = np.sign(objectives) * np.log(np.abs(objectives))
        return torch.as_tensor(np.concatenate([-scores, constraints], axis=1), dtype=points.dtype, device=points.device)

    return found


def goals(shares: Shares) -> Callable[[Any], Any]:
    """goals(x) of shares x, shape [k]: the objective's logarithm, made small, then the constraints, shape [1 + c].

    torch differentiates through it, by jaxroof's gradients; ValueError as `outcomes`.
    """
    torch = library("torch", "botorch")

    class Goals(torch.autograd.Function):  # type: ignore[name-defined]
        """Values of jaxroof with its slopes."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            cube_goals = shares.goals(x.detach().cpu().numpy())
            # Derivatives of the objective and the constraints, shape [1 + c, k], kept for the backward pass.
            slopes = np.concatenate([cube_goals.slopes[np.newaxis], cube_goals.constraint_slopes])
            ctx.save_for_backward(torch.as_tensor(slopes, dtype=x.dtype, device=x.device))
            values = np.concatenate([[cube_goals.score], cube_goals.constraints])
            return torch.as_tensor(values, dtype=x.dtype, device=x.device)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            # Vector-Jacobian product, shape [1 + c] @ [1 + c, k].
            (slopes,) = ctx.saved_tensors
            return gradient @ slopes

    return Goals.apply
