"""Imports texts that another program generated as a bank: text, JSON lines, JSON or parquet.

    python launch/import_bank.py --texts=samples.jsonl --output=runs/mine
    python launch/import_bank.py --texts='generated.json#text_samples' --output=runs/mdlm \\
        --tokenizer=gpt2/tokenizer.json --nfe=128 --generator=mdlm

Exit codes: 0 done, 2 for input that has to be changed (one line on stderr says what).
"""

import sys
from collections.abc import Sequence

from absl import app, flags, logging

from dlmeval.evals.errors import InputError, one_line
from dlmeval.evals.sampling.external_bank import Imported, import_bank

_TEXTS = flags.DEFINE_string(
    "texts", None, "FILE[#FIELD][&split=MARKER][&empty=refuse|drop|keep]; quote it in a shell."
)
_OUTPUT = flags.DEFINE_string("output", None, "Folder of the bank; new or empty.")
_TOKENIZER = flags.DEFINE_string(
    "tokenizer", None, "A model's source or a tokenizer.json that gives the ids; none by default."
)
_NUM_TOKENS = flags.DEFINE_integer(
    "num_tokens", None, "First tokens of each text that are kept; all by default."
)
_NFE = flags.DEFINE_integer(
    "nfe", None, "Forward evaluations spent on each text; left out where unknown."
)
_GENERATOR = flags.DEFINE_string("generator", None, "Name of what wrote the texts.")


def main(argv: Sequence[str]) -> int:
    """Imports what the flags name; returns the exit code."""
    logging.set_verbosity(logging.WARNING)  # JAX logs each backend it does not find
    try:
        if len(argv) > 1:
            raise InputError(f"unknown argument {argv[1]!r}; flags are written --name=value")
        for flag in (_TEXTS, _OUTPUT):
            if not flag.value:
                raise InputError(f"--{flag.name} is missing; see --help")
        found = import_bank(
            str(_TEXTS.value),
            str(_OUTPUT.value),
            tokenizer=_TOKENIZER.value,
            num_tokens=_NUM_TOKENS.value,
            nfe=_NFE.value,
            generator=_GENERATOR.value,
        )
    except (InputError, OSError) as error:  # a folder that cannot be made, a full disk
        print(f"import_bank.py: {one_line(error)}", file=sys.stderr)
        return 2
    print(summary(found))
    return 0


def summary(found: Imported) -> str:
    """What was read and kept, a fact a line."""
    share = 100 * found.num_accepted / found.num_texts
    length = f"{found.mean_characters:.1f} characters"
    if found.mean_tokens is not None:
        length += f", {found.mean_tokens:.1f} tokens"
    lines = [
        f"file:        {found.file} (sha256 {found.sha256[:12]}…)",
        f"field:       {found.field or 'none, entries are texts'}",
        f"texts:       {found.num_texts}",
        f"mean length: {length}",
        f"accepted:    {found.num_accepted} of {found.num_texts} ({share:.1f} %) by the filter",
        f"duplicates:  {found.num_duplicates}",
    ]
    if found.num_dropped:
        lines.append(f"dropped:     {found.num_dropped} empty texts")
    if found.num_short is not None:
        lines.append(f"short:       {found.num_short} texts of less than --num_tokens")
    lines.append(f"bank:        {_OUTPUT.value} (digest {found.digest[:12]}…)")
    return "\n".join(lines)


def parse_flags(argv: Sequence[str]) -> list[str]:
    """Parses flags; exits with code 2 and one line where one is unknown or refused."""
    try:
        return flags.FLAGS(list(argv))
    except flags.Error as error:
        print(f"import_bank.py: {one_line(error)}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    app.run(main, flags_parser=parse_flags)
