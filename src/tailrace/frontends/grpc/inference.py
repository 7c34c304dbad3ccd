"""The service of our own protocol, tailrace.v1.Inference: text in, text out."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from tailrace.frontends.following import note_asked
from tailrace.frontends.grpc.answers import AnswerWriter
from tailrace.frontends.grpc.call import Call, Calls, Handler
from tailrace.frontends.grpc.requests import claim_of, field_place, generation_of, prompt_of
from tailrace.frontends.grpc.sending import send_answer
from tailrace.frontends.grpc.v1 import inference_pb2 as pb
from tailrace.frontends.model_name import check_model
from tailrace.frontends.renaming import renamed
from tailrace.service.api import Service

__all__ = ["INFERENCE", "Inference"]

INFERENCE = pb.DESCRIPTOR.services_by_name["Inference"]


class Inference:
    def __init__(self, service: Service, calls: Calls) -> None:
        self._service = service
        self._calls = calls

    @property
    def handlers(self) -> Mapping[str, Handler]:
        calls = self._calls
        return {
            "Generate": calls.streaming(pb.GenerateRequest, self.generate),
            "Tokenize": calls.unary(pb.TokenizeRequest, self.tokenize),
            "Detokenize": calls.unary(pb.DetokenizeRequest, self.detokenize),
            "GetModel": calls.unary(pb.GetModelRequest, self.get_model),
        }

    async def generate(self, request: pb.GenerateRequest, call: Call) -> None:
        with call.visiting() as visit, call.followed() as life, renamed(field_place):
            check_model(request.model or None, self._service.model)
            standing = call.standing(claim_of(request), self._service.classes)
            generation = generation_of(request, life.request_id, standing)
            generation = replace(generation, trace=call.traceparent, milestones=life)
            writer = AnswerWriter(generation.n, has_token_ids=request.return_token_ids)
            note_asked(life, generation, generation.n, is_streamed=True)
            clock = call.clock(life, generation.n)
            await send_answer(await self._service.start(generation), writer, call, visit, clock)

    async def tokenize(self, request: pb.TokenizeRequest, call: Call) -> pb.TokenizeResponse:
        with call.visiting(), renamed(field_place):
            ids = await asyncio.to_thread(self._service.tokenize, prompt_of(request))
        return pb.TokenizeResponse(ids=ids)

    async def detokenize(self, request: pb.DetokenizeRequest, call: Call) -> pb.DetokenizeResponse:
        with call.visiting():
            text = await asyncio.to_thread(self._service.detokenize, request.ids)
        return pb.DetokenizeResponse(text=text)

    async def get_model(self, request: pb.GetModelRequest, call: Call) -> pb.GetModelResponse:
        model = self._service.model
        return pb.GetModelResponse(
            name=model.name,
            aliases=model.aliases,
            max_model_tokens=model.max_model_tokens,
            vocab_size=model.vocab_size,
            is_ready=self._service.is_ready,
            version=self._calls.config.version,
        )
