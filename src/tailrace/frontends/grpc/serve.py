"""Runs the gRPC front end on the event loop of its caller, beside whatever else runs there.

grpc starts threads when it is imported: a process that forks must not have imported this before.
"""

import asyncio
from collections.abc import Callable

import grpc
from grpc_reflection.v1alpha import reflection

from tailrace.errors import SetupError
from tailrace.frontends.grpc.call import Calls
from tailrace.frontends.grpc.config import GrpcConfig
from tailrace.frontends.grpc.counted import counted
from tailrace.frontends.grpc.health import HEALTH, Health
from tailrace.frontends.grpc.inference import INFERENCE, Inference
from tailrace.frontends.grpc.vllm.engine import VLLM_ENGINE, VllmEngine
from tailrace.service.api import Service
from tailrace.telemetry.grpc import GrpcMetrics

__all__ = ["serve_grpc"]

_GZIP_LEVEL = 1  # GRPC_COMPRESS_LEVEL_LOW: the first that the client takes of gzip and deflate


async def serve_grpc(
    service: Service,
    config: GrpcConfig,
    metrics: GrpcMetrics,
    address: str,
    *,
    stop: asyncio.Event,
    on_ready: Callable[[int], None] = lambda port: None,
    grace_s: float = 30.0,
) -> None:
    """Serves until `stop` is set or the caller is cancelled; returns when all is closed.

    `address` is HOST:PORT, an IPv6 host in brackets; port 0 takes a free one, which `on_ready` is told. Several
    processes of a user may serve one address: the kernel deals connections out. After `stop` clients are told to go
    elsewhere, and calls under way have `grace_s` to end. Raises SetupError when the address cannot be had.
    """
    server = _server(service, config, metrics)
    port = _listen(server, address)
    await server.start()
    try:
        on_ready(port)
        await stop.wait()
        await server.stop(grace_s)
    finally:
        await server.stop(None)


def _server(service: Service, config: GrpcConfig, metrics: GrpcMetrics) -> grpc.aio.Server:
    server = grpc.aio.server(options=_options(config), maximum_concurrent_rpcs=config.max_calls)
    calls = Calls(config, metrics)
    served = {INFERENCE: Inference(service, calls).handlers, VLLM_ENGINE: VllmEngine(service, calls).handlers}
    names = [each.full_name for each in served]
    served[HEALTH] = Health(service, names, calls.of_anybody).handlers
    for descriptor, handlers in served.items():
        place = descriptor.full_name
        methods = {name: counted(each, f"{place}/{name}", metrics) for name, each in handlers.items()}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(place, methods),))
    reflection.enable_server_reflection((*names, HEALTH.full_name, reflection.SERVICE_NAME), server)
    return server


def _listen(server: grpc.aio.Server, address: str) -> int:
    try:
        port = server.add_insecure_port(address)
    except RuntimeError:
        port = 0
    if port == 0:
        raise SetupError(f"cannot listen on {address} for gRPC: choose another port with --grpc-port")
    return port


def _options(config: GrpcConfig) -> list[tuple[str, int]]:
    return [
        ("grpc.so_reuseport", 1),
        # A level, and no algorithm: then a client that unpacks none gets none. Calls except what is not worth it.
        ("grpc.default_compression_level", _GZIP_LEVEL),
        ("grpc.max_receive_message_length", config.max_request_bytes),
        ("grpc.max_send_message_length", -1),  # answers are bounded by the context
        ("grpc.max_metadata_size", config.max_metadata_bytes),
        ("grpc.absolute_max_metadata_size", config.max_metadata_bytes),
        ("grpc.max_concurrent_streams", config.max_streams),
        ("grpc.http2.write_buffer_size", config.max_buffered_bytes),
        ("grpc.keepalive_time_ms", round(config.ping_s * 1e3)),
        ("grpc.keepalive_timeout_ms", round(config.ping_timeout_s * 1e3)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", round(config.min_ping_s * 1e3)),
    ]
