"""One block of a GPT with its key and value cache, written out: the cache comes in and goes out longer, as in decoding."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F


class GptBlock(torch.nn.Module):
    def __init__(self, *, vocabulary: int = 11, width: int = 16, heads: int = 4, longest: int = 16) -> None:
        super().__init__()
        self.heads = heads
        self.words, self.places = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(longest, width)
        self.norm1, self.norm2, self.norm3 = (torch.nn.LayerNorm(width) for _ in range(3))
        self.q, self.k, self.v, self.out = (torch.nn.Linear(width, width) for _ in range(4))
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.mask: torch.Tensor
        self.register_buffer("mask", torch.ones(longest, longest, dtype=torch.bool).tril())

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(
        self, tokens: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        past, length = keys.shape[2], tokens.shape[1]
        x = self.words(tokens) + self.places(torch.arange(past, past + length))
        y = self.norm1(x)
        q, k, v = self.split(self.q(y)), self.split(self.k(y)), self.split(self.v(y))
        k, v = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~self.mask[past : past + length, : past + length], float("-inf"))
        mixed = (torch.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(x.shape)
        x = x + self.out(mixed)
        x = x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
        return self.norm3(x) @ self.words.weight.t(), (k, v)


def build() -> torch.nn.Module:
    return GptBlock()


def inputs() -> tuple[torch.Tensor, ...]:
    return torch.tensor([[1, 7, 3], [0, 10, 2]]), torch.randn(2, 4, 5, 4), torch.randn(2, 4, 5, 4)
