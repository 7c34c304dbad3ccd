"""Lives of requests, made without a front end."""

from tailrace.telemetry.lives import RequestLife

__all__ = ["make_life"]


def make_life(request_id: str = "r", class_name: str = "silver", accepted_s: float = 0.0) -> RequestLife:
    return RequestLife(request_id=request_id, endpoint="chat", class_name=class_name, accepted_s=accepted_s)
