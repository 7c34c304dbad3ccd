"""How a mixture of experts routes, as settings of either format say it: checked here, so that complaints name them."""

from dataclasses import dataclass, replace
from typing import Literal

from tailrace.ops.program import Routing
from tailrace.weights.bounds import MAX_EXPERTS
from tailrace.weights.fields import Fields

__all__ = ["RoutingKeys", "read_groups", "read_routing"]


@dataclass(frozen=True, slots=True)
class RoutingKeys:
    """What a format calls the numbers of a routing."""

    num_experts: str
    top_k: str
    num_groups: str
    top_groups: str


def read_routing(fields: Fields, keys: RoutingKeys, scoring: Literal["softmax", "sigmoid"]) -> Routing:
    """The routing without groups."""
    num_experts = fields.integer(keys.num_experts, high=MAX_EXPERTS)
    return Routing(num_experts, fields.integer(keys.top_k, high=num_experts), scoring)


def read_groups(
    fields: Fields,
    keys: RoutingKeys,
    routing: Routing,
    group_rank: Literal["max", "top two"],
    default: tuple[int, int] = (1, 1),
) -> Routing:
    """`routing` among groups; `default` is how many there are, and how many of them a token may choose from."""
    num_experts = routing.num_experts
    num_groups = fields.integer(keys.num_groups, default[0], high=num_experts)
    if num_experts % num_groups:
        raise fields.wrong(keys.num_groups, f"a divisor of the {num_experts} experts")
    size = num_experts // num_groups
    if group_rank == "top two" and size < 2:
        raise fields.wrong(keys.num_groups, f"at most {num_experts // 2}: a group's rank is that of its two best")
    top_groups = fields.integer(keys.top_groups, default[1], high=num_groups)
    if routing.top_k > top_groups * size:
        raise fields.wrong(keys.top_k, f"at most the {top_groups * size} experts of {keys.top_groups}")
    return replace(routing, num_groups=num_groups, top_groups=top_groups, group_rank=group_rank)
