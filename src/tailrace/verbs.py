"""What the command line offers: each verb with the module that is loaded when it is asked for."""

from cyclopts import App, Parameter

from tailrace.version import __version__

__all__ = ["VERBS", "app"]

VERBS = {
    "serve": "Serve a model over an OpenAI-compatible HTTP API.",
    "chat": "Talk to a model in the terminal.",
    "complete": "Continue a text.",
    "bench": "Measure any OpenAI-compatible server under load.",
    "attribute": "Show where a running server's time goes, and which limit binds.",
    "roofline": "Measure what this machine does at best.",
    "cache": "Show or remove the KV blocks that are kept in shared memory.",
    "inspect": "Show what a model file holds and what it needs.",
    "quantize": "Write a model with narrower weights, and show what that costs.",
}

app = App(
    name="tailrace",
    help="A streaming inference server for DeepSeek-family models.",
    help_epilogue="Examples:\n  tailrace serve\n  tailrace chat\n  tailrace VERB --help",
    help_format="plaintext",
    version=__version__,
    default_parameter=Parameter(negative=()),
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
for _verb, _summary in VERBS.items():
    app.command(f"tailrace.commands.{_verb}:{_verb}", name=_verb, help=_summary)
