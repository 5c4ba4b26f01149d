"""Entry points of Python: a function for each verb, the answers that they return, and questions to a dataset."""
