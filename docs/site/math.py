"""Equations as MathML, which browsers draw themselves: no script, no font, nothing to fetch."""

from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml


def setup(app: Any) -> None:
    """Register the renderer `mathml` of equations."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(latex2mathml.tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    equation = latex2mathml.tex2mathml(node.astext(), as_block=True)
    writer.body.append(f'<div class="math">{equation}</div>\n')
    raise nodes.SkipNode
