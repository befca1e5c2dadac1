"""The report's sections, one function each, in the order in which they are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import yaml

from cribbage_env.engine import (
    CRIB_PART,
    HAND_DEALER_PART,
    HAND_PONE_PART,
    HEELS_PART,
    PLAY_DEALER_PART,
    PLAY_PONE_PART,
)
from cribbage_env.rules import Rules
from experiments.config import MADE_WITH
from experiments.tournament.comparisons import shown_rate
from experiments.tournament.html_report.charts import (
    axis_around,
    axis_of_most,
    difference_panel,
    stacked_row,
    win_rate_panel,
)
from experiments.tournament.html_report.markup import Child, Markup, element, join
from experiments.tournament.html_report.parts import (
    NOTHING,
    breakable,
    details,
    figure,
    interval,
    interval_list,
    labels,
    mean,
    percent,
    plain,
    portable,
    rate,
    scrolling,
    short_label,
    table,
    versus,
)
from experiments.tournament.html_report.results import MOST_DRAWN, MatchResults, TournamentResults
from experiments.tournament.identity import noted_config
from experiments.tournament.plan import entrant_names, matches_of
from experiments.tournament.ratings_file import anchor_of
from experiments.tournament.statistics import (
    ConfidenceSequence,
    Estimate,
    anytime_bounds,
    anytime_interval,
    elo,
    elo_difference,
)
from experiments.tournament.summary import AGENTS, A, MatchSummary

_DEALER = (
    ("heels", HEELS_PART), ("play", PLAY_DEALER_PART), ("hand", HAND_DEALER_PART), ("crib", CRIB_PART)
)  # fmt: skip
_PONE = (("play", PLAY_PONE_PART), ("hand", HAND_PONE_PART))
_STAR = "*"


class Sections:
    """The sections of a report.

    Args:
        results: what they tell of.
    """

    def __init__(self, results: TournamentResults) -> None:
        self._results = results
        self._config = results.config
        self._names = entrant_names(results.config.agents)
        self._labels = labels(self._names)
        self._order = results.order()
        self._place = {name: place for place, name in enumerate(self._order, 1)}
        self._comparisons = results.comparisons()
        self._by_names = {one.summary.names: one for one in results.matches}
        self._drawn = results.drawn()
        self._anchor = anchor_of(results.ratings)

    def all(self) -> list[tuple[str, str, Markup]]:
        """The sections as (id, title, content)."""
        sections: tuple[tuple[str, str, Callable[[], Child]], ...] = (
            ("win-rates", "Win rates", self._win_rates),
            ("ratings", "Ratings", self._ratings),
            ("points", "Points a deal", self._points),
            ("differences", "Score differences", self._differences),
            ("course", "Win rate over games played", self._course),
            ("first-dealer", "First dealer", self._first_dealer),
            ("skunks", "Skunks and length of games", self._skunks),
            ("luck", "Luck, early stops, forfeits", self._luck),
            ("made-with", "How to repeat it", self._made_with),
        )
        return [(id_, title, join(content())) for id_, title, content in sections]

    # The head

    def head(self) -> Child:
        """What was played, and what came out, in short."""
        results, config = self._results, self._config
        played, planned = results.games, sum(match.games for match in matches_of(config))
        games = f"{played:,} games"
        if played < planned and config.sprt is None:
            games += f" (so far, of {planned:,})"
        elif played < planned:
            games += f" (of {planned:,} at most)"
        rules = Rules(**config.rules.model_dump())
        lines = [
            f"{word} below {line}"
            for word, line in (("skunk", rules.skunk), ("double skunk", rules.double_skunk))
            if line
        ]
        share = "" if config.shard is None else f", share {config.shard} of every match"
        facts = (
            ("Agents", f"{len(self._names)}"),
            ("Matches", f"{len(results.matches)}"),
            ("Games", games + share),
            ("Rules", f"six-card cribbage to {rules.target}" + "".join(f", {line}" for line in lines)),
            ("Seed", f"{config.seed}"),
        )
        return [
            element("dl", [element("div", element("dt", name), element("dd", value)) for name, value in facts],
                    class_="facts"),
            element("p", self._in_short(), class_="in-short"),
            self._agents(),
            element(
                "p",
                "Every game seed is played twice with the seats swapped, so that both agents get the same cards: a pair. "
                "Pairs are the samples of all statistics. Square brackets and ± give 95 % confidence intervals, each for "
                f"itself unless something else is said; {_STAR} marks what is significant at 5 % over all matches "
                "together.",
                class_="note",
            ),
        ]  # fmt: skip

    def _in_short(self) -> Child:
        clear = sum(one.clear for one in self._comparisons)
        count = len(self._comparisons)
        if count == 1:
            summary = self._results.matches[0].summary
            a, b = self._two(summary)
            verdict = "a significant difference" if clear else "no significant difference"
            return [
                element("strong", a), " wins ", rate(shown_rate(summary, self._config)), " of the games against ",
                element("strong", b), f": {verdict}.",
            ]  # fmt: skip
        best: list[Child] = []
        if self._results.ratings:
            top = self._results.ratings[0]
            best = [element("strong", self._labels[top.name]), " is rated highest"]
            if top.name != self._anchor:
                best += [", ", figure(top.rating, 0), f" Elo points above {self._labels[self._anchor]}"]
            best.append(". ")
        return [best, f"{clear} of {count} matches tell their agents apart after correction for {count} comparisons."]

    def _agents(self) -> Markup:
        rows: list[list[Child]] = []
        means = {name: self._mean_rate(name) for name in self._order}
        entrants = dict(zip(self._names, self._config.agents, strict=True))
        for name in [*self._order, *(name for name in self._names if name not in self._place)]:
            played = sum(one.summary.games for one in self._results.matches if name in one.summary.names)
            spec = portable(entrants[name].spec)
            described: list[Child] = breakable(self._labels[name])
            if spec != self._labels[name]:
                described += [" ", element("small", spec, class_="spec")]
            rows.append([described, f"{self._place.get(name, '')}", f"{played:,}", percent(means.get(name, math.nan))])
        return table("The agents, the best first", ["agent", "place", "games", "mean win rate"], rows, None)

    # 1

    def _win_rates(self) -> Child:
        several = len(self._order) > 2
        parts: list[Child] = []
        if self._config.sprt is not None:
            parts.append(
                _paragraph(
                    "A sequential test ended matches early. A match that stops when it looks decided looks more decided "
                    "than it is, so the rates in this section are corrected for that; see “Luck, early stops, forfeits”."
                )
            )
        if several:
            parts += [self._cross_table(), self._legend()]
        parts.append(self._match_table())
        if self._config.sprt is None:
            test = (
                "p: of the hypothesis that both agents win half of the games (score test on pairs)"
                + (f", adjusted for {len(self._comparisons)} comparisons after Holm." if several else ".")
            )  # fmt: skip
        else:
            test = (
                f"{_STAR} where the confidence sequence at 1 − 5 % / {len(self._comparisons)} leaves 50 % out, which holds "
                "whenever a match stops."
            )
        parts.append(
            _note(
                "A wins: the share of all games, with Tango's score interval over pairs. Elo: the same rate as a rating "
                f"difference, 400 log₁₀(rate / (1 − rate)). {test}"
            )
        )
        return parts

    def _cross_table(self) -> Markup:
        """Everyone against everyone as a heat map."""
        head = [
            element("th", element("span", "row wins against column"), scope="col"),
            *(
                element(
                    "th",
                    element("b", f"{self._place[name]}"),
                    element("span", short_label(self._labels[name]), class_="wide"),
                    scope="col",
                    title=self._labels[name],
                )
                for name in self._order
            ),
        ]
        lines = []
        for name in self._order:
            cells = [self._cross_cell(name, other) for other in self._order]
            row = element("th", element("b", f"{self._place[name]}"), " ", breakable(self._labels[name]), scope="row")
            lines.append(element("tr", row, cells))
        caption = "Win rate of the row's agent against the column's, with its 95 % interval"
        inside = element("table", element("caption", caption), element("thead", element("tr", head)),
                         element("tbody", lines), class_="heat")  # fmt: skip
        return scrolling(inside, caption)

    def _cross_cell(self, name: str, other: str) -> Markup:
        one, turned = self._by_names.get((name, other)), False
        if one is None:
            one, turned = self._by_names.get((other, name)), True
        if one is None:
            return element("td", "" if name == other else NOTHING, class_="none")
        estimate = shown_rate(one.summary, self._config)
        if turned:
            estimate = Estimate(1 - estimate.value, 1 - estimate.high, 1 - estimate.low)
        clear = self._comparisons[list(self._results.matches).index(one)].clear
        distance = abs(2 * estimate.value - 1)
        share = f"--share: {100 * math.sqrt(distance):.0f}%"
        return element(
            "td",
            element("b", f"{100 * estimate.value:.1f}", _STAR if clear else None),
            " ",
            element("small", f"{100 * estimate.low:.1f}–"),
            element("small", f"{100 * estimate.high:.1f}"),
            class_="win" if estimate.value >= 0.5 else "loss",
            style=share,
            title=f"{self._labels[name]} against {self._labels[other]}",
        )

    def _legend(self) -> Markup:
        shares = (0.0, 0.25, 0.45, 0.5, 0.55, 0.75, 1.0)
        swatches = [
            element("span", f"{100 * share:.0f} %", class_="win" if share >= 0.5 else "loss",
                    style=f"--share: {100 * math.sqrt(abs(2 * share - 1)):.0f}%")
            for share in shares
        ]  # fmt: skip
        return element("p", swatches, f" In per cent of the games. {_STAR} significant after correction for "
                       f"{len(self._comparisons)} comparisons.", class_="legend heat-legend")  # fmt: skip

    def _match_table(self) -> Markup:
        adjusted = any(_has_luck(summary) for summary in self._results.summaries)
        tested = self._config.sprt is None
        head = ["match (A – B)", "games", "A wins", *(["luck taken out"] if adjusted else []), "Elo",
                "pairs 2–0, 1–1, 0–2", "p" if tested else "clear"]  # fmt: skip
        rows: list[list[Child]] = []
        for one, comparison in zip(self._results.matches, self._comparisons, strict=True):
            summary = one.summary
            estimate = shown_rate(summary, self._config)
            difference = elo_difference(*summary.pair_outcomes) if tested else _as_elo(estimate)
            rows.append(
                [
                    self._versus(summary),
                    f"{summary.games:,}",
                    rate(estimate),
                    *([rate(summary.adjusted_win_rate)] if adjusted else []),
                    figure(difference, 0),
                    [element("span", f"{n:,}", class_="count") for n in summary.pair_outcomes],
                    (_p_value(comparison.p_value) if tested else "") + (_STAR if comparison.clear else ""),
                ]
            )
        return table("Every match: how many of the games A won", head, rows)

    # 2

    def _ratings(self) -> Child:
        ratings = self._results.ratings
        if not ratings:
            return _paragraph(
                "The matches that were played so far do not connect all agents, so ratings can't be told."
            )
        anchor = self._anchor
        axis = axis_of_most([one.rating for one in ratings], 40)
        outside = any(not axis.low <= one.rating.value <= axis.high for one in ratings)
        rows = [
            (
                self._labels[one.name],
                one.rating,
                "0 (anchor)" if one.name == anchor else figure(one.rating, 0),
            )
            for one in ratings
        ]
        biased = " Matches that a sequential test has ended exaggerate differences, and so do these ratings."
        return [
            interval_list(rows, axis, 0.0, "Elo"),
            _note(
                "Bradley–Terry model by maximum likelihood, on the Elo scale: 100 points more win 64 % of the games, 10 "
                f"points 51.4 %. {self._labels[anchor]} is the anchor, 0 by definition; the others' intervals are of the "
                "difference from it, by a bootstrap over pairs (ratings.csv). Another anchor: anchor: NAME in the config."
                + (" An arrow: outside the picture." if outside else "")
                + ("" if self._config.sprt is None else biased)
            ),
        ]

    # 3

    def _points(self) -> Child:
        totals = [
            total(agent).value
            for one in self._results.matches
            for agent in AGENTS
            for total in (one.summary.dealer_points, one.summary.pone_points)
        ]
        if all(math.isnan(total) for total in totals):
            return _paragraph(
                "No deals could be counted: points a deal are means over deals that begin with both scores at least 50 "
                "below the target, since the end of a game cuts deals off."
            )
        longest = 1.02 * max(total for total in totals if not math.isnan(total))
        blocks: list[Child] = []
        for name in self._order:
            rows = []
            for one, agent in self._matches_of(name, self._drawn):
                summary = one.summary
                bars = [
                    element(
                        "span",
                        element("span", f"as {role} ", class_="role"),
                        stacked_row([(part, f"part-{part}", summary.points(agent, i).value) for part, i in parts], longest),
                        element("span", mean(total(agent)), class_="value"),
                        class_="bar",
                    )
                    for role, parts, total in (
                        ("dealer", _DEALER, summary.dealer_points), ("pone", _PONE, summary.pone_points)
                    )
                ]  # fmt: skip
                opponent = self._labels[summary.names[1 - agent]]
                rows.append(element("li", element("span", "against ", opponent, class_="name"), bars))
            if rows:
                blocks += [element("h3", self._labels[name]), element("ul", rows, class_="rows two-bars")]
        swatches = [element("span", part, class_=f"part-{part}") for part, _ in _DEALER]
        return [
            element("p", swatches, class_="legend"),
            self._only_some(),
            blocks,
            details("All figures as a table", self._points_table()),
            _note(
                "Mean points in a whole deal, by where they are scored: heels (a jack turned up, dealer only), the play, the "
                "hand and, for the dealer, the crib; ± is half the 95 % interval. Means are over the deals that began with "
                "both scores at least 50 below the target, which no end of a game cuts off. Intervals of the parts are in "
                "summary.csv."
            ),
        ]

    def _points_table(self) -> Markup:
        head = [
            "agent",
            "against",
            "as dealer",
            *(name for name, _ in _DEALER),
            "as pone",
            *(name for name, _ in _PONE),
        ]
        rows: list[list[Child]] = []
        for name in self._order:
            for one, agent in self._matches_of(name, self._results.matches):
                summary = one.summary
                rows.append(
                    [
                        self._labels[name],
                        element("span", self._labels[summary.names[1 - agent]], class_="names"),
                        mean(summary.dealer_points(agent)),
                        *(plain(summary.points(agent, part).value) for _, part in _DEALER),
                        mean(summary.pone_points(agent)),
                        *(plain(summary.points(agent, part).value) for _, part in _PONE),
                    ]
                )
        return table("Mean points in a whole deal", head, rows)

    # 4

    def _differences(self) -> Child:
        rules = Rules(**self._config.rules.model_dump())
        lines = (rules.skunk, rules.double_skunk)
        cards = []
        for one in self._drawn:
            a, b = self._two(one.summary)
            average, spread = _mean_and_spread(one.course.differences)
            words = (
                f"{a} wins {percent(one.summary.win_rate.value)}; mean difference {plain(average, 1)} points, "
                f"standard deviation {plain(spread, 1)}"
            )
            cards.append(
                _card(
                    self._versus(one.summary),
                    difference_panel(one.course, lines, f"Score differences of {a} (A) and {b} (B): {words}"),
                    f"A minus B: mean {plain(average, 1)}, standard deviation {plain(spread, 1)}",
                )
            )
        skunks = [
            element("span", word, class_=f"win-a level-{level}")
            for level, (word, line) in enumerate(
                (("plain", rules.target), ("skunk", rules.skunk), ("double skunk", rules.double_skunk))
            )
            if line is not None
        ]
        return [
            self._only_some(),
            element("p", element("span", "B wins", class_="win-b level-0"), element("span", "A wins", class_="win-a level-0"),
                    "darker: ", skunks, class_="legend"),
            element("div", cards, class_="cards"),
            _note("The share of games by the difference of the final scores."),
        ]  # fmt: skip

    # 5

    def _course(self) -> Child:
        cards = []
        for one in self._drawn:
            a, b = self._two(one.summary)
            counts = one.course.counts
            pairs = counts.sum(axis=1)
            low, high = anytime_bounds(counts)
            rates = counts @ np.array([1.0, 0.5, 0.0]) / pairs
            final, always = one.summary.win_rate, anytime_interval(*one.summary.pair_outcomes)
            words = f"after {one.summary.games:,} games {percent(final.value)}"
            cards.append(
                _card(
                    self._versus(one.summary),
                    win_rate_panel(
                        ConfidenceSequence(pairs, rates, low, high), final, f"Win rate of {a} against {b}: {words}"
                    ),
                    ["A wins ", rate(final), ", at all times ", interval(always)],
                )
            )
        return [
            self._only_some(),
            element("div", cards, class_="cards"),
            _note(
                "The curve is A's win rate so far, on a logarithmic scale of games. The band is its 95 % confidence "
                "sequence: with 95 % confidence the true rate lies inside it everywhere, so it may be read at any moment, also "
                "by who stops as soon as they like it. It is wider than the interval at the right end, which holds only for a "
                "number of games that was fixed before."
            ),
        ]

    # 6

    def _first_dealer(self) -> Child:
        matches = self._results.matches
        estimates = [one.summary.first_dealer_rate for one in matches]
        axis = axis_around([*(value for one in estimates for value in one), 0.5], 0.04, (0.0, 1.0))
        rows = [
            (self._versus(one.summary), estimate, rate(estimate))
            for one, estimate in zip(matches, estimates, strict=True)
        ]
        return [
            interval_list(rows, axis, 0.5, "%"),
            _note(
                "The share of games that the agent won which dealt first. In every pair both agents deal first once, so this "
                "advantage favours nobody in the other figures."
            ),
        ]

    # 7

    def _skunks(self) -> Child:
        rows: list[list[Child]] = []
        for one in self._results.matches:
            summary = one.summary
            rows.append(
                [
                    self._versus(summary),
                    *(_share(summary.skunks(agent), summary.games, 1) for agent in AGENTS),
                    *(_share(summary.double_skunks(agent), summary.games, 2) for agent in AGENTS),
                    mean(summary.deals_per_game),
                ]
            )
        head = ["match (A – B)", "skunks by A", "skunks by B", "double by A", "double by B", "deals a game"]
        return [
            table("Skunks and double skunks, in per cent of all games of the match", head, rows),
            _note(
                "Skunks include double skunks. Deals a game include the last one, which the end of the game cuts off."
            ),
        ]

    # 8

    def _luck(self) -> Child:
        parts: list[Child] = [element("h3", "Luck taken out")]
        with_luck = [one for one in self._results.matches if _has_luck(one.summary)]
        if with_luck:
            rows: list[list[Child]] = []
            for one in with_luck:
                summary = one.summary
                reduction = summary.variance_reduction
                rows.append(
                    [
                        self._versus(summary),
                        rate(summary.win_rate),
                        rate(summary.adjusted_win_rate),
                        plain(summary.luck_coefficient),
                        NOTHING if math.isnan(reduction) else f"{reduction:.2f} ×",
                    ]
                )
            head = ["match (A – B)", "A wins, plain", "luck taken out", "coefficient", "worth"]
            parts += [
                table("A's win rate before and after chance is taken out", head, rows),
                _note(
                    "What the cards gave each agent is estimated from chance events alone (the cards dealt, the starter), has "
                    "a mean of exactly zero by construction, and is subtracted with the coefficient shown: both rates estimate "
                    "the same, the second with a smaller variance. Worth: the variance of the plain rate divided by that of the "
                    "adjusted one, so many times the games would be needed without. It is most for close opponents and about 1 "
                    "against a much weaker one."
                ),
            ]
        else:
            parts.append(_paragraph("The luck of these games was not noted (luck: false in the config)."))
        parts += [element("h3", "Early stops"), self._early_stops(), element("h3", "Forfeits"), self._forfeits()]
        return parts

    def _early_stops(self) -> Child:
        if self._config.sprt is None:
            return _paragraph(
                "There was no sequential test: every match has the number of games that was fixed before."
            )
        test = self._config.sprt.test()
        rows: list[list[Child]] = []
        for one in self._results.matches:
            state = test.state(one.summary.pair_outcomes)
            rows.append(
                [
                    self._versus(one.summary),
                    f"{one.summary.pairs:,}",
                    plain(state.llr),
                    "undecided" if state.decision == "continue" else state.decision,
                    rate(one.summary.win_rate),
                    rate(test.estimate(one.summary.pair_outcomes)),
                    rate(anytime_interval(*one.summary.pair_outcomes)),
                ]
            )
        head = ["match (A – B)", "pairs", "log-likelihood ratio", "SPRT", "A wins, plain", "corrected", "any stopping"]
        hypotheses = [f"A wins {100 * one:.2f} % (Elo {plain(elo(one), 1)})" for one in (test.rate0, test.rate1)]
        return [
            table("Where the sequential test stands", head, rows),
            _note(
                f"SPRT of H0: {hypotheses[0]}, against H1: {hypotheses[1]}; alpha {test.alpha:g}, beta {test.beta:g}, looked at "
                f"every {test.check_every:,} pairs. H0 is accepted at a log-likelihood ratio of {plain(test.lower)}, H1 at "
                f"{plain(test.upper)}. Plain: biased in matches that were stopped, with an interval that is too short. "
                "Corrected: median-unbiased for this test. Any stopping: a confidence sequence, which holds whenever and for "
                "whatever reason a match stops."
            ),
        ]

    def _forfeits(self) -> Child:
        items = [
            element("li", element("strong", self._labels[one.summary.names[agent]]),
                    f" lost {one.summary.forfeits(agent):,} of {one.summary.games:,} games by illegal actions against ",
                    self._labels[one.summary.names[1 - agent]])
            for one in self._results.matches
            for agent in AGENTS
            if one.summary.forfeits(agent)
        ]  # fmt: skip
        return element("ul", items) if items else _paragraph("No game was lost by an illegal action.")

    # 9

    def _made_with(self) -> Child:
        config = yaml.safe_load(noted_config(self._config, {}))
        del config[MADE_WITH]
        for entrant in config["agents"]:
            entrant["spec"] = portable(entrant["spec"])
        config["modules"] = [portable(module) for module in config["modules"]]
        made = {key: value for key, value in self._results.made.items() if key not in ("files", "results")}
        files = self._results.made.get("files") or {}
        commands = (
            "cribbage tournament config.yaml --output FOLDER   # plays it again, the same games\n"
            "cribbage report FOLDER                            # makes this page and ratings.csv from the games"
        )
        parts: list[Child] = [
            element("pre", element("code", commands), tabindex="0"),
            element("h3", "config.yaml"),
            element("pre", element("code", yaml.safe_dump(config, sort_keys=False, allow_unicode=True)), tabindex="0"),
            element("h3", "Versions"),
            table("What it was played with", ["what", "version"],
                  [[name.replace("_", " "), _fact(value)] for name, value in made.items()], "versions"),
        ]  # fmt: skip
        if files:
            rows = [[portable(path), element("code", digest)] for path, digest in files.items()]
            parts += [
                element("h3", "Files"),
                table("Checkpoints and modules, with their SHA-256", ["file", "SHA-256"], rows, "versions"),
            ]
        return parts

    # Helpers

    def _two(self, summary: MatchSummary) -> tuple[str, str]:
        a, b = summary.names
        return self._labels[a], self._labels[b]

    def _versus(self, summary: MatchSummary) -> Markup:
        return versus(*self._two(summary))

    def _matches_of(self, name: str, matches: Sequence[MatchResults]) -> list[tuple[MatchResults, int]]:
        """An agent's matches, its best opponents first, with whether it is A or B in them."""
        own = [(one, one.summary.names.index(name)) for one in matches if name in one.summary.names]
        return sorted(own, key=lambda item: self._place[item[0].summary.names[1 - item[1]]])

    def _mean_rate(self, name: str) -> float:
        rates = [
            value if agent == A else 1 - value
            for one, agent in self._matches_of(name, self._results.matches)
            for value in [shown_rate(one.summary, self._config).value]
        ]
        return sum(rates) / len(rates)

    def _only_some(self) -> Child:
        left = len(self._results.matches) - len(self._drawn)
        if not left:
            return None
        return _paragraph(
            f"Of {len(self._results.matches)} matches the {MOST_DRAWN} closest are drawn; the files have all of them."
        )


def _paragraph(text: Child) -> Markup:
    return element("p", text)


def _note(text: Child) -> Markup:
    return element("p", text, class_="note")


def _card(title: Child, chart: Markup, caption: Child) -> Markup:
    return element("figure", element("h3", title), chart, element("figcaption", caption), class_="card")


def _has_luck(summary: MatchSummary) -> bool:
    return not math.isnan(summary.adjusted_win_rate.value)


def _as_elo(estimate: Estimate) -> Estimate:
    return Estimate(*(elo(min(1.0, max(0.0, one))) for one in estimate))


def _p_value(value: float) -> str:
    return "<\u00a00.0001" if value < 0.0001 else f"{value:.4f}"


def _share(count: int, games: int, decimals: int) -> str:
    return percent(count / games, decimals)


def _fact(value: object) -> str:
    return {"True": "yes", "False": "no"}.get(str(value), str(value))


def _mean_and_spread(differences: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation of score differences, from their counts."""
    target = len(differences) // 2
    values = np.arange(-target, target + 1)
    total = int(differences.sum())
    average = float(differences @ values) / total
    return average, math.sqrt(max(0.0, float(differences @ values**2) / total - average**2))
