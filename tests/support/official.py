"""The official clients of both APIs, on an application that is called directly."""

import anthropic
import httpx2
import openai
from starlette.types import ASGIApp

__all__ = ["anthropic_client", "openai_client"]


def openai_client(app: ASGIApp, api_key: str = "none") -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url="http://tailrace/v1", api_key=api_key, http_client=_http_client(app), max_retries=0
    )


def anthropic_client(app: ASGIApp, api_key: str = "none") -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(
        base_url="http://tailrace", api_key=api_key, http_client=_http_client(app), max_retries=0
    )


def _http_client(app: ASGIApp) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app))
