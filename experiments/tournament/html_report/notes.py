"""What the report says about its figures: how they were computed, and how they are to be read."""

PAIRS = (
    "Every game seed is played twice with the seats swapped, so that both agents get the same cards: a pair. Pairs "
    "are the samples of all statistics. Square brackets and ± give 95 % confidence intervals, each for itself unless "
    "something else is said; * marks what is significant at 5 % over all matches together."
)
STOPPED = (
    "A sequential test ended matches early. A match that stops when it looks decided looks more decided than it is, "
    "so the rates in this section are corrected for that; see “Luck, early stops, forfeits”."
)
WIN_RATES = (
    "A wins: the share of all games, with Tango's score interval over pairs. Elo: the same rate as a rating "
    "difference, 400 log₁₀(rate / (1 − rate)). p: of the hypothesis that both agents win half of the games (score "
    "test on pairs)"
)
WIN_RATES_STOPPED = (
    "A wins: the share of all games, corrected for the sequential test. Elo: the same rate as a rating difference, "
    "400 log₁₀(rate / (1 − rate)). Clear: "
)
LUCK_COLUMN = " Luck taken out: see “Luck, early stops, forfeits”."
NO_RATINGS = "The matches that were played so far do not connect all agents, so ratings can't be told."
RATINGS = (
    "Bradley–Terry model by maximum likelihood, on the Elo scale: who is 100 points better wins 64 % of the games, "
    "with 10 points it is 51.4 %. Intervals are of the difference from the anchor, whose rating is 0 by definition, "
    "by a bootstrap over pairs; also in ratings.csv. For another anchor set “anchor” in the config and --resume."
)
RATINGS_OUTSIDE = " An arrow: outside the picture."
RATINGS_STOPPED = " Matches that a sequential test has ended exaggerate differences, and so do these ratings."
POINTS = (
    "Mean points in a whole deal, by where they are scored: heels (a jack turned up, dealer only), the play, the hand "
    "and, for the dealer, the crib; ± is half the 95 % interval. Means are over the deals that began with both scores "
    "at least {margin} below the target, which no end of a game cuts off. Intervals of the parts are in summary.csv."
)
NO_POINTS = (
    "No deals could be counted: points a deal are means over the deals that begin with both scores at least {margin} "
    "below the target, since the end of a game cuts deals off."
)
DIFFERENCES = "The share of games by the difference of the final scores."
COURSE = (
    "The curve is A's win rate so far, on a logarithmic scale of games. The band is its 95 % confidence sequence: "
    "with 95 % confidence the true rate lies inside it everywhere, so it may be read at any moment, also by who stops "
    "as soon as they like it. It is wider than the interval at the right end, which holds only for a number of games "
    "that was fixed before."
)
FIRST_DEALER = (
    "The share of games that the agent won which dealt first. In every pair both agents deal first once, so this "
    "advantage favours nobody in the other figures."
)
SKUNKS = "Skunks include double skunks. Deals a game include the last one, which the end of the game cuts off."
LUCK = (
    "What chance gave each agent is estimated from the cards alone (the deal, the starter) by a method that was fixed "
    "before, with a mean of exactly zero, and subtracted with the coefficient shown: both rates estimate the same, "
    "the second usually with a smaller variance. Worth: the variance of the plain rate divided by that of the "
    "adjusted one; so many times the games would be needed without. It is most for close opponents, and about 1 "
    "against much weaker ones."
)
NO_LUCK = "The luck of these games was not noted (“luck: false” in the config)."
NO_STOPS = "There was no sequential test: every match has the number of games that was fixed before."
STOPS = (
    "Plain: biased in matches that were stopped, with an interval that is too short. Corrected: median-unbiased for "
    "this test. Any stopping: a confidence sequence, which holds whenever and for whatever reason a match stops."
)
NO_FORFEITS = "No game was lost by an illegal action."
