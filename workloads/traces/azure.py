"""Requests of Azure's LLM inference traces of 2023 and 2024: a CSV of times and token counts."""

from workloads.stream import Stream, alone
from workloads.traces.rows import Options, Rows, checked
from workloads.traces.table import COUNT, TIMESTAMP, table

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def read(path: str, options: Options) -> Stream:
    """The stream of `TIMESTAMP,ContextTokens,GeneratedTokens`; times count from the first request.

    Source: AzurePublicDataset, AzureLLMInferenceDataset2023.md and AzureLLMInferenceDataset2024.md; times of 2023
    have 7 digits after the second and no zone, those of 2024 6 digits and +00:00. A time without a zone is UTC.
    """
    found = table(path, dict(zip(COLUMNS, (TIMESTAMP, COUNT, COUNT), strict=True)))
    time, isl, osl = (found.columns[name] for name in COLUMNS)
    kept = checked(Rows(path, found.place, COLUMNS, time, 1e-9, isl, osl), options)
    return kept.stream(path, *alone(len(kept.rows)), notes=found.unused())
