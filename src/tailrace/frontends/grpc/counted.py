"""Counts the calls of a method, however they end."""

from typing import Any, cast

import grpc

from tailrace.frontends.grpc.call import Context, Handler
from tailrace.telemetry.grpc import GrpcMetrics

__all__ = ["counted"]


def counted(handler: Handler, method: str, metrics: GrpcMetrics) -> Handler:
    """The same method. Its calls, streams too, are coroutines that write what they have to say."""
    is_stream = handler.response_streaming
    inner: Any = handler.unary_stream if is_stream else handler.unary_unary

    async def behave(raw: bytes, context: Context) -> Any:
        metrics.call_started()
        status = grpc.StatusCode.CANCELLED
        try:
            answer = await inner(raw, context)
            status = grpc.StatusCode.OK
            return answer
        except grpc.aio.AbortError:
            status = context.code()  # with which it was aborted
            raise
        finally:
            metrics.call_ended(method, status.name)

    make = grpc.unary_stream_rpc_method_handler if is_stream else grpc.unary_unary_rpc_method_handler
    return make(cast("Any", behave))  # the stubs know methods that return messages, not bytes
