"""A sentence classifier: a bidirectional LSTM over packed sequences, with attention on its states. Does not trace.

The batch holds sentences of different length. Packing them makes torch's own Python code convert the lengths (FX006),
and the mask is made by counting to the longest one (FX004).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


@dataclass(frozen=True)
class ClassifierConfig:
    vocab_size: int = 200
    dim: int = 32
    hidden: int = 48
    layers: int = 2
    classes: int = 4
    dropout: float = 0.1
    padding: int = 0


class PackedLSTM(nn.Module):
    """Padded `[batch, time, dim]` and lengths `[batch]` → states `[batch, time, 2 · hidden]`, zero where padded."""

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__()
        self.layers = config.layers
        self.hidden = config.hidden
        self.lstm = nn.LSTM(
            config.dim,
            config.hidden,
            num_layers=config.layers,
            dropout=config.dropout,
            bidirectional=True,
            batch_first=True,
        )

    def initial_state(self, x: Tensor) -> tuple[Tensor, Tensor]:
        shape = (2 * self.layers, x.size(0), self.hidden)
        return torch.zeros(shape, device=x.device), torch.zeros(shape, device=x.device)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = self.lstm(packed, self.initial_state(x))
        padded, _ = pad_packed_sequence(states, batch_first=True, total_length=x.size(1))
        return padded


class AttentionPool(nn.Module):
    """States `[batch, time, dim]` → their weighted mean `[batch, dim]`, padding left out."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.query = nn.Linear(dim, 1)

    def forward(self, states: Tensor, lengths: Tensor) -> Tensor:
        longest = int(lengths.max())
        positions = torch.arange(longest, device=lengths.device)
        valid = positions[None, :] < lengths[:, None]
        scores = self.query(states[:, :longest]).squeeze(-1).masked_fill(~valid, float("-inf"))
        weights = F.softmax(scores, dim=-1)
        return (weights[:, None, :] @ states[:, :longest]).squeeze(1)


class SentenceClassifier(nn.Module):
    """Token numbers `[batch, time]`, padded, and lengths `[batch]` → logits `[batch, classes]`."""

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__()
        self.embed = nn.Embedding(config.vocab_size, config.dim, padding_idx=config.padding)
        self.encoder = PackedLSTM(config)
        self.pool = AttentionPool(2 * config.hidden)
        self.drop = nn.Dropout(config.dropout)
        self.head = nn.Linear(2 * config.hidden, config.classes)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        states = self.encoder(self.embed(tokens), lengths)
        return self.head(self.drop(self.pool(states, lengths)))


def main() -> None:
    torch.manual_seed(0)
    config = ClassifierConfig()
    lengths = torch.tensor([9, 4, 7])
    tokens = torch.randint(1, config.vocab_size, (3, 9))
    tokens = tokens.masked_fill(torch.arange(9) >= lengths[:, None], config.padding)
    model = SentenceClassifier(config).eval()
    with torch.inference_mode():
        logits = model(tokens, lengths)
    print(f"logits {tuple(logits.shape)}")


if __name__ == "__main__":
    main()
