import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from random import Random

import pytest

from benchmarks.kvcache.asking import Answer, ask, random_prompt
from benchmarks.kvcache.ttft import figures, level_of


def answer(ms: float, **found: int) -> Answer:
    return Answer(ms / 1e3, 100, found)


def test_an_answer_belongs_to_the_level_that_gave_most_of_its_prompt() -> None:
    assert level_of(answer(1, engine=96)) == "engine"
    assert level_of(answer(1, engine=16, host=80)) == "host"
    assert level_of(answer(1)) == "cold"
    assert level_of(answer(1, engine=10)) == "cold"
    assert level_of(answer(1, host=50)) == "mixed"


def test_figures_are_medians_and_their_ratio_to_cold() -> None:
    answers = [answer(100), answer(300), answer(200), answer(8, engine=96), answer(30, host=96)]
    assert [(one.level, one.median_ms, one.ratio, one.aim) for one in figures(answers)] == [
        ("cold", 200.0, 1.0, None),
        ("engine", 8.0, 0.04, 0.05),
        ("host", 30.0, 0.15, 0.15),
    ]


def test_without_a_cold_answer_there_is_nothing_to_compare_with() -> None:
    with pytest.raises(ValueError, match="cold"):
        figures([answer(8, engine=96)])


class Scripted(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        details = {"cached_tokens": 2, "cached_tokens_details": {"host": 2}}
        usage = {"prompt_tokens": len(asked["prompt"]), "prompt_tokens_details": details}
        chunks = [json.dumps({"choices": [{"text": "a"}]}), json.dumps({"choices": [], "usage": usage}), "[DONE]"]
        body = "".join(f"data: {chunk}\n\n" for chunk in chunks).encode()
        self.send_response(200 if asked["prompt"] else 400)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Scripted) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_answer_says_how_long_it_took_and_what_came_from_where(url: str) -> None:
    got = ask(url, random_prompt(Random(1), 7))
    assert (got.num_prompt_tokens, got.found) == (7, {"host": 2})
    assert got.first_token_s > 0


def test_what_is_no_answer_is_an_error(url: str) -> None:
    with pytest.raises(ConnectionError, match="answered 400"):
        ask(url, [])
