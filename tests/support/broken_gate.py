"""A gate at which nobody can be charged."""

from typing import NoReturn

from tailrace.frontends.rate_gate import RateGate, Visit
from tailrace.frontends.rate_table import RateTable
from tailrace.frontends.standing import Client

__all__ = ["BrokenGate"]


class BrokenGate(RateGate):
    def __init__(self) -> None:
        super().__init__(RateTable.alone())

    def enter(self, client: Client) -> Visit:
        return Visit(charge=_fail)


def _fail(num_tokens: int) -> NoReturn:
    raise OSError("the table is gone")
