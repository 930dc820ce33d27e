"""Means, spreads and gains, and their intervals by bootstrap, as benchmark reports give them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

RESAMPLES = 10_000
"""Bootstrap samples of an interval."""

BLOCK_INDICES = 2**22
"""Indices drawn at a time, so that many seeds do not fill the memory."""

BOOTSTRAP_SEED = 20_200_221
"""Seed of the generator that draws them: the same data always gives the same interval."""

RATE_METRICS = frozenset({"throughput"})
"""Metrics of which more is better; they are averaged by the harmonic mean, as rates should be."""


@dataclasses.dataclass(frozen=True)
class Gain:
    """By how much b is better than a.

    Attributes:
        pct: per cent of a's mean; positive when b is better.
        low: lower end of the 95 % interval, per cent.
        high: upper end.
    """

    pct: float
    low: float
    high: float

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0.0 or self.high < 0.0


def mean(values: Floats, rate: bool, axis: int = -1) -> Floats:
    """Arithmetic mean, or for rates the harmonic one."""
    if not rate:
        return np.asarray(values.mean(axis=axis))
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / (1.0 / values).mean(axis=axis))


def median(values: Floats) -> Floats:
    """The median along the last axis."""
    return np.asarray(np.median(values, axis=-1))


def stddev(values: Floats) -> float:
    """Standard deviation of a sample; 0 for a single value."""
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def bootstrap_interval(n: int, statistic: Callable[[npt.NDArray[np.intp]], Floats]) -> tuple[float, float]:
    """The middle 95 % of a statistic over resamples of n pairs, always the same for the same data.

    Args:
        n: number of pairs.
        statistic: takes indices of shape (resamples, n), gives an array of shape (resamples,).
    """
    generator = np.random.default_rng(BOOTSTRAP_SEED)
    rows = max(1, BLOCK_INDICES // n)
    samples = [
        statistic(generator.integers(0, n, size=(min(rows, RESAMPLES - done), n)))
        for done in range(0, RESAMPLES, rows)
    ]
    low, high = np.percentile(np.concatenate(samples), [2.5, 97.5])
    return float(low), float(high)


def paired_gain(a: Floats, b: Floats, rate: bool = False) -> Gain:
    """The gain of b's mean over a's, with its interval by paired bootstrap.

    a[i] and b[i] belong to the same seed: a resample takes both or neither, so that what the seed changed in
    both cancels. With one pair the interval is the point itself.

    Args:
        a: values of the base, shape (n,).
        b: values of the other, shape (n,), in the same order of seeds.
        rate: more is better.
    """
    low, high = bootstrap_interval(
        len(a), lambda draws: gain_pct(mean(a[draws], rate), mean(b[draws], rate), rate)
    )
    return Gain(float(gain_pct(mean(a, rate), mean(b, rate), rate)), low, high)


def gain_pct(a: Floats, b: Floats, rate: bool = False) -> Floats:
    """Gain of b over a in per cent of a: the part of a time that is saved, or of a rate that is won.

    0 where a is 0 and b too; infinite where only a is.
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    change = (b - a) if rate else (a - b)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(change == 0.0, 0.0, 100.0 * change / a))
