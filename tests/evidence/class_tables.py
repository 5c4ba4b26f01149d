"""Tables of single classes of kernels in the text of an efficiency file: replaced, added, carried over."""

OWN = ("full", "states", "gated", "window", "update", "streams")
"""Classes of kernels that `linear_fit` has constants of, and no other fit."""

KINDS = ("prefill_attention", "decode_attention", "elementwise")
"""Kinds of ops that have such classes."""


def with_table(text: str, path: str, lines: list[str]) -> str:
    """The text of an efficiency file with one table replaced, or added after the others of its kind."""
    block = "\n".join(line for line in lines if line) + "\n"
    start = text.find(f"\n[{path}]\n")
    if start < 0:
        kind = path.partition(".")[0]
        start = text.rfind(f"\n[{kind}.")
        if start < 0:
            raise ValueError(f"{path}: the file has no table of {kind}")
        end = text.find("\n[", start + 1)
        end = len(text) if end < 0 else end
        return text[:end] + "\n" + block + text[end:]
    end = text.find("\n[", start + 1)
    return text[: start + 1] + block + ("" if end < 0 else text[end:])


def carried(text: str, shipped: str) -> str:
    """The text of an efficiency file with those tables of another one that belong to `OWN`."""
    for path in (f"{kind}.{name}" for kind in KINDS for name in OWN):
        start = shipped.find(f"\n[{path}]\n")
        if start >= 0:
            end = shipped.find("\n[", start + 1)
            text = with_table(text, path, shipped[start + 1 : len(shipped) if end < 0 else end].split("\n"))
    return text
