"""Work per element of element-wise primitives: vector FLOP and results of the special-function units."""

ELEMENTWISE = {
    **dict.fromkeys(("add", "sub", "mul", "neg", "abs", "sign", "max", "min", "add_any", "real", "imag"), (1.0, 0.0)),
    **dict.fromkeys(("floor", "ceil", "round", "is_finite", "not", "and", "or", "xor", "population_count"), (1.0, 0.0)),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "eq_to", "lt_to", "le_to", "clz", "square"), (1.0, 0.0)),
    **dict.fromkeys(("shift_left", "shift_right_logical", "shift_right_arithmetic", "select_n"), (1.0, 0.0)),
    **dict.fromkeys(("convert_element_type", "reduce_precision"), (0.0, 0.0)),
    **dict.fromkeys(("clamp", "nextafter", "complex", "conj", "one_minus_square"), (2.0, 0.0)),
    **dict.fromkeys(("div", "rem"), (2.0, 0.0)),
    **dict.fromkeys(("exp", "exp2", "log", "log2"), (0.0, 1.0)),
    **dict.fromkeys(("expm1", "log1p"), (2.0, 1.0)),
    **dict.fromkeys(("sqrt", "rsqrt", "cbrt"), (1.0, 1.0)),
    **dict.fromkeys(("sin", "cos"), (2.0, 1.0)),
    "tan": (4.0, 2.0),
    **dict.fromkeys(("asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh"), (10.0, 1.0)),
    **dict.fromkeys(("sinh", "cosh"), (4.0, 2.0)),
    "tanh": (3.0, 1.0),
    "logistic": (3.0, 1.0),
    "pow": (2.0, 2.0),
    "integer_pow": (2.0, 0.0),
    **dict.fromkeys(("erf", "erfc", "erf_inv"), (14.0, 1.0)),
    **dict.fromkeys(("lgamma", "digamma", "igamma", "bessel_i0e", "bessel_i1e"), (30.0, 2.0)),
    "reciprocal": (1.0, 1.0),
    "mulhi": (2.0, 0.0),
    "stochastic_round": (4.0, 0.0),
    **dict.fromkeys(("igammac", "igamma_grad_a", "polygamma", "zeta", "regularized_incomplete_beta"), (60.0, 4.0)),
    "random_gamma": (200.0, 8.0),
    **dict.fromkeys(("rng_bit_generator", "rng_uniform", "philox2x32", "philox4x32"), (20.0, 0.0)),
    "random_bits": (58.0, 0.0),
    "threefry2x32": (115.0, 0.0),
    "iota": (0.0, 0.0),
    **dict.fromkeys(("empty", "empty2"), (0.0, 0.0)),
}
"""Primitive -> vector FLOP and special-function results per element of its result; ours.

Sums, comparisons and selections are one operation; a division is a reciprocal and its product; what the special
-function units return (exponential, logarithm, root, sine) counts as one of theirs, with the vector operations of its
range reduction. The error function is a polynomial of degree 7 and an exponential.

Threefry makes two words of 32 bits in 20 rounds of a sum, a rotation (three operations) and an exclusive or, with three
operations after every fourth: Salmon et al., SC 2011, Parallel random numbers: as easy as 1, 2, 3.
"""

DRAWN = ("rng", "random_bits", "threefry", "philox", "random_gamma")
"""Beginnings of names of primitives that draw numbers: known keys do not make these known."""

REDUCTIONS = {
    **dict.fromkeys(("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or"), 1.0),
    **dict.fromkeys(("reduce_xor", "reduce"), 1.0),
    **dict.fromkeys(("argmax", "argmin"), 2.0),
}
"""Primitive -> vector FLOP per element of its operand. Its parameter `axes` names the axes that go."""

MOVES = {
    "concatenate",
    "pad",
    "gather",
    "dynamic_slice",
    "dynamic_update_slice",
    "split",
    "stack",
    "unstack",
    "tile",
    "roll",
}
"""Primitives that move elements and compute nothing: part of whatever reads their result."""

MESSAGES = {
    **dict.fromkeys(("psum", "psum_invariant", "unreduced_psum", "pmax", "pmin"), "all_reduce"),
    **dict.fromkeys(("all_gather", "all_gather_invariant", "all_gather_reduced"), "all_gather"),
    **dict.fromkeys(("reduce_scatter", "unreduced_reduce_scatter"), "reduce_scatter"),
    **dict.fromkeys(("all_to_all", "ragged_all_to_all"), "all_to_all"),
    "ppermute": "send_recv",
    "pbroadcast": "broadcast",
}
"""Primitive of `shard_map` -> the collective that it is, one of `jaxroof.op.COLLECTIVES`."""

FREE = {
    *("axis_index", "random_seed", "random_fold_in", "random_split", "random_clone", "create_token", "after_all"),
    *(
        "platform_index",
        "dim_as_value",
        "dimension_size",
        "program_id",
        "shape_assertion",
        "debug_callback",
        "debug_print",
    ),
}
"""Primitives whose work is nothing beside a kernel's launch, which others make with them."""
