"""The rule by which a simulated row agrees with a published one."""

from __future__ import annotations

from collections.abc import Sequence

from schedlab.statistics import Gain

AGREES = "agrees"
WITHIN_NOISE = "within noise"
DISAGREES = "disagrees"

VERDICTS = (AGREES, WITHIN_NOISE, DISAGREES)

SMALLEST_BAND_POINTS = 2.0
"""Gains this close agree however small the published noise is, points."""

SHARE_BAND_POINTS = 5.0
"""How far a simulated share of a total may lie from the published one, points."""

LARGEST_RATIO = 1.25
"""How many times the published value of a distribution the simulated one may be, or the other way round."""

GAIN_RULE = (
    "g, s: published gain and its noise, the root of the sum of squares of both printed spreads; "
    "G, [lo, hi]: simulated gain and its 95 % interval. 'within noise': |g| <= s and [lo, hi] meets [-s, s]. "
    "'agrees': G and g have the same sign, [lo, hi] does not lie on the other side of zero, and "
    "|G - g| <= max(2 s, 2 points). Otherwise 'disagrees'."
)

SHARE_RULE = (
    "Counts are compared as shares of their table's total: a row agrees if the simulated share lies within "
    "5 points of the published one under both kernels, the total if its change does."
)

RATIO_RULE = (
    "Runs that differ much are compared by their median and spread: a row agrees if the simulated value is "
    "within 1.25 times the published one, either way, under both kernels."
)


def ratio_verdict(pairs: Sequence[tuple[float, float]]) -> str:
    """`agrees` or `disagrees`: RATIO_RULE.

    Args:
        pairs: published and simulated value, under each kernel.
    """
    close = all(max(pair) <= LARGEST_RATIO * min(pair) for pair in pairs)
    return AGREES if close else DISAGREES


def verdict(
    published_gain_pct: float,
    published_noise_pct: float,
    simulated: Gain,
    shares_pct: Sequence[tuple[float, float]] | None = None,
) -> str:
    """`agrees`, `within noise` or `disagrees`: GAIN_RULE, or SHARE_RULE where shares are given.

    Args:
        published_gain_pct: g, per cent.
        published_noise_pct: s, per cent, not negative.
        simulated: G and its interval, per cent.
        shares_pct: for counts, the (published, simulated) pairs that must be close; g, s and G then only
            describe the row.
    """
    if shares_pct is not None:
        close = all(abs(simulated_pct - pct) <= SHARE_BAND_POINTS for pct, simulated_pct in shares_pct)
        return AGREES if close else DISAGREES
    g, s = published_gain_pct, published_noise_pct
    if abs(g) <= s and simulated.low <= s and simulated.high >= -s:
        return WITHIN_NOISE
    same_sign = g * simulated.pct > 0.0 or g == simulated.pct == 0.0
    beyond_zero = simulated.high < 0.0 if g > 0.0 else simulated.low > 0.0
    close = abs(simulated.pct - g) <= max(2.0 * s, SMALLEST_BAND_POINTS)
    return AGREES if same_sign and not beyond_zero and close else DISAGREES
