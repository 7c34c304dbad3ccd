import numpy as np

from tailrace.ops.api import MAX_TOP_LOGPROBS, SampleOutputs
from tailrace.runtime.sampler import SamplingTable, to_tokens
from tailrace.scheduler.plan import SequenceEntry
from tailrace.types import SamplingParams, TokenLogprob

TOKENS = np.arange(40, dtype=np.int32).reshape(4, 10)


def entry(name: str, sampling: SamplingParams, num_prompt_tokens: int = 3) -> SequenceEntry:
    return SequenceEntry(name, tuple(range(num_prompt_tokens)), num_prompt_tokens, sampling)


def test_plain_rows_carry_no_history_and_no_bias() -> None:
    table = SamplingTable(4, eos_ids=(2,))
    table.enter(1, entry("a", SamplingParams(max_tokens=4, temperature=0.5, top_k=7, seed=2**64 + 5)))

    inputs = table.inputs(np.array([1], np.int32), np.array([3], np.int32), TOKENS)

    assert inputs.temperature.tolist() == [0.5]
    assert inputs.top_k.tolist() == [7]
    assert inputs.seed.tolist() == [5]
    assert inputs.position.tolist() == [3]
    assert inputs.history_starts.tolist() == [0, 0]
    assert inputs.bias_starts.tolist() == [0, 0]


def test_a_penalty_brings_prompt_and_output_so_far() -> None:
    table = SamplingTable(4, eos_ids=(2,))
    table.enter(0, entry("plain", SamplingParams(max_tokens=4)))
    table.enter(2, entry("a", SamplingParams(max_tokens=4, frequency_penalty=0.5)))

    inputs = table.inputs(np.array([0, 2], np.int32), np.array([3, 5], np.int32), TOKENS)

    assert inputs.history_starts.tolist() == [0, 0, 5]
    assert inputs.history_ids.tolist() == [20, 21, 22, 23, 24]
    assert inputs.history_prompt_tokens.tolist() == [0, 3]


def test_min_tokens_forbids_ends_until_enough_were_drawn() -> None:
    table = SamplingTable(4, eos_ids=(2,))
    sampling = SamplingParams(max_tokens=4, min_tokens=2, stop_token_ids=(9,), logit_bias=((7, 1.5),))
    table.enter(0, entry("a", sampling))
    slots = np.array([0], np.int32)

    early = table.inputs(slots, np.array([4], np.int32), TOKENS)
    late = table.inputs(slots, np.array([5], np.int32), TOKENS)

    assert early.bias_ids.tolist() == [7, 2, 9]
    assert early.bias_values.tolist() == [1.5, -np.inf, -np.inf]
    assert late.bias_ids.tolist() == [7]


def test_settings_of_a_finished_sequence_do_not_stay_in_its_slot() -> None:
    table = SamplingTable(4, eos_ids=(2,))
    table.enter(0, entry("a", SamplingParams(max_tokens=4, logit_bias=((7, 1.5),), top_p=0.5)))
    table.leave(0)
    table.enter(0, entry("b", SamplingParams(max_tokens=4)))

    inputs = table.inputs(np.array([0], np.int32), np.array([3], np.int32), TOKENS)

    assert inputs.bias_ids.size == 0
    assert inputs.top_p.tolist() == [1.0]


def test_log_probabilities_are_attached_where_asked_for() -> None:
    top_ids = np.zeros((2, MAX_TOP_LOGPROBS), np.int32)
    top_ids[1, :2] = (8, 4)
    top_logprobs = np.zeros((2, MAX_TOP_LOGPROBS), np.float32)
    top_logprobs[1, :2] = (-0.25, -2.0)
    drawn = SampleOutputs(np.array([3, 8], np.int32), np.array([0.0, -0.25], np.float32), top_ids, top_logprobs)

    plain, asked = to_tokens(["a", "b"], np.array([-1, 2], np.int32), drawn)

    assert (plain.token_id, plain.logprob, plain.top_logprobs) == (3, None, ())
    assert asked.logprob == -0.25
    assert asked.top_logprobs == (TokenLogprob(8, -0.25), TokenLogprob(4, -2.0))
