"""Recursive least squares for five coefficients that are never negative. Knows numbers, not what they mean."""

from typing import NamedTuple

__all__ = ["Five", "NonNegativeFit"]

_KEPT = 0.99  # of what is known, with each observation: the memory of about 100
_CLIPPED_AT = 3.0  # times the usual residual
_SMOOTHING = 0.2  # of the usual residual: one outlier counts for little, ten in a row are the new usual
_FIRST_RESIDUAL, _LEAST_RESIDUAL = 0.5, 0.03
_LEAST_RATIO = 0.2  # by which all coefficients change at once
_NOTHING = 1e-12  # information as little as this is none


class Five(NamedTuple):
    """Of each feature its value, or its coefficient."""

    v0: float
    v1: float
    v2: float
    v3: float
    v4: float


class NonNegativeFit:
    """Fits y = sum of c[i] x[i] with all c[i] >= 0, so that relative errors are least; one observation at a time.

    Keeps information and not covariance: A = sum of x x', b = sum of y x, each x and y divided by what was predicted,
    and what is older counts less. The coefficients follow by one sweep of projected coordinate descent on A c = b an
    observation, after the best step along c itself (as in "dichotomous coordinate descent" for recursive least squares:
    Zakharov, White and Liu, IEEE Transactions on Signal Processing 56, 2008). Covariance would blow up under a load
    that stays the same for an hour; here what observations do not tell apart just stays as it was.
    """

    __slots__ = ("_b", "_information", "_residual", "c", "num_observed")

    def __init__(self, c: Five) -> None:
        self.c = c
        self.num_observed = 0
        self._information = (0.0,) * 15  # the upper triangle of A, row by row
        self._b = (0.0,) * 5
        self._residual = _FIRST_RESIDUAL  # the usual size of a relative one

    def predict(self, x: Five) -> float:
        x0, x1, x2, x3, x4 = x
        c0, c1, c2, c3, c4 = self.c
        return c0 * x0 + c1 * x1 + c2 * x2 + c3 * x3 + c4 * x4

    def observe(self, x: Five, y: float) -> float:
        """Both are positive. Returns y / predicted - 1, or of one far beyond what is usual, as much as was believed."""
        predicted = self.predict(x)
        if predicted <= 0.0:
            self._begin(x, y)
            return 0.0
        self.num_observed += 1
        residual = self._clipped(y / predicted - 1.0)
        self._learn(x, 1.0 + residual, 1.0 / predicted)
        self._descend()
        return residual

    def _begin(self, x: Five, y: float) -> None:
        """Let the first feature that is there explain what nothing else does."""
        name, first = next((name, each) for name, each in zip(x._fields, x, strict=True) if each > 0.0)
        self.c = self.c._replace(**{name: y / first})

    def _clipped(self, residual: float) -> float:
        bound = _CLIPPED_AT * self._residual
        clipped = min(max(residual, -bound, -0.9), bound)
        self._residual += _SMOOTHING * (abs(clipped) - self._residual)
        self._residual = max(self._residual, _LEAST_RESIDUAL)
        return clipped

    def _learn(self, x: Five, y: float, weight: float) -> None:
        """Forget a little of everything, then A += x x' and b += y x, for the weighted x."""
        a00, a01, a02, a03, a04, a11, a12, a13, a14, a22, a23, a24, a33, a34, a44 = self._information
        b0, b1, b2, b3, b4 = self._b
        x0, x1, x2, x3, x4 = x
        x0, x1, x2, x3, x4 = x0 * weight, x1 * weight, x2 * weight, x3 * weight, x4 * weight
        self._information = (
            a00 * _KEPT + x0 * x0,
            a01 * _KEPT + x0 * x1,
            a02 * _KEPT + x0 * x2,
            a03 * _KEPT + x0 * x3,
            a04 * _KEPT + x0 * x4,
            a11 * _KEPT + x1 * x1,
            a12 * _KEPT + x1 * x2,
            a13 * _KEPT + x1 * x3,
            a14 * _KEPT + x1 * x4,
            a22 * _KEPT + x2 * x2,
            a23 * _KEPT + x2 * x3,
            a24 * _KEPT + x2 * x4,
            a33 * _KEPT + x3 * x3,
            a34 * _KEPT + x3 * x4,
            a44 * _KEPT + x4 * x4,
        )
        self._b = (
            b0 * _KEPT + x0 * y,
            b1 * _KEPT + x1 * y,
            b2 * _KEPT + x2 * y,
            b3 * _KEPT + x3 * y,
            b4 * _KEPT + x4 * y,
        )

    def _descend(self) -> None:
        """Come nearer to A c = b: first all coefficients in proportion, then one after the other, none below zero."""
        a00, a01, a02, a03, a04, a11, a12, a13, a14, a22, a23, a24, a33, a34, a44 = self._information
        b0, b1, b2, b3, b4 = self._b
        c0, c1, c2, c3, c4 = self.c
        squares = a00 * c0 * c0 + a11 * c1 * c1 + a22 * c2 * c2 + a33 * c3 * c3 + a44 * c4 * c4
        products = (
            c0 * (a01 * c1 + a02 * c2 + a03 * c3 + a04 * c4)
            + c1 * (a12 * c2 + a13 * c3 + a14 * c4)
            + c2 * (a23 * c3 + a24 * c4)
            + c3 * a34 * c4
        )
        ratio = (b0 * c0 + b1 * c1 + b2 * c2 + b3 * c3 + b4 * c4) / (squares + 2.0 * products)
        ratio = min(max(ratio, _LEAST_RATIO), 1.0 / _LEAST_RATIO)
        c0, c1, c2, c3, c4 = c0 * ratio, c1 * ratio, c2 * ratio, c3 * ratio, c4 * ratio
        # What no observation has had yet keeps its coefficient.
        if a00 > _NOTHING:
            c0 = max((b0 - a01 * c1 - a02 * c2 - a03 * c3 - a04 * c4) / a00, 0.0)
        if a11 > _NOTHING:
            c1 = max((b1 - a01 * c0 - a12 * c2 - a13 * c3 - a14 * c4) / a11, 0.0)
        if a22 > _NOTHING:
            c2 = max((b2 - a02 * c0 - a12 * c1 - a23 * c3 - a24 * c4) / a22, 0.0)
        if a33 > _NOTHING:
            c3 = max((b3 - a03 * c0 - a13 * c1 - a23 * c2 - a34 * c4) / a33, 0.0)
        if a44 > _NOTHING:
            c4 = max((b4 - a04 * c0 - a14 * c1 - a24 * c2 - a34 * c3) / a44, 0.0)
        self.c = Five(c0, c1, c2, c3, c4)
