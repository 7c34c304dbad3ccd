"""Trains the test model and writes it into the package: `make tiny-deepseek`.

Ten minutes. The same seed gives the same file, byte for byte, on the same kind of machine and one thread; otherwise
rounding differs.
"""

import argparse
import sys

import corpus
import gguf_file
import torch
import training
import vocabulary
from documents import Documents
from gguf_file import TARGET
from model import TinyDeepseek, config

SEED = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(parser.parse_args().threads)
    torch.manual_seed(SEED)
    novels = corpus.training_paragraphs()
    tokenizer = vocabulary.trained(text for novel in novels for text in novel)
    model = TinyDeepseek(config(vocabulary.VOCAB_SIZE))
    training.train(model, Documents(novels, tokenizer, SEED).stream())
    gguf_file.write(model, tokenizer, TARGET)
    sys.stdout.write(f"{TARGET}: {TARGET.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
