"""Prints the oldest version that pyproject.toml allows of each dependency, as constraints for pip."""

import re
import sys
import tomllib
from pathlib import Path

# The development tools bring what these ask for.
TESTED_EXTRAS = ("events", "grpc", "otel", "plot", "profile", "pyroscope", "redis")
REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)\s*>=\s*(?P<version>[0-9][0-9.]*)")


def lowest(requirement: str) -> str:
    """`name>=1.2` as `name==1.2`."""
    match = REQUIREMENT.fullmatch(requirement)
    if match is None:
        raise SystemExit(f"pyproject.toml: {requirement!r} must have the form name>=version")
    return f"{match['name']}=={match['version']}"


def main() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    requirements = project["dependencies"] + [wanted for extra in TESTED_EXTRAS for wanted in extras[extra]]
    sys.stdout.writelines(f"{lowest(requirement)}\n" for requirement in requirements)


if __name__ == "__main__":
    main()
