"""Prints where the default model lies, after fetching it if it is not there yet."""

import sys

from tailrace.errors import SetupError
from tailrace.weights.default_model import default_model_path


def main() -> int:
    try:
        sys.stdout.write(f"{default_model_path()}\n")
    except SetupError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
