"""Answers: what a question returns, in words and tables, and its renderers: the screen, JSON and HTML."""
