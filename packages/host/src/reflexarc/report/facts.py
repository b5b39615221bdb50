"""What a run registered, warned of and cost, as sections of its report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from reflexarc.report.markup import Child, Markup, element
from reflexarc.report.story import Story
from reflexarc.report.text import bounded, duration, one_line
from reflexarc.runs.artifacts import kept
from reflexarc.runs.codec import plain

MAX_VALUES = 100
MAX_VALUE = 4_000
VALUES_BUDGET = 150_000
MAX_WARNINGS = 100


def warnings(story: Story) -> Markup | None:
    """What went on though it was doubtful."""
    if not story.state.warnings:
        return None
    lines = [element("li", one_line(warning, 500)) for warning in story.state.warnings[:MAX_WARNINGS]]
    return element("section", element("h2", "Warnings"), element("ul", *lines, class_="warnings"))


def registered(story: Story) -> Markup | None:
    """The values that steps registered; of a wait that matched something, the match."""
    values = list(story.state.registered.items())[:MAX_VALUES]
    if not values:
        return None
    limit = min(MAX_VALUE, VALUES_BUDGET // len(values))
    rows = [
        element("div", element("dt", one_line(name, 200)), element("dd", _value(value, limit)))
        for name, value in values
    ]
    return element("section", element("h2", "Registered"), element("dl", *rows, class_="pairs"))


def _value(value: object, limit: int) -> Markup:
    if isinstance(value, Mapping) and value.get("match"):
        value = value["match"]
    if not isinstance(value, str):
        value = json.dumps(plain(value), ensure_ascii=False, default=str)
    text = bounded(value.rstrip(), limit)
    return element("pre", text, tabindex="0") if "\n" in text else element("code", text)


def files(story: Story) -> Markup | None:
    """What the run's folder keeps beside the pictures, to be opened where the page is on the same machine."""
    found = kept(story.folder)
    if not found:
        return None
    rows = [
        element("div", element("dt", what), element("dd", element("a", str(path), href=path.as_uri())))
        for what, path in found.items()
    ]
    return element("section", element("h2", "Files"), element("dl", *rows, class_="pairs"))


def sensing(story: Story) -> Markup:
    """State reads by rung, and what else the run cost."""
    cost = story.telemetry
    total = sum(cost.reads.values())
    spent = {kind: sum(getattr(step, kind) for step in cost.steps) for kind in ("waiting", "acting", "held")}
    facts: Mapping[str, str] = {
        **{kind.capitalize(): duration(seconds) for kind, seconds in spent.items()},
        "Cheap resolves": f"{cost.cheap_resolves} of {total} state reads ({cost.cheap_share:.1%})",
        "Vision calls": str(cost.vision_calls),
        "Retries": str(cost.retries),
        "Keys put right": str(cost.corrections),
        "Escalations": _counts(cost.escalations.items()) or "none",
    }
    pairs: list[Child] = [
        element("div", element("dt", key), element("dd", value)) for key, value in facts.items()
    ]
    return element(
        "section",
        element("h2", "Sensing"),
        element(
            "div",
            element("dl", *pairs, class_="pairs"),
            _rungs(cost.reads.most_common(), total),
            class_="columns",
        ),
    )


def _rungs(reads: Iterable[tuple[str, int]], total: int) -> Markup | None:
    if not total:
        return None
    rows = [
        element(
            "tr",
            element("th", "unknown" if rung == "none" else rung, scope="row"),
            element("td", str(count)),
            element("td", _share(count / total)),
        )
        for rung, count in reads
    ]
    heads = element("tr", *(element("th", words, scope="col") for words in ("Rung", "Reads", "Share")))
    return element("table", element("thead", heads), element("tbody", *rows))


def _share(share: float) -> Markup:
    width = f"{share * 100:.2f}%"
    bar = element("rect", class_="waiting", x="0", width=width, height="100%")
    return element("svg", bar, class_="bar", role="img", aria_label=f"{share:.0%}")


def _counts(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in counts)
