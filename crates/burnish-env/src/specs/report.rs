//! Pools of cases, and how a specification came out on them.

use serde::{Deserialize, Serialize};

/// What a case belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pool {
    /// Valid inputs, which `preconditions` must accept.
    PosPre,
    /// Invalid inputs, which it must reject.
    NegPre,
    /// Valid inputs with a right output, which `postconditions` must accept.
    PosPost,
    /// Valid inputs with an output that is nearly right, which it must reject.
    NegHard,
    /// Valid inputs with an unrelated output, which it must reject.
    NegRandom,
}

impl Pool {
    /// Every pool, in the order of reports.
    pub const ALL: [Pool; 5] = [Pool::PosPre, Pool::NegPre, Pool::PosPost, Pool::NegHard, Pool::NegRandom];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Pool::PosPre => "pos_pre",
            Pool::NegPre => "neg_pre",
            Pool::PosPost => "pos_post",
            Pool::NegHard => "neg_hard",
            Pool::NegRandom => "neg_random",
        }
    }

    /// Whether its cases must be accepted.
    pub fn is_positive(self) -> bool {
        matches!(self, Pool::PosPre | Pool::PosPost)
    }

    /// The function that its cases call.
    pub fn function(self) -> &'static str {
        match self {
            Pool::PosPre | Pool::NegPre => "preconditions",
            Pool::PosPost | Pool::NegHard | Pool::NegRandom => "postconditions",
        }
    }
}

/// The cases of a task. A case is the arguments of one call as Python writes them (`[1, 2], 3`); those of
/// `postconditions` end with the output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cases {
    /// Valid inputs.
    pub pos_pre: Vec<String>,
    /// Invalid inputs.
    pub neg_pre: Vec<String>,
    /// Valid inputs with a right output.
    pub pos_post: Vec<String>,
    /// Valid inputs with an output that is nearly right.
    pub neg_hard: Vec<String>,
    /// Valid inputs with an unrelated output.
    pub neg_random: Vec<String>,
}

impl Cases {
    /// The cases of a pool.
    pub fn of(&self, pool: Pool) -> &[String] {
        match pool {
            Pool::PosPre => &self.pos_pre,
            Pool::NegPre => &self.neg_pre,
            Pool::PosPost => &self.pos_post,
            Pool::NegHard => &self.neg_hard,
            Pool::NegRandom => &self.neg_random,
        }
    }
}

/// How the cases of one pool came out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolReport {
    /// Cases of the pool.
    pub of: usize,
    /// Cases that came out as they must, in both runs.
    pub right: usize,
    /// Cases that took too long, in one run or both.
    pub hung: usize,
    /// Cases whose process ended otherwise than by accepting or rejecting, in one run or both.
    pub ended: usize,
    /// Cases that were not run, because too many hung before.
    pub unrun: usize,
    /// Cases that were rejected by another exception than an `AssertionError`.
    pub crashed: usize,
}

impl PoolReport {
    /// Whether there are cases and all came out as they must. An empty pool shows nothing, so it does not hold.
    pub fn holds(&self) -> bool {
        self.of > 0 && self.right == self.of
    }

    /// Share of cases that came out as they must; 0 for an empty pool.
    pub fn share(&self) -> f64 {
        if self.of == 0 { 0.0 } else { self.right as f64 / self.of as f64 }
    }
}

/// What became of a specification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// One per pool, in the order of [`Pool::ALL`].
    pub pools: [PoolReport; 5],
    /// A case was accepted in one run and rejected in the other.
    pub is_nondeterministic: bool,
    /// The first thing that was wrong.
    pub feedback: Option<String>,
}

impl Report {
    /// How a pool came out.
    pub fn pool(&self, pool: Pool) -> &PoolReport {
        &self.pools[pool as usize]
    }

    /// Whether everything valid is accepted.
    pub fn is_correct(&self) -> bool {
        self.pool(Pool::PosPre).holds() && self.pool(Pool::PosPost).holds()
    }

    /// Whether everything invalid is rejected.
    pub fn is_complete(&self) -> bool {
        [Pool::NegPre, Pool::NegHard, Pool::NegRandom].iter().all(|&pool| self.pool(pool).holds())
    }

    /// Share of the pools that hold.
    pub fn score(&self) -> f64 {
        self.pools.iter().filter(|pool| pool.holds()).count() as f64 / self.pools.len() as f64
    }

    /// How well valid is told from invalid: for each of the two functions, the share of positive cases accepted plus
    /// the share of negative cases rejected minus 1 (Youden's J), at least 0; then the mean. A function that says the
    /// same of everything gets 0.
    pub fn told_apart(&self) -> f64 {
        let share = |pool| self.pool(pool).share();
        let of = |positive: f64, negative: f64| (positive + negative - 1.0).max(0.0);
        let after = (share(Pool::NegHard) + share(Pool::NegRandom)) / 2.0;
        (of(share(Pool::PosPre), share(Pool::NegPre)) + of(share(Pool::PosPost), after)) / 2.0
    }

    /// Cases that took too long.
    pub fn hung(&self) -> usize {
        self.pools.iter().map(|pool| pool.hung).sum()
    }
}
