"""Metrics of what happens to a server and of the rules that act upon it; part of the catalog."""

from tailrace.telemetry.metric import Kind, Metric

__all__ = ["EVENTS", "LEVEL_MODE", "RULES_FIRED", "RULE_ACTIVE", "RULE_CATALOG"]

EVENTS = Metric(
    "tailrace_events",
    Kind.COUNTER,
    "events",
    "What happened to the server that its operators want to know, by kind; the log says each.",
    labels=("kind",),
)
RULES_FIRED = Metric(
    "tailrace_rules_fired",
    Kind.COUNTER,
    "firings",
    "How often each rule has fired.",
    labels=("rule",),
)
RULE_ACTIVE = Metric(
    "tailrace_rule_active",
    Kind.GAUGE,
    "rules",
    "1: the rule has fired, and what it does holds; 0: it has not, or has cleared.",
    labels=("rule",),
)

LEVEL_MODE = Metric(
    "tailrace_level_mode",
    Kind.GAUGE,
    "levels",
    "1 of the mode in which a level is used that a rule may act upon: normal, asynchronous, bypassed.",
    labels=("level", "mode"),
)

RULE_CATALOG = (EVENTS, RULES_FIRED, RULE_ACTIVE, LEVEL_MODE)
