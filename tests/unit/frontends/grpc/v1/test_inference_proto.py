"""The protocol as others have it: generated code is that of the file, and what was published stays."""

from pathlib import Path

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

from tailrace.frontends.grpc.v1 import inference_pb2 as pb

SOURCES = Path(__file__).parents[5] / "src"
PROTO = "tailrace/frontends/grpc/v1/inference.proto"
PUBLISHED = Path(__file__).with_name("published.txt")

SIGNED = (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64)


def _messages() -> list[Descriptor]:
    return [each for _, each in sorted(pb.DESCRIPTOR.message_types_by_name.items())]


def _reserved(message: Descriptor) -> set[int]:
    (found,) = (each for each in _described(pb.DESCRIPTOR).message_type if each.name == message.name)
    return {number for span in found.reserved_range for number in range(span.start, span.end)}


def test_the_generated_code_is_that_of_the_file(tmp_path: Path) -> None:
    """Whatever the version of the compiler: descriptors are compared, not texts. `make proto` makes it anew."""
    made = tmp_path / "made"
    assert protoc.main(["protoc", f"-I{SOURCES}", f"--descriptor_set_out={made}", PROTO]) == 0
    (file,) = FileDescriptorSet.FromString(made.read_bytes()).file
    assert _without_json_names(file) == _without_json_names(_described(pb.DESCRIPTOR)), "run 'make proto'"


def _described(file: FileDescriptor) -> FileDescriptorProto:
    described = FileDescriptorProto()
    file.CopyToProto(described)
    return described


def _without_json_names(file: FileDescriptorProto) -> FileDescriptorProto:
    """They follow from the names, and are in a set of descriptors alone."""
    for message in file.message_type:
        for each in (message, *message.nested_type):
            for field in each.field:
                field.ClearField("json_name")
    return file


def test_what_was_published_keeps_its_number_name_and_type() -> None:
    """A line that is missing in the file is new: add it. One that has gone or changed breaks clients."""
    fields = {
        f"{message.name} {field.number} {field.name} {_type(field)}": message
        for message in _messages()
        for field in message.fields
    }
    published = set(PUBLISHED.read_text().splitlines())
    gone = published - set(fields)
    messages = {message.name: message for message in _messages()}
    broken = [line for line in gone if int(line.split()[1]) not in _reserved(messages[line.split()[0]])]
    assert broken == []
    assert sorted(set(fields) - published) == []


def _type(field: FieldDescriptor) -> str:
    kind = {value: name for name, value in vars(FieldDescriptor).items() if name.startswith("TYPE_")}[field.type]
    return kind.removeprefix("TYPE_").lower() + ("*" if field.is_repeated else "")


def test_numbers_below_zero_are_never_written_in_ten_bytes() -> None:
    assert [field.full_name for message in _messages() for field in message.fields if field.type in SIGNED] == []


def test_what_most_messages_carry_takes_one_byte_of_number() -> None:
    assert all(field.number < 16 for field in pb.GenerateResponse.DESCRIPTOR.fields)
