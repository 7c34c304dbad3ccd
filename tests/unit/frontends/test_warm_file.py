import os
import re
from pathlib import Path

import pytest

from tailrace.errors import SetupError
from tailrace.frontends.salt import tenant_salt
from tailrace.frontends.warm_file import MAX_FILE_BYTES, MAX_LINE_BYTES, check_writable, read_prompts, write_prompts
from tailrace.service.api import ChatPrompt, ListedPrompt, TextPrompt, TokenPrompt


def read(tmp_path: Path, *lines: str) -> list[ListedPrompt]:
    file = tmp_path / "warm.jsonl"
    file.write_text("\n".join(lines))
    return read_prompts(file)


def test_a_line_is_a_text_messages_or_token_ids(tmp_path: Path) -> None:
    text, chat, ids = read(
        tmp_path,
        '{"prompt": "Once"}',
        '{"messages": [{"role": "system", "content": "Be kind."}], "cache_salt": "tenant"}',
        "",
        '{"token_ids": [1, 2], "num_uses": 2.5, "model": "default"}',
    )
    assert text.prompt == TextPrompt("Once")
    assert chat.prompt == ChatPrompt([{"role": "system", "content": "Be kind."}], add_generation_prompt=False)
    assert (chat.cache_salt, text.cache_salt) == ("tenant", "")
    assert (ids.prompt, ids.num_uses, ids.model) == (TokenPrompt([1, 2]), 2.5, "default")
    assert ids.place.endswith("warm.jsonl, line 4")


def test_a_salt_is_made_as_that_of_requests_is(tmp_path: Path) -> None:
    prompts = read(
        tmp_path,
        '{"prompt": "a", "user_id": "b"}',
        '{"prompt": "a", "cache_salt": "a", "user_id": "b"}',
        '{"prompt": "a", "cache_salt": null, "user_id": null}',
    )
    assert [prompt.cache_salt for prompt in prompts] == [tenant_salt(None, "b"), tenant_salt("a", "b"), ""]


def test_ids_may_be_the_prompt_and_an_error_in_them_will_call_them_as_the_line_does(tmp_path: Path) -> None:
    as_prompt, as_ids = read(tmp_path, '{"prompt": [1, 2]}', '{"token_ids": [1, 2]}')
    assert as_prompt.prompt == as_ids.prompt == TokenPrompt([1, 2])
    assert isinstance(as_prompt.prompt, TokenPrompt)
    assert isinstance(as_ids.prompt, TokenPrompt)
    assert (as_prompt.prompt.param, as_ids.prompt.param) == ("prompt", "token_ids")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "Input data was truncated"),
        ("[]", "Expected `object`, got `array`"),
        ("{}", "give one of prompt, messages and token_ids"),
        ('{"prompt": "a", "token_ids": [1]}', "give one of prompt, messages and token_ids"),
        ('{"prompts": "a"}', "unknown field `prompts`"),
        ('{"prompt": ""}', "length >= 1"),
        ('{"token_ids": [-1]}', ">= 0"),
        ('{"token_ids": []}', "length >= 1"),
        ('{"prompt": "a", "num_uses": 0}', "> 0"),
        ('{"prompt": "a", "cache_salt": ""}', "length >= 1"),
        ('{"prompt": "a", "user_id": ""}', "length >= 1"),
        ('{"prompt": "' + "a" * MAX_LINE_BYTES + '"}', "it has more than 8 MiB"),
        ('{"messages": [{"role": "judge", "content": "x"}]}', "role is 'judge'"),
        ('{"messages": [{"role": "user", "content": ' + "[" * 2000 + "]" * 2000 + "}]}", "line 2: "),
    ],
)
def test_a_bad_line_is_refused_by_its_number(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(SetupError) as caught:
        read(tmp_path, '{"prompt": "good"}', line)
    assert "warm.jsonl, line 2: " in str(caught.value)
    assert message in str(caught.value)


def test_a_file_that_is_not_there_or_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"cannot read .*none: No such file"):
        read_prompts(tmp_path / "none")
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(SetupError, match="more than 64 MiB"):
        read_prompts(large)


def test_what_may_have_no_end_is_not_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (Path("/dev/zero"), pipe, tmp_path):
        with pytest.raises(SetupError, match=f"cannot read {re.escape(str(path))}: it is no regular file"):
            read_prompts(path)


def test_a_place_that_can_be_written_is_left_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "state.jsonl"
    check_writable(file)
    assert not list(tmp_path.iterdir())
    file.write_text("kept")
    check_writable(file)
    assert file.read_text() == "kept"
    with pytest.raises(SetupError, match=r"cannot write .*: No such file"):
        check_writable(tmp_path / "none" / "state.jsonl")


def test_no_more_is_written_than_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.frontends.warm_file.MAX_FILE_BYTES", 70)
    monkeypatch.setattr("tailrace.frontends.warm_file.MAX_LINE_BYTES", 35)
    file = tmp_path / "state.jsonl"
    write_prompts(file, [ListedPrompt(TokenPrompt([1] * count)) for count in (1, 4, 1, 1)])
    assert [prompt.prompt for prompt in read_prompts(file)] == [TokenPrompt([1])] * 2


def test_a_file_that_was_put_in_the_way_is_not_written_through(tmp_path: Path) -> None:
    file, other = tmp_path / "state.jsonl", tmp_path / "other"
    other.write_text("of somebody")
    (tmp_path / f"state.jsonl.{os.getpid()}").symlink_to(other)
    write_prompts(file, [ListedPrompt(TokenPrompt([1]))])
    assert other.read_text() == "of somebody"
    assert len(read_prompts(file)) == 1


def test_what_is_written_reads_as_it_was_and_only_its_owner_may(tmp_path: Path) -> None:
    file = tmp_path / "state.jsonl"
    prompts = [
        ListedPrompt(TokenPrompt([1, 2]), "s" * 512 + "|user_id=" + "u" * 512, 0.5, "m"),
        ListedPrompt(TokenPrompt([3]), "", 7.0, "m"),
    ]
    write_prompts(file, prompts[:1])
    write_prompts(file, prompts)
    assert [(one.prompt, one.cache_salt, one.num_uses, one.model) for one in read_prompts(file)] == [
        (one.prompt, one.cache_salt, one.num_uses, one.model) for one in prompts
    ]
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]
