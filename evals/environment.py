"""What a number may depend on beside its plan: versions, device, precision flags."""

import importlib.metadata
import platform

import jax

from .. import __version__


def environment() -> dict[str, str]:
    """Versions, device and precision flags that a draw may depend on."""
    flags = ("jax_default_matmul_precision", "jax_enable_x64", "jax_threefry_partitionable")
    packages = ("flax", "jax", "jaxlib", "numpy", "tokenizers")
    return {
        "dlmeval": __version__,
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
        "device": device_name(),
        **{name: str(jax.config.values[name]) for name in flags},
    }


def device_name() -> str:
    """The device that JAX runs on, such as "cpu:cpu" or "gpu:NVIDIA H200"."""
    device = jax.devices()[0]
    return f"{device.platform}:{device.device_kind}"
