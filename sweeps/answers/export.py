"""Sentences on what an exported timeline shows."""

from sweeps.answers.tables import metric_text
from sweeps.run.answer import Answer
from sweeps.studies.export.timeline import hidden_time


def timeline_text(answer: Answer, what: str) -> str:
    """Time of a step or of a training iteration, and how much more of communication overlap hides.

    Args:
      answer: the answer that is exported.
      what: what it works on, in words.
    """
    if "iteration_time" in answer.metrics:
        return f"{metric_text('iteration_time', answer.metrics['iteration_time'])} of training on {what}"
    hidden = hidden_time(answer)
    also = f"; overlap hides {metric_text('step_time', hidden)} more of communication" if hidden else ""
    return f"{metric_text('step_time', answer.metrics['step_time'])} of {what}{also}"
