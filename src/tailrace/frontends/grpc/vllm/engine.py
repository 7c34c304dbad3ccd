"""vllm.grpc.engine.VllmEngine, so that gateways which speak it can stand before this server: tokens in, tokens out."""

import time
from collections.abc import Mapping
from dataclasses import replace

from smg_grpc_proto.generated import common_pb2
from smg_grpc_proto.generated import vllm_engine_pb2 as pb

from tailrace.frontends.admin_key import AdminKey
from tailrace.frontends.following import note_asked
from tailrace.frontends.grpc.call import Call, Calls, Handler
from tailrace.frontends.grpc.sending import send_answer
from tailrace.frontends.grpc.vllm.answers import AnswerWriter
from tailrace.frontends.grpc.vllm.fields import check_fields
from tailrace.frontends.grpc.vllm.live import LiveCalls
from tailrace.frontends.grpc.vllm.requests import field_place, generation_of
from tailrace.frontends.renaming import renamed
from tailrace.frontends.standing import Claim
from tailrace.service.api import Service
from tailrace.types import ModelTarget

__all__ = ["VLLM_ENGINE", "VllmEngine"]

VLLM_ENGINE = pb.DESCRIPTOR.services_by_name["VllmEngine"]

_PROFILING = "profile the process from outside, with py-spy or perf"
_UNSUPPORTED: Mapping[str, str] = {
    "Embed": "the served model generates text, and gives no embeddings",
    "StartProfile": _PROFILING,
    "StopProfile": _PROFILING,
    "GetLoads": "scrape /metrics on the HTTP port, which has the load under vLLM's names too",
    "GetTokenizer": "give the gateway the path of the model's tokenizer",
    "SubscribeKvEvents": "start the server with --kv-events and subscribe over ZeroMQ, as with vLLM",
}
"""Methods that have no answer here -> why, or what to do instead."""

_SERVER_TYPE = "tailrace-grpc"


class VllmEngine:
    def __init__(self, service: Service, calls: Calls) -> None:
        self._service = service
        self._calls = calls
        self._admin = AdminKey(calls.config.admin_key)
        self._live = LiveCalls()
        self._started_s = time.monotonic()
        self._last_received_s = time.time()

    @property
    def handlers(self) -> Mapping[str, Handler]:
        calls, anybody = self._calls, self._calls.of_anybody
        return {
            "Generate": calls.streaming(pb.GenerateRequest, self.generate),
            "Abort": calls.unary(pb.AbortRequest, self.abort),
            "HealthCheck": anybody.unary(pb.HealthCheckRequest, self.health_check),
            "FlushCache": anybody.unary(common_pb2.FlushCacheRequest, self.flush_cache),  # has a key of its own
            "GetModelInfo": calls.unary(pb.GetModelInfoRequest, self.get_model_info),
            "GetServerInfo": calls.unary(pb.GetServerInfoRequest, self.get_server_info),
            **{name: calls.refusing(f"{name} is not supported: {reason}") for name, reason in _UNSUPPORTED.items()},
        }

    async def generate(self, request: pb.GenerateRequest, call: Call) -> None:
        self._last_received_s = time.time()
        check_fields(request)
        check_fields(request.sampling_params, "sampling_params.")
        with (
            call.visiting() as visit,
            call.followed(request.request_id) as life,
            self._live.entered(call.client.name, request.request_id) as live,
            renamed(field_place),
        ):
            standing = call.standing(Claim(), self._service.classes)
            generation = generation_of(request, life.request_id, standing)
            generation = replace(generation, trace=call.traceparent, milestones=life)
            writer = AnswerWriter(generation.n, is_streamed=request.stream)
            note_asked(life, generation, generation.n, is_streamed=request.stream)
            clock = call.clock(life, generation.n, is_streamed=request.stream)
            stream = await self._service.start(generation)
            await live.begins(stream)
            await send_answer(stream, writer, call, visit, clock)

    async def abort(self, request: pb.AbortRequest, call: Call) -> pb.AbortResponse:
        """Of the calls of this process, which are all of this connection, and perhaps not all of others."""
        for name in request.request_ids:
            await self._live.abort(call.client.name, name)
        return pb.AbortResponse()

    async def health_check(self, request: pb.HealthCheckRequest, call: Call) -> pb.HealthCheckResponse:
        is_ready = self._service.is_ready
        return pb.HealthCheckResponse(
            healthy=is_ready, message="ready" if is_ready else "the model is loading, or the server is draining"
        )

    async def flush_cache(self, request: common_pb2.FlushCacheRequest, call: Call) -> common_pb2.FlushCacheResponse:
        """At once, whatever runs: what is forgotten is in use no longer than by those who use it."""
        self._admin.check(call)
        done = await self._service.invalidate(ModelTarget())
        dropped = ", ".join(f"{level.value}: {'told' if count is None else count}" for level, count in done.num_dropped)
        return common_pb2.FlushCacheResponse(success=True, message=f"blocks dropped: {dropped}")

    async def get_model_info(self, request: pb.GetModelInfoRequest, call: Call) -> pb.GetModelInfoResponse:
        model = self._service.model
        return pb.GetModelInfoResponse(
            model_path=model.name,
            served_model_name=model.name,
            is_generation=True,
            max_context_length=model.max_model_tokens,
            max_req_input_len=model.max_model_tokens,
            vocab_size=model.vocab_size,
            eos_token_ids=model.eos_ids,
        )

    async def get_server_info(self, request: pb.GetServerInfoRequest, call: Call) -> pb.GetServerInfoResponse:
        return pb.GetServerInfoResponse(
            active_requests=self._live.num_live,
            last_receive_timestamp=self._last_received_s,
            uptime_seconds=time.monotonic() - self._started_s,
            server_type=_SERVER_TYPE,
            data_parallel_size=1,
        )
