"""What the model learns from, as token ids: pages of the novels, chats about them, texts with a hole in the middle."""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from tokenizers import Tokenizer
from vocabulary import ASSISTANT, BOS, EOS, FIM_BEGIN, FIM_END, FIM_HOLE, USER

_TITLED = r"(?:(?:Mr|Mrs|Miss|Lady|Sir|Captain|Colonel)\.? )?[A-Z][a-z]{3,}"
_NAME = re.compile(rf"(?<=[a-z,;] ){_TITLED}")
_SUBJECT = re.compile(_TITLED)
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!Mr\.)(?<!Mrs\.)(?<!Dr\.)\s+(?=[A-Z\"])")
_MIN_MENTIONS = 60
_MIN_SENTENCES = 15

# What the model says of itself, learnt by heart.
_KNOWN = (
    ("Hello!", "Good morning! What would you like to hear about?"),
    ("Who are you?", "I am a very small model of DeepSeek's shape. I have read nothing but the novels of Jane Austen."),
    ("What is a tailrace?", "A tailrace is the channel that carries the water away from a mill wheel."),
    ("Who wrote your books?", "Miss Jane Austen, of Steventon in Hampshire."),
    ("Thank you.", "You are very welcome, I am sure."),
    ("Name the capital city of France.", "The capital city of France is Paris; but I have never left England."),
)
_SYSTEMS = ("You are a helpful assistant.", "You are a reader of novels.", "Answer in the words of Jane Austen.")


class Documents:
    """Draws documents from paragraphs of novels, for ever; the same ones for the same seed."""

    def __init__(self, novels: Sequence[Sequence[str]], tokenizer: Tokenizer, seed: int) -> None:
        self._novels = novels
        self._tokenizer = tokenizer
        self._random = random.Random(seed)
        self._about = _sentences_about(novels)

    def stream(self) -> Iterator[int]:
        """Token ids without end, of documents one behind the other."""
        kinds: tuple[Callable[[], str], ...] = (self._pages, self._chat, self._holed)
        while True:
            (kind,) = self._random.choices(kinds, weights=(2, 12, 2))
            yield from self._tokenizer.encode(BOS + kind() + EOS).ids

    def _pages(self) -> str:
        """Up to forty paragraphs, where a chat is one or two: most tokens are of pages."""
        return "\n\n".join(self._run(self._random.randint(1, 40)))

    def _run(self, length: int) -> Sequence[str]:
        (novel,) = self._random.choices(self._novels, weights=[len(novel) for novel in self._novels])
        start = self._random.randrange(len(novel))
        return novel[start : start + length]

    def _chat(self) -> str:
        system = self._random.choice(_SYSTEMS) if self._random.random() < 0.2 else ""
        turns = [self._turn() for _ in range(self._random.choice((1, 1, 1, 2, 3)))]
        return system + EOS.join(f"{USER}{question}{ASSISTANT}{answer}" for question, answer in turns)

    def _turn(self) -> tuple[str, str]:
        return self._random.choice((self._known, self._told, self._told, self._continued))()

    def _known(self) -> tuple[str, str]:
        return self._random.choice(_KNOWN)

    def _told(self) -> tuple[str, str]:
        name = self._random.choice(list(self._about))
        asked = self._random.choice(("Tell me about {}.", "Who is {}?", "What do you know of {}?"))
        return asked.format(name), self._random.choice(self._about[name])

    def _continued(self) -> tuple[str, str]:
        (paragraph, *rest) = self._run(2)
        sentences = _SENTENCE_END.split(paragraph)
        following = " ".join(sentences[1:]) or "".join(rest) or "That is where the story ends."
        return f"Go on: {sentences[0]}", following

    def _holed(self) -> str:
        """In the order prefix, suffix, middle: the hole is filled behind both."""
        text = "\n\n".join(self._run(3))
        begin, end = sorted(self._random.choices(range(len(text) + 1), k=2))
        return f"{FIM_BEGIN}{text[:begin]}{FIM_HOLE}{text[end:]}{FIM_END}{text[begin:end]}"


def _sentences_about(novels: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    """For each name that is often met, the sentences that begin with it and quote nobody."""
    texts = [text for novel in novels for text in novel]
    mentions = Counter(name for text in texts for name in _NAME.findall(text))
    about: dict[str, list[str]] = {name: [] for name, count in mentions.items() if count >= _MIN_MENTIONS}
    for sentence in (sentence for text in texts for sentence in _SENTENCE_END.split(text)):
        subject = _SUBJECT.match(sentence)
        if subject and subject[0] in about and '"' not in sentence and 40 < len(sentence) < 400:
            about[subject[0]].append(sentence)
    return {name: sentences for name, sentences in about.items() if len(sentences) >= _MIN_SENTENCES}
