"""Lists the models this package knows, and says of any whether it would load and fit.

   python launch/models.py --list --kind=encoder
   python launch/models.py --check=hf:OWNER/REPO@COMMIT --dtype=bfloat16 --device_memory=80
   python launch/models.py --check=llada-8b-base --fsdp=2 --tensor=4

A check reads config.json, tokenizer files and the headers of weight files, never the weights; of a
remote repository nothing else is fetched. A name of the list that cannot be reached is checked by
the shape on record.

Exit codes: 0 it would load and fits (or the list was printed), 1 a problem or unusable flags, 2 it
does not fit.
"""

import json
import math
import os
import sys
from collections.abc import Sequence

import jax
import rich.box
import rich.console
import rich.table
from absl import app, flags, logging

from dlmeval.models import inspection, registry
from dlmeval.models.loading import DTYPES

_LIST = flags.DEFINE_bool("list", False, "Print the registered models.")
_CHECK = flags.DEFINE_string("check", None, "Source, or registered name, to check.")
_KIND = flags.DEFINE_enum(
    "kind", None, ["denoiser", "scorer", "encoder"], "List these alone; check as this."
)
_JSON = flags.DEFINE_bool("json", False, "Print JSON instead of text.")
_ARCHITECTURE = flags.DEFINE_string(
    "architecture", None, "Family to read the source as, where config.json does not say."
)
_DTYPE = flags.DEFINE_enum("dtype", "float32", list(DTYPES), "Type of the parameters in memory.")
_FSDP = flags.DEFINE_integer("fsdp", 1, "Devices over which rows and matrices are spread.")
_TENSOR = flags.DEFINE_integer("tensor", 1, "Devices over which heads and hidden units are.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 1, "Rows of the logits buffer.")
_LENGTH = flags.DEFINE_integer("length", 128, "Positions of the logits buffer.")
_DEVICE_MEMORY = flags.DEFINE_float(
    "device_memory", None, "GiB of each device; default: what this machine's devices have."
)

GIB = 1 << 30
# The rest is left to activations, the sampler's buffers and the compiler.
USABLE = 0.9


def main(argv: Sequence[str]) -> int:
    """Lists or checks, as the flags say; returns the exit code."""
    logging.set_verbosity(logging.WARNING)  # JAX logs each backend it does not find
    try:
        code = _run(argv)
        sys.stdout.flush()  # else a full disk shows only once Python has ended
        return code
    except (ValueError, OSError) as error:
        print(f"models.py: {' '.join(str(error).split())}", file=sys.stderr)
        _drop_output()
        return 1


def _run(argv: Sequence[str]) -> int:
    if len(argv) > 1:
        raise ValueError(f"unknown argument {argv[1]!r}; flags are written --name=value")
    if _LIST.value == (_CHECK.value is not None):
        raise ValueError("give either --list or --check=SOURCE")
    return _list() if _LIST.value else _check(_CHECK.value)


def _drop_output() -> None:
    """Leaves Python nothing to write, where standard output takes no more."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _list() -> int:
    entries = [e for e in registry.list_models() if _KIND.value in (None, e.kind)]
    if _JSON.value:
        print(json.dumps([entry._asdict() for entry in entries], indent=1))
        return 0
    table = rich.table.Table(box=rich.box.SIMPLE_HEAD)
    for heading in ("name", "kind", "tier", "parameters", "licence", "status", "source"):
        table.add_column(heading, no_wrap=heading != "licence", overflow="fold")
    for entry in entries:
        table.add_row(
            entry.name,
            entry.kind,
            entry.tier or "–",
            _parameters(entry),
            entry.licence,
            entry.status,
            entry.source,
        )
    console = rich.console.Console()
    if not console.is_terminal:  # a file or pipe has no width to keep to
        console.width = 200
    console.print(table)
    for status in dict.fromkeys(entry.status for entry in entries):
        console.print(f"  {status}: {registry.STATUSES[status]}", style="dim", highlight=False)
    return 0


def _check(source: str | None) -> int:
    entry = next((e for e in registry.list_models() if e.name == source), None)
    if entry is None:
        found = inspection.inspect_source(
            str(source), kind=_KIND.value, architecture=_ARCHITECTURE.value
        )
    else:
        found = _inspect_registered(entry)
    problems = list(found.problems)
    report = {
        "source": found.source,
        "architecture": None if found.family is None else found.family.name,
        "parameters": found.num_params,
        "stored_types": dict(found.types),
        "tokenizer_ids": found.tokenizer_size,
        "not_looked_at": list(found.unread),
        "problems": problems,
    }
    fits = None
    if found.spec is not None:
        context = found.spec.network.max_length
        if context is not None and _LENGTH.value > context:
            problems.append(f"--length={_LENGTH.value} is beyond the context of {context} tokens")
        memory = inspection.memory_per_device(
            found,
            dtype=_DTYPE.value,
            fsdp=_FSDP.value,
            tensor=_TENSOR.value,
            batch_size=_BATCH_SIZE.value,
            length=_LENGTH.value,
        )
        available, whose = _device_memory()
        fits = memory.total <= USABLE * available
        report |= {
            "embeddings": found.spec.network.vocab_size,
            "context": context,
            "parameter_bytes_per_device": memory.params,
            "logit_bytes_per_device": memory.logits,
            "device_bytes": available,
            "device": whose,
            "fits": fits,
        }
    print(json.dumps(report, indent=1) if _JSON.value else _text(report))
    return 1 if problems else 0 if fits else 2


def _inspect_registered(entry: registry.ModelEntry) -> inspection.Inspection:
    """By its files where they can be reached, else by the shape on record."""
    try:
        return inspection.inspect_source(
            entry.source, kind=entry.kind, architecture=entry.architecture
        )
    except ValueError as error:
        if entry.config is None:
            raise
        told = " ".join(str(error).split())
        print(f"by the shape on record, not by its files: {told}", file=sys.stderr)
        return inspection.inspect_entry(entry)


def _device_memory() -> tuple[int, str]:
    """Bytes of one device, and whose they are."""
    if _DEVICE_MEMORY.value is not None:
        size = _DEVICE_MEMORY.value * GIB
        if not 0 < size < math.inf:
            raise ValueError(f"--device_memory={_DEVICE_MEMORY.value} must be above 0 and finite")
        return int(size), "as --device_memory says"
    device = jax.devices()[0]
    limit = (device.memory_stats() or {}).get("bytes_limit")
    if limit:
        return int(limit), f"each {device.device_kind} here"
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "this machine's memory"


def _text(report: dict) -> str:
    types = ", ".join(f"{name} {count:,}" for name, count in report["stored_types"].items())
    lines = {"source": report["source"], "architecture": report["architecture"] or "not understood"}
    if report["parameters"] is not None:
        lines["parameters"] = f"{report['parameters']:,}"
    lines["stored as"] = types or "not looked at"
    if "tokenizer" in report["not_looked_at"]:
        lines["tokenizer"] = "not looked at"
    else:
        ids = report["tokenizer_ids"]
        lines["tokenizer"] = "none" if ids is None else f"ids below {ids:,}"
    if "fits" in report:
        lines["tokenizer"] += f", for {report['embeddings']:,} embeddings"
        lines["context"] = "not limited" if report["context"] is None else f"{report['context']:,}"
        params, logits = report["parameter_bytes_per_device"], report["logit_bytes_per_device"]
        lines["memory"] = (
            f"{params / GIB:.2f} GiB of parameters ({_DTYPE.value}) + {logits / GIB:.2f} GiB of"
            f" logits ({_BATCH_SIZE.value} x {_LENGTH.value} positions) on each of"
            f" {_FSDP.value * _TENSOR.value} devices"
        )
        lines["device"] = (
            f"{report['device_bytes'] / GIB:.1f} GiB ({report['device']}), {USABLE:.0%} of it"
            f" usable: {'fits' if report['fits'] else 'does not fit'}"
        )
    text = [f"{name:<14}{value}" for name, value in lines.items()]
    text += [f"problem       {problem}" for problem in report["problems"]]
    if not report["problems"]:
        text.append("problems      none")
    return "\n".join(text)


def _parameters(entry: registry.ModelEntry) -> str:
    def short(count: int) -> str:
        return f"{count / 1e9:.2f} B" if count >= 1e9 else f"{count / 1e6:.1f} M"

    if entry.params_active == entry.params_total:
        return short(entry.params_total)
    return f"{short(entry.params_total)}, {short(entry.params_active)} active"


if __name__ == "__main__":
    app.run(main)
