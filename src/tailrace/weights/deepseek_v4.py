"""DeepSeek V4 and V4.1: known by name, and refused."""

from tailrace.errors import UnsupportedModel

__all__ = ["refuse_v4"]


def refuse_v4(source: str, *names: object) -> None:
    """Raises UnsupportedModel when one of `names`, of a class or an architecture, is theirs."""
    if any(str(name).lower().replace("_", "").startswith(("deepseekv4", "deepseek4")) for name in names):
        raise UnsupportedModel(
            f"{source}: DeepSeek V4 and V4.1 are not supported: compressed keys and values beside a window, "
            "hyper-connections, and experts that are chosen by a hash or stored in FP4 are missing; take V3.2 or before"
        )
