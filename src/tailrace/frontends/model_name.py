"""The names by which a request may ask for the served model."""

from tailrace.errors import ModelNotFound
from tailrace.service.api import ModelCard

__all__ = ["check_model"]


def check_model(name: str | None, model: ModelCard) -> None:
    """Raises ModelNotFound unless the name means the served model."""
    if name is not None and name not in ("default", model.name, *model.aliases):
        raise ModelNotFound(f"the model {name[:128]!r} is not served here; {model.name!r} is", param="model")
