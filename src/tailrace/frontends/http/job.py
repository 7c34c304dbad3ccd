"""A body as work to do: the generations to start, and how the client wants to read their answer."""

from dataclasses import dataclass, replace

from tailrace.frontends.http.answer import AnswerForm
from tailrace.frontends.standing import Claim
from tailrace.service.api import Generation, Milestones, Standing

__all__ = ["Job"]


@dataclass(frozen=True, slots=True)
class Job:
    """One HTTP request's work. Choice `i` of generation `g` is choice `g * n + i` of the answer.

    `claim` is what the body says of its class, `service_tier` what its answer does.
    """

    generations: tuple[Generation, ...]
    form: AnswerForm
    claim: Claim
    n: int = 1
    service_tier: str | None = None
    is_streamed: bool = False
    include_usage: bool = False  # when the frames end
    continuous_usage: bool = False  # in every frame

    @property
    def num_choices(self) -> int:
        return self.n * len(self.generations)

    @property
    def class_name(self) -> str:
        """Of the class that it was placed in."""
        return self.generations[0].standing.class_name

    def placed(self, standing: Standing, service_tier: str | None, trace: str = "") -> "Job":
        """The same work with its place among others, and in a trace."""
        generations = tuple(replace(each, standing=standing, trace=trace) for each in self.generations)
        return replace(self, generations=generations, service_tier=service_tier)

    def followed(self, milestones: Milestones) -> "Job":
        """The same work, of which the first generation tells how far it is."""
        first, *others = self.generations
        return replace(self, generations=(replace(first, milestones=milestones), *others))
