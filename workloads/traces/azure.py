"""Requests of Azure's LLM inference traces of 2023 and 2024: a CSV of times and token counts."""

from workloads.streams.stream import Stream
from workloads.traces.rows import ReadOptions, checked, listed
from workloads.traces.table import COUNT, TIMESTAMP, table

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def read(path: str, options: ReadOptions) -> Stream:
    """The stream of `TIMESTAMP,ContextTokens,GeneratedTokens`; times count from the first request.

    Source: AzurePublicDataset, AzureLLMInferenceDataset2023.md and AzureLLMInferenceDataset2024.md; times of 2023
    have 7 digits after the second and no zone, those of 2024 6 digits and +00:00. A time without a zone is UTC.
    """
    trace = table(path, dict(zip(COLUMNS, (TIMESTAMP, COUNT, COUNT), strict=True)))
    # Times were read as whole nanoseconds, hence the tick of 1e-9 s.
    return checked(listed(trace, COLUMNS, 1e-9), options).stream(path, trace.unused())
