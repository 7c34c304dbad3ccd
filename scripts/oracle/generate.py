"""Makes the expected values of tests/oracle again, with torch and transformers: `make oracle`.

    python scripts/oracle/generate.py --model SmolLM2-135M-Instruct.Q4_1.gguf

Shares no code with Tailrace, on purpose: both read the same files, each with its own eyes.
"""

import argparse
import json
import platform
from importlib.metadata import version
from pathlib import Path

import default_model
import tiny_models
import torch

DATA = Path(__file__).parents[2] / "tests" / "oracle" / "data"
SOURCES = ("torch", "transformers", "gguf", "safetensors", "numpy")


def write_versions() -> None:
    """Note beside the values what computed them."""
    versions = {name: version(name) for name in SOURCES} | {"python": platform.python_version()}
    (DATA / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, required=True, help="the default model's GGUF file")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    tiny_models.write(DATA / "tiny")
    default_model.write(arguments.model, prose=DATA / "prose.txt", target=DATA / "default_model")
    write_versions()


if __name__ == "__main__":
    main()
