"""What a feed tells of a server that does not exist: the same numbers each time, moving from frame to frame."""

import math
from typing import Any

import msgspec

from tailrace.telemetry.feed.frame import Frame
from tailrace.telemetry.lives import RequestLife
from tailrace.types import Beginning, PromptChunk

__all__ = ["REQUEST_ID", "frame", "long_life"]

Json = dict[str, Any]

REQUEST_ID = "req-of-the-tests-0"
_STEPS_PER_FRAME = 40
_MIB = 1 << 20


def frame(number: int, now_s: float) -> Frame:
    """The frame of one second, counted from 0. A rule has always fired 3 s ago."""
    return msgspec.convert(_frame(number, now_s, load=0.5 + 0.5 * math.sin(number / 9)), Frame)


def _frame(number: int, now_s: float, load: float) -> Json:
    return {
        "model": "tiny",
        "version": "0.0.0",
        "uptime_s": 3600.0 + number,
        "is_ready": True,
        "num_api_processes": 2,
        "rates": {
            "output_tokens_per_s": 100.0 + round(120 * load, 1),
            "prompt_tokens_per_s": 300.0 + round(200 * load, 1),
            "requests_per_s": 1.2,
            "refused_per_s": 0.0,
            "steps_per_s": float(_STEPS_PER_FRAME),
        },
        "classes": [
            _class("gold", 2 + round(3 * load), 0, ttft_s=1.0, itl_s=0.05, load=load),
            _class("silver", 4, round(2 * load), ttft_s=2.5, itl_s=0.1, load=load),
            _class("bronze", 1, round(6 * load), ttft_s=20.0, itl_s=0.5, load=load),
        ],
        "levels": [
            _level("engine", 0.3 + 0.4 * load, 0.55 + 0.2 * load),
            _level("host", 0.2 + 0.1 * load, 0.12),
            _level("redis", None, 0.02, is_up=False, mode="bypassed"),
        ],
        "blocks": {
            "released": 0,
            "free": 10,
            "reserved": 2,
            "filling": 7,
            "sealed": 30,
            "idle": 58,
            "fragmentation": 0.02,
        },
        "heat": {"cell_s": 300, "rows": [_heat("engine", 0.75), _heat("host", 0.2), _heat("redis", 0.03)]},
        "control": {
            "budget_tokens": 512,
            "max_running": 64,
            "pace": 1.0,
            "target_scale": 1.3,
            "prediction_error_p50": 0.05,
        },
        "steps": [_step(number * _STEPS_PER_FRAME + place, place) for place in range(_STEPS_PER_FRAME)],
        "time": {"idle": 0.2, "intake": 0.01, "plan": 0.03, "compute": 0.68, "publish": 0.05, "other": 0.03},
        "roofline": {
            "memory_share": 0.81,
            "compute_share": 0.12,
            "binds": "memory",
            "ops": [
                {"name": "linear", "time_share": 0.71, "memory_share": 1.07, "compute_share": 0.13},
                {"name": "attention", "time_share": 0.21, "memory_share": 0.44, "compute_share": 0.09},
                {"name": "norm", "time_share": 0.03, "memory_share": 0.2, "compute_share": 0.01},
            ],
        },
        "processes": [
            {"name": "engine", "resident_bytes": 410 * _MIB, "cpu": 1.62},
            {"name": "api 0", "resident_bytes": 95 * _MIB, "cpu": 0.11},
        ],
        "requests": [_request(place) for place in range(12)],
        "events": [
            {"at_s": now_s - 3, "kind": "rule_fired", "message": "redis gives 2% for 3 min: it is bypassed"},
            {"at_s": now_s - 7000, "kind": "level_down", "message": "redis does not answer"},
        ],
    }


def _class(name: str, running: int, waiting: int, *, ttft_s: float, itl_s: float, load: float) -> Json:
    return {
        "name": name,
        "running": running,
        "waiting": waiting,
        "ttft_target_s": ttft_s,
        "itl_target_s": itl_s,
        "ttft_p50_s": ttft_s * (0.2 + 0.1 * load),
        "ttft_p99_s": ttft_s * (0.6 + 0.5 * load),
        "itl_p50_s": itl_s * 0.3,
        "itl_p99_s": itl_s * (0.5 + 0.2 * load),
        "on_target": 0.97,
        "num_refused": waiting // 3,
    }


def _level(name: str, used: float | None, hit_rate: float, *, is_up: bool = True, mode: str = "normal") -> Json:
    return {
        "name": name,
        "used": used,
        "num_blocks": 1000,
        "num_bytes": 120 * _MIB,
        "max_bytes": 256 * _MIB,
        "hit_rate": hit_rate,
        "is_up": is_up,
        "mode": mode,
    }


def _heat(level: str, share: float) -> Json:
    cells = [
        [300.0 * (24 - place), None if place < 6 else max(0.0, min(1.0, share + 0.2 * math.sin(place)))]
        for place in range(24)
    ]
    return {"level": level, "cells": cells}


def _step(step_id: int, place: int) -> Json:
    num_prompt_tokens = 192 if place % 8 == 3 else 0
    took_s = 0.011 + num_prompt_tokens * 6e-5 + 0.001 * math.sin(step_id)
    return {
        "id": step_id,
        "ago_s": (_STEPS_PER_FRAME - place) / _STEPS_PER_FRAME,
        "took_s": took_s,
        "predicted_s": 0.0112 + num_prompt_tokens * 5.5e-5,
        "num_decodes": 7,
        "num_prompt_tokens": num_prompt_tokens,
        "prompts": [["req-a", 128], [REQUEST_ID, 64]] if num_prompt_tokens else [],
    }


def _request(place: int) -> Json:
    state = ("waiting", "prefill", "decoding", "decoding", "ended")[min(place, 4)]
    has_ended = state == "ended"
    return {
        "id": f"req-of-the-tests-{place}",
        "endpoint": "chat",
        "class": ("gold", "silver", "bronze")[place % 3],
        "state": state,
        "ago_s": 0.4 + place,
        "took_s": 0.9 if has_ended else None,
        "ttft_s": 0.12 if place > 1 else None,
        "num_prompt_tokens": 1200 + place,
        "num_cached_tokens": 64 * place,
        "num_output_tokens": 20 * place,
        "finish_reason": "stop" if has_ended else None,
        "error": None,
    }


def long_life() -> RequestLife:
    """One with everything in it: a level below, two chunks with a wait between, a preemption."""
    chunks = (PromptChunk(0.12, 0.2, 400), PromptChunk(0.22, 0.3, 288))
    return RequestLife(
        request_id=REQUEST_ID,
        endpoint="chat",
        class_name="gold",
        accepted_s=0.0,
        parsed_s=0.001,
        submitted_s=0.004,
        beginning=Beginning(0.005, 0.12, 0.3, fetch_s=0.02, chunks=chunks, num_preemptions=1),
        received_s=0.301,
        text_s=0.302,
        written_s=0.303,
        ended_s=1.5,
        finish_reason="stop",
        num_prompt_tokens=1200,
        num_output_tokens=64,
        found={"engine": 384, "host": 128},
        miss_reason="evicted",
    )
