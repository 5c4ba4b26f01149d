"""`jaxroof emit`: launch flags of an engine, or a manifest, for one row of a saved comparison."""

import argparse

from sweeps.answers.answer import say
from sweeps.cli import common
from sweeps.cli.outputs import output_argument


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    what = "vllm, sglang or trtllm: a shell command; dynamo or kubernetes: a manifest that starts the row's engine"
    parser.add_argument("kind", metavar="KIND", help=what)
    parser.add_argument("file", metavar="RESULT.json", help="what jaxroof compare --json printed")
    common.row_argument(parser)
    what = "tokens of the longest request that the engine takes (default: the model's positions, as far as two fit)"
    parser.add_argument("--max-len", metavar="N", help=what)
    output_argument(
        parser, "-o", "--output", kinds=("launch",), metavar="FILE", help="a .sh or .yaml in place of stdout"
    )


def run(options: argparse.Namespace) -> None:
    """Print the text, or write it into the file that is wanted."""
    number = common.row_number(options.row)
    longest = None if options.max_len is None else int(common.whole_number("--max-len", options.max_len))
    from hwspaces.files.output import saved_text
    from sweeps.serving.launch import launch_text
    from sweeps.serving.rows import row_of

    text = launch_text(options.kind, row_of(options.file, number), longest)
    if options.output:
        # The saved comparison is an input: it must not be replaced by what is made from it.
        saved_text(options.output, "launch", text, options.force, (options.file,))
        say(f"{options.output}: row {number} for {options.kind}")
    else:
        # The text ends its own last line, so that it can be redirected into a file.
        say(text, end="")
