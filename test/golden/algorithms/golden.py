"""Golden numbers for src/training, from the published formulae, in float64.

    python -m venv /tmp/golden && /tmp/golden/bin/pip install numpy
    /tmp/golden/bin/python test/golden/algorithms/golden.py > test/golden/algorithms/golden.json

Written apart from the TypeScript and in another form: padded matrices with a mask, where the TypeScript has lists of
trained tokens. Gradients are by complex step: the derivative of f at x is Im f(x + ih) / h, exact to rounding. What a
formula holds constant (a detached ratio) is computed once, from the real point, and passed in.
"""

import json
import sys

import numpy as np

rng = np.random.default_rng(20240917)
golden = {}
H = 1e-30


# ---------------------------------------------------------------- advantages

N, T = 9, 7
MASK = (rng.random((N, T)) < 0.7).astype(float)
MASK[:, 2] = 1.0  # nobody is empty
GROUP = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2])
REWARD = np.round(rng.normal(0.4, 0.7, N), 3)
REWARD[1] = 0.0
REWARDS = {"correct": np.round(rng.random(N), 3), "format": np.round(rng.random(N), 3)}
VALUES = np.round(rng.normal(0, 1, (N, T)), 3)
LOGP = -np.round(rng.random((N, T)) * 2 + 0.05, 3)
SQUARES = np.round(0.2 + 0.6 * rng.random((N, T)), 3)
BASELINE = np.round(rng.random(N), 3)
TURNS = np.cumsum(rng.random((N, T)) < 0.4, axis=1) + 1
TURN_REWARD = np.round(rng.normal(0, 0.3, (N, T)), 3)  # used where a turn ends

LAST = np.array([np.flatnonzero(m)[-1] for m in MASK])
OUTCOME = np.zeros((N, T))
OUTCOME[np.arange(N), LAST] = REWARD


def masked_mean(x, m):
    return (x * m).sum() / m.sum()


def whiten(x, m):
    mu = masked_mean(x, m)
    n = m.sum()
    var = masked_mean((x - mu) ** 2, m) * n / (n - 1)
    return (x - mu) / np.sqrt(var + 1e-8)


def by_group(f):
    out = np.zeros(N)
    for g in set(GROUP):
        rows = np.flatnonzero(GROUP == g)
        out[rows] = f(rows)
    return out


def grpo(r, std=True):
    return by_group(lambda rows: (r[rows] - r[rows].mean()) / ((r[rows].std(ddof=1) + 1e-6) if std else 1))


def returns_to_go(rewards, m, gamma):
    out = np.zeros_like(rewards)
    for i in range(N):
        run = 0.0
        for t in reversed(range(T)):
            g = rewards[i, t] + gamma * run
            out[i, t] = g * m[i, t]
            run = g if m[i, t] else run
    return out


def gae(gamma, lam):
    adv = np.zeros((N, T))
    for i in range(N):
        nxt, last = 0.0, 0.0
        for t in reversed(range(T)):
            delta = OUTCOME[i, t] + gamma * nxt - VALUES[i, t]
            a = delta + gamma * lam * last
            nxt = VALUES[i, t] if MASK[i, t] else nxt
            last = a if MASK[i, t] else last
            adv[i, t] = last
    return whiten(adv, MASK), adv + VALUES


def pass_at_k(std):
    def f(rows):
        r = REWARD[rows]
        out = np.zeros(len(rows))
        order = np.argsort(r)[::-1]
        out[order[0]] = (r[order[0]] - r[order[1]]) / ((r.std(ddof=1) + 1e-6) if std else 1)
        return out

    return by_group(f)


def opo(rows):
    length = MASK[rows].sum(1)
    return REWARD[rows] - (length * REWARD[rows]).sum() / length.sum()


def rloo(rows):
    r = REWARD[rows]
    return np.array([x - (r.sum() - x) / (len(r) - 1) for x in r])  # against the mean of the others


def otb():
    g = returns_to_go(OUTCOME, MASK, 1.0)
    out = np.zeros((N, T))
    for grp in set(GROUP):
        rows = np.flatnonzero(GROUP == grp)
        packed = []
        for i in rows:
            keep = MASK[i] > 0
            w = np.cumsum((1 - 2 * np.exp(LOGP[i]) + SQUARES[i])[keep])
            packed.append((g[i][keep], w))
        length = max(len(w) for _, w in packed)
        for t in range(length):
            alive = [k for k in range(len(rows)) if t < len(packed[k][1])]
            b = 0.0
            if len(alive) > 1:
                b = sum(packed[k][0][t] * packed[k][1][t] for k in alive) / (
                    sum(packed[k][1][t] for k in alive) + 1e-8
                )
            for k in alive:
                i = rows[k]
                out[i, np.flatnonzero(MASK[i])[t]] = packed[k][0][t] - b
    return out


def turn_rewards():
    """Per row: {turn: reward}, from turn rewards placed on the last trained token of a turn, plus the outcome."""
    placed = np.zeros((N, T))
    for i in range(N):
        for turn in set(TURNS[i][MASK[i] > 0]):
            end = [t for t in range(T) if MASK[i, t] and TURNS[i, t] == turn][-1]
            placed[i, end] = TURN_REWARD[i, end]
    return placed


PLACED = turn_rewards()


def turn_grpo(gamma, compare, std):
    total = PLACED + OUTCOME
    out = np.zeros((N, T))
    for grp in set(GROUP):
        rows = np.flatnonzero(GROUP == grp)
        ret = {}
        for i in rows:
            turns = sorted(set(TURNS[i][MASK[i] > 0]))
            sums = [sum(total[i, t] for t in range(T) if MASK[i, t] and TURNS[i, t] == k) for k in turns]
            for j, k in enumerate(turns):
                ret[i, k] = sum(gamma**d * sums[j + d] for d in range(len(turns) - j))
        for (i, k), value in ret.items():
            pool = [v for (_, k2), v in ret.items() if k2 == k] if compare == "turn" else list(ret.values())
            if len(pool) < 2:
                pool = list(ret.values())
            a = (value - np.mean(pool)) / ((np.std(pool, ddof=1) + 1e-6) if std else 1)
            out[i, (TURNS[i] == k) & (MASK[i] > 0)] = a
    return out


def process_grpo():
    total = PLACED + OUTCOME
    out = np.zeros((N, T))
    for grp in set(GROUP):
        rows = np.flatnonzero(GROUP == grp)
        sums = {}
        for i in rows:
            for k in set(TURNS[i][MASK[i] > 0]):
                sums[i, k] = sum(total[i, t] for t in range(T) if MASK[i, t] and TURNS[i, t] == k)
        pool = np.array(list(sums.values()))
        for i in rows:
            for t in range(T):
                if MASK[i, t]:
                    later = [v for (j, k), v in sums.items() if j == i and k >= TURNS[i, t]]
                    out[i, t] = sum((v - pool.mean()) / (pool.std(ddof=1) + 1e-6) for v in later)
    return out


def rows_of(x):
    x = np.broadcast_to(np.asarray(x, float), (N, T)) if np.ndim(x) == 2 else np.repeat(np.asarray(x)[:, None], T, 1)
    return [[float(v) for v in x[i][MASK[i] > 0]] for i in range(N)]


gae_adv, gae_ret = gae(0.9, 0.95)
alpha = N / max((REWARD != 0).sum(), 1)
rpp = returns_to_go(OUTCOME, MASK, 0.8)
golden["advantages"] = {
    "input": {
        "group": GROUP.tolist(),
        "reward": REWARD.tolist(),
        "rewards": {k: v.tolist() for k, v in REWARDS.items()},
        "baseline": BASELINE.tolist(),
        "values": rows_of(VALUES),
        "logprobs": rows_of(LOGP),
        "sumSquares": rows_of(SQUARES),
        "turns": [[int(v) for v in TURNS[i][MASK[i] > 0]] for i in range(N)],
        "turnRewards": rows_of(PLACED),
    },
    "expected": {
        "grpo": rows_of(grpo(REWARD)),
        "grpo without std": rows_of(grpo(REWARD, False)),
        "rloo": rows_of(by_group(rloo)),
        "opo": rows_of(by_group(opo)),
        "gpg": rows_of(alpha * grpo(REWARD, False) / 1.5),
        "pass@k": rows_of(pass_at_k(True)),
        "pass@k without std": rows_of(pass_at_k(False)),
        "gdpo": rows_of(
            whiten(np.repeat((2 * grpo(REWARDS["correct"]) + 0.5 * grpo(REWARDS["format"]))[:, None], T, 1), MASK)
        ),
        "reinforce++": rows_of(whiten(rpp, MASK)),
        "reinforce++-baseline": rows_of(whiten(np.repeat(grpo(REWARD, False)[:, None], T, 1), MASK)),
        "remax": rows_of(returns_to_go(OUTCOME, MASK, 1.0) - BASELINE[:, None]),
        "gae": rows_of(gae_adv),
        "gae returns": rows_of(gae_ret),
        "optimal-token-baseline": rows_of(otb()),
        "turn-grpo turn": rows_of(turn_grpo(0.9, "turn", True)),
        "turn-grpo group": rows_of(turn_grpo(0.9, "group", False)),
        "process-grpo": rows_of(process_grpo()),
    },
}

# ---------------------------------------------------------------- losses, with gradients by complex step

L = 6
OLD = -np.round(rng.random((4, L)) * 2 + 2.1, 3)
NEW = OLD + np.round(rng.normal(0, 0.35, (4, L)), 3)
NEW[0, 1] = OLD[0, 1] + 1.8  # runs away upward
NEW[1, 2] = OLD[1, 2] - 25.0  # beyond the clamp
ADV = np.round(rng.normal(0, 1, (4, L)), 3)
ADV[2, :] = ADV[2, 0]
ADV[3, :] = -abs(ADV[3, 0])
NEW[3, 0] = OLD[3, 0] + 1.7


def cmax(a, b):
    return np.where(np.real(a) >= np.real(b), a, b)


def cmin(a, b):
    return np.where(np.real(a) <= np.real(b), a, b)


def cclip(x, lo, hi):
    return np.where(np.real(x) < lo, lo, np.where(np.real(x) > hi, hi, x))


def ratio(lp, old):
    return np.exp(cclip(lp - old, -20.0, 20.0))


def clip_loss(lp, old, a, const, lo=0.2, hi=0.28, c=3.0):
    r = ratio(lp, old)
    one = cmax(-a * r, -a * cclip(r, 1 - lo, 1 + hi))
    return np.where(a < 0, cmin(one, -a * c + 0j), one)


def plain_clip(lp, old, a, const, lo=0.2, hi=0.2):
    r = ratio(lp, old)
    return cmax(-a * r, -a * cclip(r, 1 - lo, 1 + hi))


def gspo_loss(lp, old, a, const, lo=0.1, hi=0.15):
    s = np.exp(cmin(np.mean(lp - old), 10.0 + 0j))
    return cmax(-a * s, -a * cclip(s, 1 - lo, 1 + hi))


def gmpo_loss(lp, old, a, const, lo=0.2, hi=0.3):
    sg = np.sign(a)
    k = lp - old
    kept = sg * cmin(sg * k, sg * cclip(k, -lo, hi))
    return np.broadcast_to(-a.mean() * np.exp(np.mean(kept)), lp.shape)


def cispo_loss(lp, old, a, const, lo=0.2, hi=0.28):
    return -np.clip(np.real(ratio(const, old)), 1 - lo, 1 + hi) * a * lp


def sapo_loss(lp, old, a, const, pos=1.0, neg=1.05):
    tau = np.where(a > 0, pos, neg)
    return -a * (4 / tau) / (1 + np.exp(-tau * (ratio(lp, old) - 1)))


def reinforce_loss(lp, old, a, const):
    return -lp * a


def dro_loss(lp, old, a, const, beta=0.3):
    return -(lp * a - beta / 2 * (lp - old) ** 2)


def dppo_loss(lp, old, a, const, kind, lo=0.1, hi=0.05, cap=1.5):
    p, q = np.exp(const), np.exp(old)
    kl = q * (old - const) + (1 - q) * np.log((1 - q + 1e-8) / (1 - p + 1e-8))
    if kind == "tv":
        valid = np.where(a > 0, p - q <= hi, p - q >= -lo)
    else:
        valid = np.where(a > 0, (kl <= hi) | (p <= q), (kl <= lo) | (p >= q))
    return -a * np.minimum(np.real(ratio(const, old)), cap) * lp * valid


def gradient(f, lp, old, a):
    """Of the sum over tokens; for sequence losses meant to be averaged over tokens the sum is the same thing."""
    g = np.zeros(L)
    for t in range(L):
        z = lp.astype(complex)
        z[t] += 1j * H
        g[t] = np.sum(np.imag(f(z, old, a, lp))) / H
    return g


LOSSES = {
    "clip": clip_loss,
    "clip without dual": plain_clip,
    "gspo": gspo_loss,
    "gmpo": gmpo_loss,
    "cispo": cispo_loss,
    "sapo": sapo_loss,
    "reinforce": reinforce_loss,
    "dro": dro_loss,
    "dppo tv": lambda *x: dppo_loss(*x, "tv"),
    "dppo kl": lambda *x: dppo_loss(*x, "kl"),
}
cases = {}
for name, f in LOSSES.items():
    # A ratio of a whole sequence has a gradient per token that is the published one only if the advantage is one
    # number per sequence, as it is for the algorithms that use it.
    uniform = name in ("gspo", "gmpo")
    cases[name] = []
    for i in range(4):
        a = np.full(L, ADV[i, 0]) if uniform else ADV[i]
        if uniform and i == 1:
            continue  # the runaway token would drown the mean
        cases[name].append(
            {
                "logprobs": NEW[i].tolist(),
                "old": OLD[i].tolist(),
                "advantages": a.tolist(),
                "loss": np.real(f(NEW[i].astype(complex), OLD[i], a, NEW[i])).tolist(),
                "gradient": gradient(f, NEW[i], OLD[i], a).tolist(),
            }
        )
golden["losses"] = cases

# The choice of KL-Cov, and its loss.
cov = (ADV - ADV.mean()) * (NEW - NEW.mean())
count = max(1, int(0.1 * ADV.size))
top = np.argsort(-cov.ravel())[:count]
picked = np.zeros(ADV.size, int)
picked[top] = 1
picked = picked.reshape(ADV.shape)


def kl_cov(lp, old, a, const, mark, coef=0.7):
    k = cclip(lp - old, -20.0, 20.0)
    return -a * np.exp(k) + coef * mark * k * np.sign(np.real(k))


golden["klCov"] = {
    "logprobs": NEW.tolist(),
    "old": OLD.tolist(),
    "advantages": ADV.tolist(),
    "fraction": 0.1,
    "coefficient": 0.7,
    "picked": picked.tolist(),
    "loss": [np.real(kl_cov(NEW[i].astype(complex), OLD[i], ADV[i], NEW[i], picked[i])).tolist() for i in range(4)],
    "gradient": [
        gradient(lambda z, o, a, c, i=i: kl_cov(z, o, a, c, picked[i]), NEW[i], OLD[i], ADV[i]).tolist()
        for i in range(4)
    ],
}
eligible = (cov > 0.05) & (cov < 5)
r = np.exp(np.clip(NEW - OLD, -20, 20))
eligible &= ~(-ADV * np.clip(r, 0.8, 1.2) > -ADV * r)
golden["clipCov"] = {"fraction": 0.1, "covariance": [0.05, 5], "count": count, "eligible": eligible.astype(int).tolist()}

# ---------------------------------------------------------------- value loss

V, VO, R = (np.round(rng.normal(0, 1, 8), 3) for _ in range(3))


def value_loss(v, clip):
    bounded = cclip(v, VO - clip, VO + clip) if clip > 0 else v
    return 0.5 * cmax((v - R) ** 2, (bounded - R) ** 2)


def value_gradient(clip):
    g = np.zeros(8)
    for t in range(8):
        z = V.astype(complex)
        z[t] += 1j * H
        g[t] = np.imag(value_loss(z, clip).sum()) / H
    return g.tolist()


golden["value"] = {
    "values": V.tolist(),
    "old": VO.tolist(),
    "returns": R.tolist(),
    "clip 0.5": {"loss": np.real(value_loss(V.astype(complex), 0.5)).tolist(), "gradient": value_gradient(0.5)},
    "clip 0": {"loss": np.real(value_loss(V.astype(complex), 0)).tolist(), "gradient": value_gradient(0)},
}

# ---------------------------------------------------------------- KL

LP = np.array([-1.0, -2.0, -0.5, -30.0, -0.2, -3.1])
REF = np.array([-1.5, -1.0, -0.5, -2.0, -0.9, -2.7])


def k3(lp):
    y = cclip(REF - lp, -20.0, 20.0)
    return cclip(np.exp(y) - y - 1, -10.0, 10.0)


KLS = {
    "k1": lambda lp: lp - REF,
    "k2": lambda lp: (lp - REF) ** 2 / 2,
    "k3": k3,
    "abs": lambda lp: (lp - REF) * np.sign(np.real(lp - REF)),
}
kl = {}
for name, f in KLS.items():
    g = np.zeros(len(LP))
    for t in range(len(LP)):
        z = LP.astype(complex)
        z[t] += 1j * H
        g[t] = np.imag(f(z).sum()) / H
    kl[name] = {"value": np.real(f(LP.astype(complex))).tolist(), "gradient": g.tolist()}
kl["k1+"] = {"value": kl["k1"]["value"], "gradient": kl["k2"]["gradient"]}
kl["k3+"] = {"value": kl["k3"]["value"], "gradient": kl["k2"]["gradient"]}
golden["kl"] = {"logprobs": LP.tolist(), "reference": REF.tolist(), "expected": kl}

# ---------------------------------------------------------------- off-policy correction

OLDC = -np.round(rng.random((5, 4)) + 0.2, 3)
ROLL = OLDC - np.round(rng.normal(0, 0.5, (5, 4)), 3)
ell = OLDC - ROLL
stat = {"k1": -ell, "k2": ell**2 / 2, "k3": np.exp(ell) - 1 - ell}
low, high = 0.7, 1.6


def within(x, k):
    return (x >= np.log(low)) & (x <= np.log(high)) if k == "k1" else x <= 0.1


rejected = {}
for k in ("k1", "k2", "k3"):
    rejected[f"token-{k}"] = within(stat[k], k).astype(int).tolist()
    for how, fold in (("sum", np.sum), ("mean", np.mean)):
        rejected[f"sequence-{how}-{k}"] = np.repeat(within(fold(stat[k], axis=1), k)[:, None], 4, 1).astype(int).tolist()
    if k != "k1":
        rejected[f"sequence-max-{k}"] = np.repeat(within(stat[k].max(1), k)[:, None], 4, 1).astype(int).tolist()
w = np.exp(ell)
ws = np.repeat(np.exp(ell.sum(1))[:, None], 4, 1)
golden["correction"] = {
    "old": OLDC.tolist(),
    "rollout": ROLL.tolist(),
    "bounds": {"k1": [low, high], "k2": [0, 0.1], "k3": [0, 0.1]},
    "token truncate 1.5": np.minimum(w, 1.5).tolist(),
    "sequence truncate 1.5": np.minimum(ws, 1.5).tolist(),
    "token mask 0.7 1.6": np.where((w >= low) & (w <= high), w, 0).tolist(),
    "token truncate 1.5 normalized": (np.minimum(w, 1.5) / np.minimum(w, 1.5).mean()).tolist(),
    "sequence truncate 1.5 normalized": (np.minimum(ws, 1.5) / np.minimum(ws[:, 0], 1.5).mean()).tolist(),
    "keep": rejected,
    "gap": {
        "training/rollout_probs_diff_mean": float(np.abs(np.exp(OLDC) - np.exp(ROLL)).mean()),
        "training/rollout_probs_diff_max": float(np.abs(np.exp(OLDC) - np.exp(ROLL)).max()),
        "training/rollout_probs_diff_std": float(np.abs(np.exp(OLDC) - np.exp(ROLL)).std(ddof=1)),
        "training/rollout_actor_probs_pearson_corr": float(
            np.corrcoef(np.exp(OLDC).ravel(), np.exp(ROLL).ravel())[0, 1]
        ),
        "rollout_corr/kl": float((ROLL - OLDC).mean()),
        "rollout_corr/k3_kl": float((np.exp(ell) - 1 - ell).mean()),
        "rollout_corr/training_ppl": float(np.exp(-OLDC.mean(1)).mean()),
        "rollout_corr/rollout_ppl": float(np.exp(-ROLL.mean(1)).mean()),
        "rollout_corr/log_ppl_diff": float((ROLL.mean(1) - OLDC.mean(1)).mean()),
        "rollout_corr/log_ppl_abs_diff": float(np.abs(ROLL.mean(1) - OLDC.mean(1)).mean()),
        "rollout_corr/ppl_ratio": float(np.exp(ROLL.mean(1) - OLDC.mean(1)).mean()),
        "rollout_corr/chi2_token": float((w**2).mean() - 1),
        "rollout_corr/chi2_seq": float(np.exp(2 * ell.sum(1)).mean() - 1),
    },
}

sections = (f"{json.dumps(name)}: {json.dumps(part)}" for name, part in golden.items())
sys.stdout.write("{\n" + ",\n".join(sections) + "\n}\n")
