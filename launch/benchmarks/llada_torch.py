"""LLaDA's published sampling loop, written again in PyTorch: the peer of the sampler benchmark.

The algorithm is that of ML-GSAI/LLaDA's generate.py for one block without guidance: logits of the
whole canvas, float64 noise exp(l) / (-log u)^t for every entry when t > 0, a float32 softmax of
the whole canvas for the confidences, and the k most confident masks revealed.
"""

from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
import torch.nn.functional as F  # pyright: ignore[reportMissingImports]

from dlmeval.models.decoder import DecoderConfig


class TorchDecoder:
    """The arithmetic of `models.decoder.Decoder` on the same weights, bidirectional, no padding."""

    def __init__(self, config: DecoderConfig, params: dict[str, Any]):
        def convert(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: convert(item) for name, item in value.items()}
            return torch.tensor(np.asarray(value))

        self.config = config
        self.weights: dict[str, Any] = convert(params)
        # torch multiplies by a transposed [out, in] matrix fastest, as nn.Linear keeps it.
        self.head = self.weights["head"].T.contiguous()

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        config, blocks = self.config, self.weights["blocks"]
        x = self.weights["embed"][tokens]
        cos, sin = _angles(tokens.shape[1], config.width_per_head, config.rope_theta)
        for i in range(config.num_layers):
            w = {name: value[i] for name, value in blocks.items()}
            h = _rms_norm(x, w["attn_norm"], config.rms_norm_eps)
            q, k, v = (_heads(h @ w[f"{name}_proj"], config.width_per_head) for name in "qkv")
            group = config.num_heads // config.num_kv_heads
            k, v = (part.repeat_interleave(group, dim=1) for part in (k, v))
            mixed = F.scaled_dot_product_attention(_rotate(q, cos, sin), _rotate(k, cos, sin), v)
            x = x + mixed.transpose(1, 2).flatten(2) @ w["o_proj"]
            h = _rms_norm(x, w["mlp_norm"], config.rms_norm_eps)
            x = x + (F.silu(h @ w["gate_proj"]) * (h @ w["up_proj"])) @ w["down_proj"]
        return F.linear(_rms_norm(x, self.weights["final_norm"], config.rms_norm_eps), self.head)


@torch.no_grad()
def generate(
    model: TorchDecoder, prompt: np.ndarray, gen_length: int, steps: int, temp: float, mask_id: int
) -> np.ndarray:
    """Prompt and generated region, int64 [b, p + gen_length]; one forward a step."""
    batch, width = prompt.shape
    canvas = torch.full((batch, width + gen_length), mask_id)
    canvas[:, :width] = torch.from_numpy(prompt)
    share, rest = divmod(gen_length, steps)
    for step in range(steps):
        masked = canvas == mask_id
        logits = model(canvas)
        scores = logits
        if temp > 0:
            wide = logits.double()
            noise = torch.rand_like(wide)
            scores = wide.exp() / (-noise.log()) ** temp
        drawn = scores.argmax(dim=-1)
        chosen = F.softmax(logits, dim=-1).gather(-1, drawn[..., None])[..., 0]
        confidence = chosen.masked_fill(~masked, -torch.inf)
        for row in range(batch):
            best = confidence[row].topk(share + (step < rest)).indices
            canvas[row, best] = drawn[row, best]
    return canvas.numpy()


def _heads(x: torch.Tensor, width: int) -> torch.Tensor:
    return x.unflatten(-1, (-1, width)).transpose(1, 2)


def _rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return F.rms_norm(x, weight.shape, weight, eps)


def _angles(length: int, width: int, theta: float) -> tuple[torch.Tensor, torch.Tensor]:
    frequency = theta ** (-torch.arange(0, width, 2) / width)
    angle = torch.arange(length)[:, None] * frequency
    both = torch.cat([angle, angle], dim=-1)
    return both.cos(), both.sin()


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin
