"""Max-min fair time on kinds of machines of different speed: Gavel's allocation, by an interior-point method.

Problem: jobs i, kinds of machines j with N_j machines each, machines g_i that a job holds together, its gain a_ij from
all of its time on kind j. Find the parts x_ij >= 0 of the time that maximise the least gain,

    max t   with   sum_j a_ij x_ij >= t   and   sum_j x_ij <= 1 for each i,   sum_i g_i x_ij <= N_j for each j.

Many x attain the best t. The one found is in the middle of them (the end of the central path), as with the solver that
Gavel's authors use: what capacity is left is spread over the jobs and idleness, not given to the first.

The Newton step eliminates the jobs one by one (each has a block of as many rows as there are kinds) and leaves a system
of kinds + 1, so that an iteration is linear in jobs. The answer carries its certificate: multipliers whose objective
bounds the best t from above.

Source: D. Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020,
section 4.1; S. Mehrotra, "On the Implementation of a Primal-Dual Interior Point Method" (1992).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_MOST_STEPS: Final = 80
_GAP: Final = 1e-8
"""Relative difference of both objectives at which the answer is good enough."""
_KEEP: Final = 0.99
"""Part of the way to the border that a step may go."""


@dataclass(frozen=True, slots=True)
class Shares:
    """An allocation.

    Attributes:
        time: float64[jobs, kinds], the part of the time of each job on each kind.
        least: The least gain of any job.
        bound: No allocation has a larger least gain.
    """

    time: Floats
    least: float
    bound: float


def max_min_shares(gain: Floats, machines: Floats, held: Floats) -> Shares:
    """Return the fairest allocation.

    Args:
        gain: float64[jobs, kinds] >= 0, of all of a job's time on a kind; each job gains somewhere.
        machines: float64[kinds] > 0.
        held: float64[jobs] > 0, machines that a job holds together.

    Complexity: O(jobs × kinds²) a step, 15 to 40 steps.
    Limits: gains are scaled by their largest; jobs whose gains differ by more than 1e8 lose digits.
    """
    jobs, kinds = gain.shape
    if not jobs or not kinds:
        return Shares(np.zeros((jobs, kinds)), 0.0, 0.0)
    scale = float(gain.max())
    if scale <= 0:
        return Shares(np.zeros((jobs, kinds)), 0.0, 0.0)
    return _Solver(gain / scale, machines, held).solve(scale)


class _Solver:
    """Minimises -t; slacks ``s`` and multipliers ``z`` of: x >= 0 (x), gain (u), time (v), machines (w)."""

    def __init__(self, gain: Floats, machines: Floats, held: Floats) -> None:
        self.gain, self.machines, self.held = gain, machines, held
        jobs, kinds = gain.shape
        self.x = np.full((jobs, kinds), 1.0) * np.minimum(0.5 / kinds, 0.5 * machines / held.sum())
        self.t = 0.5 * float((gain * self.x).sum(axis=1).min())
        self.z = [np.ones((jobs, kinds)), np.ones(jobs), np.ones(jobs), np.ones(kinds)]
        self.s = self._slacks()
        self.s[1] = np.maximum(self.s[1], 1e-3)

    def _slacks(self) -> list[Floats]:
        u = (self.gain * self.x).sum(axis=1) - self.t
        return [self.x.copy(), u, 1.0 - self.x.sum(axis=1), self.machines - self.held @ self.x]

    def solve(self, scale: float) -> Shares:
        count = sum(part.size for part in self.s)
        for _ in range(_MOST_STEPS):
            gap = sum(float((s * z).sum()) for s, z in zip(self.s, self.z, strict=True))
            residual = max(float(np.abs(part).max()) for part in (*self._primal(), self._dual_x(), self._dual_t()))
            if gap / count < _GAP * 0.1 and residual < _GAP:
                break
            try:
                self._step(gap / count, count)
            except np.linalg.LinAlgError:
                break  # at the border already; `bound` shows how good it is
        time = np.clip(self.x, 0.0, 1.0)
        time /= np.maximum(1.0, time.sum(axis=1, keepdims=True))
        time /= np.maximum(1.0, (self.held @ time) / self.machines)
        least = float((self.gain * time).sum(axis=1).min())
        return Shares(time, least * scale, self._bound() * scale)

    def _bound(self) -> float:
        """Return what the multipliers prove: weights of jobs that add up to 1, and prices of time and machines."""
        weights = self.z[1] / max(self.z[1].sum(), 1e-300)
        price = self.z[3] / max(self.z[1].sum(), 1e-300)
        over = (weights[:, None] * self.gain - self.held[:, None] * price).max(axis=1)
        return float(np.maximum(over, 0.0).sum() + price @ self.machines)

    # -- residuals: primal G(x, t) + s = h; dual G'z = c ---------------------------------------------------------------

    def _primal(self) -> list[Floats]:
        return [want - have for want, have in zip(self._slacks(), self.s, strict=True)]

    def _dual_x(self) -> Floats:
        zx, zu, zv, zw = self.z
        return -zx - zu[:, None] * self.gain + zv[:, None] + self.held[:, None] * zw

    def _dual_t(self) -> Floats:
        return np.array([self.z[1].sum() - 1.0])

    # -- one step ------------------------------------------------------------------------------------------------------

    def _step(self, mu: float, count: int) -> None:
        factor = self._factor()
        products = [s * z for s, z in zip(self.s, self.z, strict=True)]
        dx, dt, ds, dz = self._direction(factor, products)
        primal, dual = _longest(self.s, ds), _longest(self.z, dz)
        ahead = zip(self.s, ds, self.z, dz, strict=True)
        after = sum(float(((s + primal * a) * (z + dual * b)).sum()) for s, a, z, b in ahead) / count
        centre = (after / mu) ** 3 * mu
        corrected = [p + a * b - centre for p, a, b in zip(products, ds, dz, strict=True)]
        dx, dt, ds, dz = self._direction(factor, corrected)
        primal, dual = min(1.0, _KEEP * _longest(self.s, ds)), min(1.0, _KEEP * _longest(self.z, dz))
        self.x = self.x + primal * dx
        self.t += primal * dt
        self.s = [s + primal * a for s, a in zip(self.s, ds, strict=True)]
        self.z = [z + dual * b for z, b in zip(self.z, dz, strict=True)]

    def _factor(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the inverses of the jobs' blocks, and the system that is left."""
        wx, wu, wv, ww = (z / s for s, z in zip(self.s, self.z, strict=True))
        kinds = self.gain.shape[1]
        blocks = wu[:, None, None] * self.gain[:, :, None] * self.gain[:, None, :] + wv[:, None, None]
        blocks[:, np.arange(kinds), np.arange(kinds)] += wx
        inverse: Floats = np.asarray(np.linalg.inv(blocks), np.float64)
        link = -wu[:, None] * self.gain  # of x with t
        border = np.zeros((kinds + 1, kinds + 1))
        border[:kinds, :kinds] = np.einsum("i,ijk->jk", self.held**2, inverse) + np.diag(1.0 / ww)
        toward: Floats = np.einsum("ijk,ik->ij", inverse, link)
        border[:kinds, kinds] = self.held @ toward
        border[kinds, :kinds] = -border[:kinds, kinds]
        border[kinds, kinds] = wu.sum() - float((link * toward).sum())
        return inverse, link, toward, border

    def _direction(
        self, factor: tuple[Floats, Floats, Floats, Floats], products: list[Floats]
    ) -> tuple[Floats, float, list[Floats], list[Floats]]:
        """Return the Newton step for the complementarity that is asked for: s·dz + z·ds = -products."""
        inverse, link, toward, border = factor
        primal, kinds = self._primal(), self.gain.shape[1]
        # ds = primal + (change of slacks with x, t); dz = -(products + z ds) / s
        pull = [(-p - z * r) / s for p, z, r, s in zip(products, self.z, primal, self.s, strict=True)]
        right_x = -self._dual_x() + pull[0] + pull[1][:, None] * self.gain - pull[2][:, None]
        right_t = float(-self._dual_t()[0] - pull[1].sum())
        # machines: y = change of their multiplier = pull_w + (z/s) held'dx
        base = np.einsum("ijk,ik->ij", inverse, right_x)
        right = np.empty(kinds + 1)
        right[:kinds] = self.held @ base + pull[3] * self.s[3] / self.z[3]
        right[kinds] = right_t - float((link * base).sum())
        solved = np.linalg.solve(border, right)
        change_w, dt = solved[:kinds], float(solved[kinds])
        dx = base - np.einsum("ijk,ik->ij", inverse, self.held[:, None] * change_w[None, :]) - toward * dt
        shift = [dx, (self.gain * dx).sum(axis=1) - dt, -dx.sum(axis=1), -(self.held @ dx)]
        ds = [r + change for r, change in zip(primal, shift, strict=True)]
        dz = [(-p - z * a) / s for p, z, a, s in zip(products, self.z, ds, self.s, strict=True)]
        return dx, dt, ds, dz


def _longest(values: list[Floats], steps: list[Floats]) -> float:
    """Return how far a step may go before something is negative; 1 at most."""
    longest = 1.0
    for value, step in zip(values, steps, strict=True):
        falling = step < 0
        if falling.any():
            longest = min(longest, float((-value[falling] / step[falling]).min()))
    return longest
