"""Checks of a process's surroundings: its streams, limits on memory, variables of JAX; an error is one line."""

import errno
import os
import sys

LEAST_ADDRESSES = 1_900_000 * 1024
"""B of addresses (`ulimit -v`) below which compiled libraries end the process themselves: measured on two cores."""

TRUE = ("y", "yes", "t", "true", "on", "1")
"""Values that JAX takes for true."""

_NO_MEMORY = ("RESOURCE_EXHAUSTED", "out of memory", "cannot allocate memory", "failed to map segment", "bad_alloc")
_NO_THREADS = ("can't start new thread", "can't allocate lock")


def require_streams(out: object, err: object) -> None:
    """ValueError where there is no standard output to print to; without a stream for errors, nobody reads them."""
    if out is None:
        raise ValueError("standard output is closed, so that no answer can be printed; > /dev/null throws it away")


def require_usable() -> None:
    """ValueError in one line for surroundings in which JAX or its compiled libraries would end the process."""
    # JAX reads this variable at import; without compilation it would run every op of a program by itself.
    if os.environ.get("JAX_DISABLE_JIT", "").lower() in TRUE:
        value = os.environ["JAX_DISABLE_JIT"]
        raise ValueError(f"JAX_DISABLE_JIT={value}: jaxroof computes by compiled programs alone; unset the variable")
    limit = _address_limit()
    if limit is not None and limit < LEAST_ADDRESSES:
        raise ValueError(f"no memory: {_limit_words(limit)}; at least {LEAST_ADDRESSES / 1e9:.2g} GB are needed")
    # XLA ends the process at a flag that it does not know; once jaxlib is loaded it has accepted them.
    if os.environ.get("XLA_FLAGS") and "jaxlib" not in sys.modules:
        from jaxroof.numerics.xla_options import refusal

        flags = os.environ["XLA_FLAGS"]
        if (why := refusal(flags)) is not None:
            raise ValueError(f"XLA_FLAGS={flags}: {why}; unset it, or correct it")


def explained(error: BaseException) -> str | None:
    """One line about an error whose cause is in the surroundings; None for every other."""
    # Messages of compiled libraries may have many lines; the error is one.
    text = " ".join(str(error).split())
    if isinstance(error, Warning):
        return f"{type(error).__name__}: {text}; PYTHONWARNINGS or -W makes warnings errors here: unset it"
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return f"no memory: {_memory()}"
    # Errors of other classes are defects or bad input, whose words are not searched.
    if not isinstance(error, RuntimeError | ImportError | OSError | AssertionError):
        return None
    # XLA and the operating system spell the lack of memory differently.
    if any(words in text.lower() for words in map(str.lower, _NO_MEMORY)):
        return f"no memory: {_memory()} ({text[:200]})"
    if any(words in text for words in _NO_THREADS):
        return f"no thread can be started: {_memory()}; `ulimit -u` is another limit ({text[:200]})"
    # JAX's own error need not name the platform that is missing.
    platforms = os.environ.get("JAX_PLATFORMS")
    if platforms and _no_device():
        return f"JAX_PLATFORMS={platforms}: JAX finds no such device here; unset the variable, or set it to cpu"
    if isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError):
        return f"a library cannot be loaded: {text}"
    return None


def _no_device() -> bool:
    """True where JAX finds no device; for a platform whose plugin is not installed its error says nothing."""
    # JAX may not be loaded, or only in part after an import that failed.
    jax = sys.modules.get("jax")
    try:
        return jax is None or not hasattr(jax, "devices") or not jax.devices()
    except (RuntimeError, AssertionError):
        return True


def _address_limit() -> int | None:
    try:
        import resource
    except ImportError:  # not a Unix
        return None
    # Bytes of virtual addresses, which includes what is only reserved.
    limit = resource.getrlimit(resource.RLIMIT_AS)[0] if hasattr(resource, "RLIMIT_AS") else resource.RLIM_INFINITY
    return None if limit == resource.RLIM_INFINITY else limit


def _limit_words(limit: int) -> str:
    return f"this process may have {limit / 1e9:.3g} GB of addresses (`ulimit -v` {limit // 1024})"


def _memory() -> str:
    """Available memory: the limit, else the free part."""
    limit = _address_limit()
    if limit is not None:
        return f"{_limit_words(limit)}; raise the limit, or ask for less at a time"
    try:
        # Linux only: MemAvailable in kB, elsewhere the file is missing.
        with open("/proc/meminfo", encoding="ascii") as file:
            free = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
        return f"{free / 1e6:.3g} GB are free; ask for less at a time"
    except (OSError, StopIteration, MemoryError):
        return "ask for less at a time"
