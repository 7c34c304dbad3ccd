"""What is kept of a stream comes back as it was."""

from tailrace.frontends.http.answer import AnswerHead
from tailrace.frontends.http.resume.record import ShownStream, StreamRecord
from tailrace.service.api import AnswerForm, SettledGeneration, Standing
from tailrace.types import Guide, SamplingParams


def test_the_form_of_an_answer_and_its_guide_are_kept() -> None:
    settled = SettledGeneration(
        "r",
        [1, 2, 70_000],
        SamplingParams(5),
        seed=-3,
        n=2,
        is_text_wanted=True,
        stop=("a",),
        include_stop=False,
        skip_special_tokens=True,
        stop_token_ids=(7,),
        echoed="",
        cache_salt="s",
        standing=Standing("gold", "acme"),
        form=AnswerForm("deepseek-v3.1", "<think>", has_tools=True),
        guide=Guide('start: "a"'),
    )
    shown = ShownStream("chat", AnswerHead("id", 1, "m", "f", "flex"), True, False, shows_reasoning=False)
    kept = StreamRecord.decode(StreamRecord(shown, settled).encode())
    assert kept.shown == shown
    assert list(kept.settled.prompt_ids) == [1, 2, 70_000]
    assert (kept.settled.form, kept.settled.guide) == (settled.form, settled.guide)
    assert kept.settled.standing == settled.standing
