"""What transformers computes in float32 from the default model's dequantised weights."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXTS = (
    "The capital of France is Paris, and the capital of Italy is",
    "def add(a, b):\n    return a + b\n\n\nclass Stack:\n    def __init__(self):\n        self.items = [",
    "<|im_start|>user\nWhat is a tailrace?<|im_end|>\n<|im_start|>assistant\n",
    "Быть или не быть — вот в чём вопрос. 水は低きに流れる 🌊",
)
COLUMN_STEP = 97  # every 97th logit: all of them would be 200 kB a row
NUM_BEST = 4
NUM_PROSE_TOKENS = 2001  # 2000 predictions


def write(model_file: Path, *, prose: Path, target: Path) -> None:
    """Write texts.npz (some logits of short texts) and prose.npz (the truth about every prediction of a long one)."""
    target.mkdir(exist_ok=True)
    place = {"pretrained_model_name_or_path": str(model_file.parent), "gguf_file": model_file.name}
    model = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(**place)
    texts = [tokenizer(text, add_special_tokens=False).input_ids for text in TEXTS]
    prose_ids = tokenizer(prose.read_text(), add_special_tokens=False).input_ids[:NUM_PROSE_TOKENS]
    write_texts(model, texts, target / "texts.npz")
    write_prose(model, prose_ids, target / "prose.npz")


def write_texts(model: torch.nn.Module, texts: list[list[int]], target: Path) -> None:
    logits = torch.cat([model(torch.tensor([ids])).logits[0] for ids in texts])
    np.savez_compressed(
        target,
        token_ids=np.concatenate([np.array(ids, np.int32) for ids in texts]),
        starts=np.cumsum([0, *map(len, texts)]).astype(np.int32),
        columns=np.arange(0, logits.shape[1], COLUMN_STEP, dtype=np.int32),
        logits=logits[:, ::COLUMN_STEP].contiguous().numpy(),
        **best(logits),
    )


def write_prose(model: torch.nn.Module, ids: list[int], target: Path) -> None:
    tokens = torch.tensor(ids)
    logits = model(tokens[None, :-1]).logits[0]
    logprobs = logits.double().log_softmax(-1).gather(1, tokens[1:, None])[:, 0]
    np.savez_compressed(
        target, token_ids=tokens.numpy().astype(np.int32), logprobs=logprobs.float().numpy(), **best(logits)
    )


def best(logits: torch.Tensor) -> dict[str, NDArray[np.generic]]:
    """The best few of each row, best first: `best_ids` and `best_logits`, [rows, NUM_BEST]."""
    top = logits.topk(NUM_BEST)
    return {"best_ids": top.indices.numpy().astype(np.int32), "best_logits": top.values.numpy()}
