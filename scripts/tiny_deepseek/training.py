"""Trains the model: short contexts first, then whole ones behind YaRN, as DeepSeek trains its own."""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from balance import Balance
from model import CONTEXT_TOKENS, SHORT_TOKENS, TinyDeepseek
from optimizer import optimizers
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

FURTHER_WEIGHT = 0.3  # of the loss of the token after the next
WARM_UP_STEPS = 30
DECAY_SHARE = 0.5  # of all steps, the last ones
BIAS_RATE = 0.01


@dataclass(frozen=True)
class Phase:
    """Steps over batches of one shape."""

    num_steps: int
    num_sequences: int
    num_tokens: int


SHORT = Phase(num_steps=520, num_sequences=16, num_tokens=SHORT_TOKENS)
LONG = Phase(num_steps=30, num_sequences=1, num_tokens=CONTEXT_TOKENS)
NUM_STEPS = SHORT.num_steps + LONG.num_steps


def train(model: TinyDeepseek, tokens: Iterator[int]) -> list[Tensor]:
    """Train through both phases. The experts' shares of the last step, as multiples of an even one."""
    updates, balance = optimizers(model), Balance(model)
    highest = [update.param_groups[0]["lr"] for update in updates]
    shares, started_s = [], time.monotonic()
    for step, batch in enumerate(_batches(tokens)):
        if step == SHORT.num_steps:
            model.stretch()
        loss = _loss(model, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for update, rate in zip(updates, highest, strict=True):
            update.param_groups[0]["lr"] = rate * _rate(step)
            update.step()
            update.zero_grad()
        shares = balance.move(BIAS_RATE * _rate(step))
        _report(step, loss.item(), shares, time.monotonic() - started_s)
    return shares


def _batches(tokens: Iterator[int]) -> Iterator[Tensor]:
    """[sequences, tokens] for each step; nothing is seen twice as the same batch."""
    for phase in (SHORT, LONG):
        for _ in range(phase.num_steps):
            ids = list(islice(tokens, phase.num_sequences * phase.num_tokens))
            yield torch.tensor(ids).view(phase.num_sequences, phase.num_tokens)


def _loss(model: TinyDeepseek, ids: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        predicted = model(ids)
    following = cross_entropy(predicted.following[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())
    further = cross_entropy(predicted.further[:, :-1].flatten(0, 1).float(), ids[:, 2:].flatten())
    return following + FURTHER_WEIGHT * further


def _rate(step: int) -> float:
    """Up, level, and down to nearly nothing."""
    return min(1.0, (step + 1) / WARM_UP_STEPS, (NUM_STEPS - step) / (DECAY_SHARE * NUM_STEPS))


def _report(step: int, loss: float, shares: list[Tensor], elapsed_s: float) -> None:
    if step % 10 == 0 or step == NUM_STEPS - 1:
        spread = ", ".join(f"{share.min():.2f} to {share.max():.2f}" for share in shares)
        sys.stdout.write(f"step {step} of {NUM_STEPS}, {elapsed_s:.0f} s: loss {loss:.3f}; experts' shares {spread}\n")
        sys.stdout.flush()
