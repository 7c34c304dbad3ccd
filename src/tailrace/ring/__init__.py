"""Words between two processes, through memory that both have: no system call, no pickle, no object on the way.

                    writer                                            reader
    TokenRing       push_events: a step's tokens, one call            pop
    MessageRing     send: a kind and bytes                            receive
    Bell            ring: after all of it, once                       wait, or arm and clear in an event loop

The memory of a ring begins as zeros; its size says how much the ring holds.

      0   head          how much was ever written; stored behind what was written
     64   tail          how much was ever read; stored when it is copied
    128   slots         of a TokenRing, 32 bytes each
                             0  number u64 | token_id i32 | logprob f32 | position u32 | generation u32
                            24  mark u32 | finish u8 | has_detail u8 | 0 u16
    128   arena         of a MessageRing: messages behind each other, round and round
                             0  mark u32 | length u32 | kind u32 | generation u32 | bytes | up to 7 of padding

A ring has one writing and one reading process; threads of one process may share an end. Nothing is remembered between
calls, so the process that takes the place of a dead one goes on where that one stopped; what a writer did not finish
was never there. The mark is made of the position: bytes that no writer left there raise RingDamaged, as do positions
that contradict each other. Whoever finds that fills the memory with zeros, once the other process is gone.
"""

from tailrace.ring import _ring

__all__ = ["Bell", "FutexBell", "MessageRing", "TokenRing", "Told", "push_events"]

Bell = _ring.Bell
FutexBell = _ring.FutexBell
MessageRing = _ring.MessageRing
TokenRing = _ring.TokenRing
Told = _ring.Told
push_events = _ring.push_events
