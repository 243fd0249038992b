"""dlmeval: honest evaluation of diffusion language models in JAX."""

__version__ = "0.1.0"
