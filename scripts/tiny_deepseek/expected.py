"""What transformers computes in float32 from the stored model, for tests/oracle.

    .venv-oracle/bin/python scripts/tiny_deepseek/expected.py

Reads the file by the names that llama.cpp gives tensors, and shares no code with Tailrace, on purpose.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import corpus
import gguf
import numpy as np
import torch
import vocabulary
from gguf_file import LAYER_NAMES, MODEL_NAMES, MTP_NAMES, TARGET
from model import TinyDeepseek, config
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor
from vocabulary import ASSISTANT, BOS, EOS, FIM_BEGIN, FIM_END, FIM_HOLE, USER

DATA = Path(__file__).parents[2] / "tests" / "oracle" / "data" / "tiny_deepseek"

TEXTS = (
    f'{BOS}Emma Woodhouse, handsome, clever, and rich, was not at home.\n\n"Indeed!" cried Mr. Knightley in 1815.',
    f"{BOS}You are a helpful assistant.{USER}Hello!{ASSISTANT}Good morning!{EOS}{USER}Tell me about Anne.{ASSISTANT}",
    f"{BOS}{FIM_BEGIN}It is a truth universally{FIM_HOLE}in want of a wife.{FIM_END}",
)
PROMPTS = (f"{BOS}Emma was", f"{BOS}{USER}Who are you?{ASSISTANT}", f"{BOS}{USER}Tell me about Elizabeth.{ASSISTANT}")
COLUMN_STEP = 31  # every 31st logit
NUM_BEST = 4
NUM_PROSE_TOKENS = 2001  # 2000 predictions
NUM_GREEDY_TOKENS = 64


def main() -> None:
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    model = stored_model()
    tokenizer = vocabulary.trained(text for novel in corpus.training_paragraphs() for text in novel)
    DATA.mkdir(exist_ok=True)
    write_texts(model, tokenizer)
    write_prose(model, tokenizer)
    write_greedy(model, tokenizer)


def stored_model() -> TinyDeepseek:
    """The model as the file has it, dequantised."""
    reader = gguf.GGUFReader(TARGET)
    tensors = {
        tensor.name: torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type).copy())
        for tensor in reader.tensors
    }
    model = TinyDeepseek(config(vocabulary.VOCAB_SIZE)).eval()
    model.stretch()
    model.load_state_dict(dict(_state(tensors, model)), strict=True)
    return model


def _state(tensors: Mapping[str, Tensor], model: TinyDeepseek) -> Iterator[tuple[str, Tensor]]:
    num_layers = model.main.config.num_hidden_layers
    yield from ((f"{theirs}.weight", tensors[f"{name}.weight"]) for theirs, name in MODEL_NAMES.items())
    yield from (
        (f"{theirs}.weight", tensors[f"blk.{num_layers}.nextn.{name}.weight"]) for theirs, name in MTP_NAMES.items()
    )
    for number in range(num_layers + 1):
        own = {name.removeprefix(f"blk.{number}."): tensor for name, tensor in tensors.items()}
        before = f"main.model.layers.{number}" if number < num_layers else "mtp.layer"
        yield from ((f"{before}.{name}", tensor) for name, tensor in _layer(own))


def _layer(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    for theirs, name in LAYER_NAMES.items():
        if f"{name}.weight" in tensors:
            yield f"{theirs}.weight", tensors[f"{name}.weight"]
    heads = torch.cat([tensors["attn_k_b.weight"].mT, tensors["attn_v_b.weight"]], 1)
    yield "self_attn.kv_b_proj.weight", heads.flatten(0, 1)
    if "ffn_down_exps.weight" in tensors:
        gate_up = torch.cat([tensors["ffn_gate_exps.weight"], tensors["ffn_up_exps.weight"]], 1)
        yield "mlp.experts.gate_up_proj", gate_up
        yield "mlp.experts.down_proj", tensors["ffn_down_exps.weight"]
        yield "mlp.gate.e_score_correction_bias", tensors["exp_probs_b.bias"]


def write_texts(model: TinyDeepseek, tokenizer: Tokenizer) -> None:
    """Some logits behind each token of short texts."""
    texts = [tokenizer.encode(text).ids for text in TEXTS]
    logits = torch.cat([model(torch.tensor([ids])).following[0] for ids in texts])
    np.savez_compressed(
        DATA / "texts.npz",
        token_ids=np.concatenate([np.array(ids, np.int32) for ids in texts]),
        starts=np.cumsum([0, *map(len, texts)]).astype(np.int32),
        columns=np.arange(0, logits.shape[1], COLUMN_STEP, dtype=np.int32),
        logits=logits[:, ::COLUMN_STEP].contiguous().numpy(),
        **best(logits),
    )


def write_prose(model: TinyDeepseek, tokenizer: Tokenizer) -> None:
    """The truth about every prediction of a text that the model has never seen."""
    tokens = torch.tensor(tokenizer.encode(BOS + corpus.held_out_text()).ids[:NUM_PROSE_TOKENS])
    predicted = model(tokens[None, :-1])
    logits = predicted.following[0]
    logprobs = logits.double().log_softmax(-1).gather(1, tokens[1:, None])[:, 0]
    np.savez_compressed(
        DATA / "prose.npz", token_ids=tokens.numpy().astype(np.int32), logprobs=logprobs.float().numpy(), **best(logits)
    )
    drafted = (predicted.further[0].argmax(-1) == logits[1:].argmax(-1)).float().mean()
    sys.stdout.write(f"held out: perplexity {(-logprobs.mean()).exp():.2f}; of drafts by MTP {drafted:.1%} are right\n")


def write_greedy(model: TinyDeepseek, tokenizer: Tokenizer) -> None:
    """Prompts, and the likeliest tokens behind them, one after the other."""
    prompts = [tokenizer.encode(prompt).ids for prompt in PROMPTS]
    answers = [_greedy(model, prompt) for prompt in prompts]
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        sys.stdout.write(f"{prompt} -> {tokenizer.decode(answer, skip_special_tokens=False)}\n")
    np.savez_compressed(
        DATA / "greedy.npz",
        prompt_ids=np.concatenate([np.array(ids, np.int32) for ids in prompts]),
        starts=np.cumsum([0, *map(len, prompts)]).astype(np.int32),
        answers=np.array(answers, np.int32),
    )


def _greedy(model: TinyDeepseek, prompt: list[int]) -> list[int]:
    ids = list(prompt)
    for _ in range(NUM_GREEDY_TOKENS):
        ids.append(int(model(torch.tensor([ids])).following[0, -1].argmax()))
    return ids[len(prompt) :]


def best(logits: Tensor) -> dict[str, NDArray[np.generic]]:
    """The best few of each row, best first: `best_ids` and `best_logits`, [rows, NUM_BEST]."""
    top = logits.topk(NUM_BEST)
    return {"best_ids": top.indices.numpy().astype(np.int32), "best_logits": top.values.numpy()}


if __name__ == "__main__":
    main()
