import json
from pathlib import Path

import pytest

from tailrace.classes import STANDARD
from tailrace.errors import SetupError
from tailrace.frontends.class_file import read_classes
from tailrace.frontends.key_file import MAX_FILE_BYTES, read_clients
from tailrace.frontends.standing import Client

KEY = "sk-0123456789abcdef"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.jsonl"


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def test_each_line_is_a_client(path: Path) -> None:
    write(
        path,
        {"name": "shop", "key": KEY, "class": "gold"},
        "",
        {"name": "nightly@example.com", "key": KEY[::-1], "class": "bronze", "best": "silver"},
        {"name": "walk-in", "key": KEY + "0"},
    )
    assert read_clients(path, STANDARD) == {
        KEY: Client("shop", "gold", "gold"),
        KEY[::-1]: Client("nightly@example.com", "bronze", "silver"),
        KEY + "0": Client("walk-in", "silver", "silver"),
    }


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2: .*malformed|line 2: Input data was truncated"),
        ("[]", "line 2: Expected `object`"),
        ({"name": "b"}, "line 2: .*missing required field `key`"),
        ({"key": KEY[::-1]}, "line 2: .*missing required field `name`"),
        ({"name": "b", "key": KEY[::-1], "clas": "gold"}, "line 2: .*unknown field `clas`"),
        ({"name": "b", "key": 7}, r"line 2: Expected `str`, got `int` - at `\$.key`"),
        ({"name": "a/b", "key": KEY[::-1]}, r"line 2: .*`\$.name`"),
        ({"name": "b\n", "key": KEY[::-1]}, r"line 2: .*`\$.name`"),
        ({"name": "b" * 65, "key": KEY[::-1]}, r"line 2: .*`\$.name`"),
        (
            {"name": "b", "key": KEY[::-1], "class": "tin"},
            "line 2: class must be one of gold, silver, bronze, not 'tin'",
        ),
        ({"name": "b", "key": KEY[::-1], "best": "tin"}, "line 2: best must be one of gold, silver, bronze"),
        ({"name": "b", "key": KEY[::-1], "class": "gold", "best": "silver"}, "line 2: best is 'silver', but"),
        ({"name": "a", "key": KEY[::-1]}, "line 2: the name 'a' is there twice"),
        ({"name": "b", "key": KEY}, "line 2: 'b' has the key of 'a'"),
        ({"name": "b", "key": "sk-too-short"}, "line 2: the key of 'b' is unfit: it must be 16 to 512"),
        ({"name": "b", "key": "sk-with spaces 0123456789"}, "line 2: the key of 'b' is unfit"),
        ({"name": "b", "key": "sk-é-0123456789abcdef"}, "line 2: the key of 'b' is unfit"),
        ({"name": "b", "key": "s" * 513}, "line 2: the key of 'b' is unfit"),
        ("[" * 100_000, "line 2: "),
    ],
)
def test_a_bad_line_is_named_with_its_field_and_never_its_key(path: Path, line: object, complaint: str) -> None:
    write(path, {"name": "a", "key": KEY}, line)
    with pytest.raises(SetupError, match=complaint) as refused:
        read_clients(path, STANDARD)
    assert str(path) in str(refused.value)
    assert not any(part in str(refused.value) for part in ("sk-", KEY[::-1], "ssss"))
    assert refused.value.__cause__ is None


def test_a_file_without_a_key_would_shut_everybody_out(path: Path) -> None:
    with pytest.raises(SetupError, match="lists no key"):
        read_clients(write(path, ""), STANDARD)


def test_what_is_no_file_or_too_large_is_refused(path: Path) -> None:
    with pytest.raises(SetupError, match=r"cannot read .*keys\.jsonl"):
        read_clients(path, STANDARD)
    with pytest.raises(SetupError, match="no regular file"):
        read_clients(Path("/dev/zero"), STANDARD)
    with path.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(SetupError, match="more than 16 MiB"):
        read_clients(path, STANDARD)


def test_the_lines_of_the_readme_are_such_files(tmp_path: Path) -> None:
    lines = [
        line for line in (Path(__file__).parents[3] / "README.md").read_text().splitlines() if line[:8] == '{"name":'
    ]
    keys = write(tmp_path / "keys.jsonl", *(line for line in lines if '"key"' in line))
    classes = read_classes(write(tmp_path / "classes.jsonl", *(line for line in lines if '"key"' not in line)))
    assert [client.name for client in read_clients(keys, classes).values()] == ["shop", "nightly"]
    assert classes.default_name == STANDARD.default_name
