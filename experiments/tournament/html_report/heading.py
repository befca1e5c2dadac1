"""The head of the report: what was played, and what came out, in short."""

from __future__ import annotations

import math

from experiments.tournament.html_report import notes
from experiments.tournament.html_report.markup import Child, Markup, element
from experiments.tournament.html_report.parts import breakable, figure, note, percent, portable, rate, table
from experiments.tournament.html_report.view import View
from experiments.tournament.plan import matches_of


def heading(view: View) -> list[Markup]:
    """All that stands above the first section."""
    return [_facts(view), element("p", _in_short(view), class_="in-short"), _agents(view), note(notes.PAIRS)]


def _facts(view: View) -> Markup:
    config, rules = view.config, view.rules
    played, planned = view.results.games, sum(match.games for match in matches_of(config))
    games = f"{played:,}"
    if played < planned:
        games += f" (of {planned:,} at most)" if view.may_stop else f" (so far, of {planned:,})"
    if config.shard is not None:
        games += f", share {config.shard} of every match"
    variant = f"six-card cribbage to {rules.target}"
    for word, line in (("skunk", rules.skunk), ("double skunk", rules.double_skunk)):
        variant += "" if line is None else f", {word} below {line}"
    facts = {
        "Agents": f"{len(view.names)}",
        "Matches": f"{len(view.matches)}",
        "Games": games,
        "Rules": variant,
        "Seed": f"{config.seed}",
    }
    items = [element("div", element("dt", name), element("dd", value)) for name, value in facts.items()]
    return element("dl", items, class_="facts")


def _in_short(view: View) -> list[Child]:
    clear, count = sum(one.clear for one in view.comparisons), len(view.comparisons)
    if count == 1:
        summary = view.matches[0].summary
        a, b = view.two(summary)
        games = [
            element("strong", a),
            " wins ",
            rate(view.rate(summary)),
            " of the games against ",
            element("strong", b),
        ]
        return [*games, ": a significant difference." if clear else ": no significant difference."]
    best: list[Child] = []
    if view.results.ratings:
        top = view.results.ratings[0]
        best = [element("strong", view.labels[top.name]), " is rated highest"]
        if top.name != view.anchor:
            best += [", ", figure(top.rating, 0), f" Elo points above {view.labels[view.anchor]}"]
        best.append(". ")
    return [*best, f"{clear} of {count} matches tell their agents apart, after correction for {count} comparisons."]


def _agents(view: View) -> Markup:
    rows: list[list[Child]] = []
    entrants = dict(zip(view.names, view.config.agents, strict=True))
    for name in [*view.order, *(name for name in view.names if name not in view.place)]:
        label, spec = view.labels[name], portable(entrants[name].spec)
        described: Child = [breakable(label), "" if spec == label else [" ", element("small", breakable(spec))]]
        played = sum(one.summary.games for one in view.matches if name in one.summary.names)
        mean = view.mean_rate(name) if name in view.place else math.nan
        rows.append([described, f"{view.place.get(name, '')}", f"{played:,}", percent(mean)])
    return table("The agents, the best first", ["agent", "place", "games", "mean win rate"], rows, None)
