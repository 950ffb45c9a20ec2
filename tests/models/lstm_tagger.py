"""A tagger of sequences, written out: an embedding, an LSTM in both directions step by step, and a score for each tag."""

from __future__ import annotations

import torch


class Tagger(torch.nn.Module):
    def __init__(self, *, vocabulary: int = 13, width: int = 6, hidden: int = 5, tags: int = 4) -> None:
        super().__init__()
        self.hidden = hidden
        self.words = torch.nn.Embedding(vocabulary, width, padding_idx=0)
        self.ahead, self.back = torch.nn.Linear(width + hidden, 4 * hidden), torch.nn.Linear(width + hidden, 4 * hidden)
        self.tags = torch.nn.Linear(2 * hidden, tags)

    def run(self, gates: torch.nn.Linear, steps: list[torch.Tensor]) -> list[torch.Tensor]:
        h = steps[0].new_zeros(steps[0].shape[0], self.hidden)
        c = torch.zeros_like(h)
        found = []
        for x in steps:
            i, f, g, o = gates(torch.cat([x, h], dim=1)).chunk(4, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            found.append(h)
        return found

    def forward(self, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
        steps = list(self.words(tokens).unbind(1))
        both = [self.run(self.ahead, steps), self.run(self.back, steps[::-1])[::-1]]
        states = torch.cat([torch.stack(each, dim=1) for each in both], dim=2)
        scores = torch.log_softmax(self.tags(states), dim=-1)
        mask = tokens != 0
        return {"scores": scores.masked_fill(~mask.unsqueeze(-1), 0.0), "lengths": mask.sum(1)}


def build() -> torch.nn.Module:
    return Tagger()


def inputs() -> tuple[torch.Tensor, ...]:
    return (torch.tensor([[3, 7, 1, 0], [12, 5, 0, 0]]),)
