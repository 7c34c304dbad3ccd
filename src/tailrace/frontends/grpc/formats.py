"""What an answer must look like, as our own protocol says it."""

from tailrace.errors import InvalidRequest
from tailrace.frontends.grpc.chats import read_json_object
from tailrace.frontends.grpc.v1 import inference_pb2 as pb
from tailrace.frontends.output_format import choice_format, grammar_format, json_format, regex_format, schema_format
from tailrace.service.api import OutputFormat

__all__ = ["format_of"]


def format_of(request: pb.GenerateRequest) -> OutputFormat | None:
    """Raises InvalidRequest for a format of nothing, or one that is too large."""
    if not request.HasField("output_format"):
        return None
    wish = request.output_format
    kind = wish.WhichOneof("form")
    param = f"output_format.{kind}"
    match kind:
        case "json_schema":
            return schema_format(read_json_object(wish.json_schema, param), param)
        case "regex":
            return regex_format(wish.regex, param)
        case "choices":
            return choice_format(wish.choices.texts, f"{param}.texts")
        case "grammar":
            return grammar_format(wish.grammar, param)
        case "json_object" if wish.json_object:
            return json_format(param)
        case _:
            raise InvalidRequest("output_format says nothing: set one of its fields", param="output_format")
