from pathlib import Path

from benchmarks.kernels.callgrind import instructions_of

NATIVE = Path("/site/_native.so")
PART = """\
# callgrind format
positions: line
events: Ir
summary: 5000

ob=(1) /lib/libc.so
fl=(1) ???
fn=(1) memcpy
0 40

ob=(2) /site/_native.so
fn=(2) compute
0 100
+3 20
cob=(1)
cfn=(1)
calls=7 0
* 40
-2 3

ob=(3) /bin/python
fn=(3) call
cob=(2)
cfn=(2)
calls=1 0
0 163
0 9

ob=(2)
fn=(4) other
5 1000

totals: 5000
"""


def test_only_what_functions_of_the_module_did_themselves_counts() -> None:
    assert instructions_of(PART.splitlines(), NATIVE) == 100 + 20 + 3 + 1000


def test_another_module_has_its_own_count() -> None:
    assert instructions_of(PART.splitlines(), Path("/lib/libc.so")) == 40
