"""How a request began that has ended."""

from tailrace.records import BeginningRecord, RequestRecord

__all__ = ["beginning_of"]


def beginning_of(request: RequestRecord) -> BeginningRecord:
    """What was told when it had its first token."""
    assert request.started_s is not None
    assert request.first_token_s is not None
    return BeginningRecord(
        request.request_id,
        request.class_name,
        request.arrived_s,
        request.started_s,
        request.first_token_s,
        request.num_prompt_tokens,
        request.prefix,
        request.predicted_ttft_s,
        request.trace,
    )
