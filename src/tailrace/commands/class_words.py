"""Service classes in words, for who starts a server."""

from tailrace.classes import ServiceClass, ServiceClasses

__all__ = ["describe_classes"]


def describe_classes(classes: ServiceClasses, scale: float) -> str:
    """Names and targets as they are configured, times `scale`. One line, and one more when the scale is not 1."""
    scaled = classes.scaled(scale)
    listed = ", ".join(_described(each, is_default=each.name == classes.default_name) for each in scaled)
    lines = [f"Classes: {listed} (to the first token, and from one to the next)"]
    if scale != 1.0:
        lines.append(
            f"These targets are {scale:.3g} times the configured ones, as this machine was just now with this model; "
            "they come down to them if it proves faster"
        )
    return "\n".join(lines)


def _described(each: ServiceClass, *, is_default: bool) -> str:
    name = f"{each.name} (default)" if is_default else each.name
    return f"{name} {_duration(each.ttft_s)} and {_duration(each.itl_s)}"


def _duration(seconds: float) -> str:
    if seconds < 1.0:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 100.0 else f"{seconds:,.0f} s"
