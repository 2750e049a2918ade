//! Both directions of a task, and a cycle check: an answer is coherent if it is right and leads back to the question.
//!
//! **What it does.** Samples `rollout.group_size` rollouts of each task, and as many of the task turned round with its
//! right answer stated. The final answer of every success is then put into the other direction, which the same policy
//! answers greedily: if that gives back what was known, the cycle closes. One group holds the rollouts of both
//! directions, and their reward is coherence, in place of the environment's own.
//!
//! **Formula.** With `rev(x, a)` the task `x` turned round with the answer `a` stated, `a*` its right answer and `u`
//! what turning it round masks:
//!
//! ```text
//! y_1..y_K ~ π(·|x)        y_{K+1}..y_{2K} ~ π(·|rev(x, a*))
//! coherent(y) = [y is right] · [greedy π(·|rev(x, answer of y)) gives u]
//! reward(y) = coherent(y)           (+ the environment's own, with keep_rewards)
//! ```
//!
//! Only successes are followed up; nothing else can be coherent. Equal follow-ups of a group are played once. They are
//! not trained on and not in the journal, but their tokens count as sampled.
//!
//! **Reduces to.** No plan, for `reverse = false` and `cycle = false`: the same samples to the bit. With `reverse`, the
//! forward rollouts are the same as without a plan, to the bit.
//!
//! **Differs from the paper.** There the pairs are made before training; here they are the policy's own, step by step.
//!
//! **Reconstructed.** The data construction, from RevThink and FOBAR: who samples the candidates, what is coherent and
//! how the cycle is checked.
//!
//! **References.** DGPO: Directional-Groupwise Preference Optimization 2026, arXiv:2605.10863. RevThink:
//! arXiv:2411.19865. FOBAR: arXiv:2308.07758.

use std::collections::BTreeSet;
use std::sync::Arc;

use burnish_core::{RECOVERED, Task, Verdict};
use serde::{Deserialize, Serialize};

use burnish_rl::fact::{COUNTERPART, Need};
use burnish_rl::plan::{Group, PlanError, Program, Request, Role, RolloutPlan, Spawned};
use burnish_rl::{Card, Check, Family, Part, SettingError};

use crate::{Evidence, PartRef, Status, System};

/// Both directions of a task. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dgpo {
    /// Is the task also played turned round? Default: true.
    pub reverse: bool,
    /// Must the cycle close? Otherwise every success is coherent. Default: true.
    pub cycle: bool,
    /// Does the environment's own reward count beside coherence? Default: false.
    pub keep_rewards: bool,
}

impl Default for Dgpo {
    fn default() -> Self {
        Dgpo { reverse: true, cycle: true, keep_rewards: false }
    }
}

impl Part for Dgpo {
    const CARD: Card = Card {
        id: "dgpo",
        title: "DGPO: both directions of a task, and a cycle check",
        family: Family::Plan,
        paper: "DGPO 2026, arXiv:2605.10863",
        equation: "coherent(y) = [y is right]·[greedy π(·|rev(x, answer of y)) gives what rev masks]",
        scope: "group",
        check: Check::Oracle("none: what is sampled is checked by policies whose answers are known"),
        reconstructed: Some("the data construction and the cycle check"),
        reduces_to: &["no plan, for reverse = false and cycle = false, to the bit"],
        file: "systems/dgpo/mod.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        Ok(())
    }
}

/// The reward component of an answer that is right and leads back.
pub const COHERENT: &str = "coherent";

/// The flag of an answer that leads back.
const CLOSES: &str = "cycle";

impl RolloutPlan for Dgpo {
    fn needs(&self) -> Vec<Need> {
        if self.reverse || self.cycle { Need::all(&[&COUNTERPART]) } else { Vec::new() }
    }

    fn play<'a>(&'a self, group: &'a Group<'a>) -> Program<'a> {
        Box::pin(async {
            let mut requests = vec![Request::rollouts(group.rollouts)];
            if self.reverse {
                let task = Some(group.counterpart()?);
                requests.push(Request { role: Role::Turned, task, ..Request::rollouts(group.rollouts) });
            }
            group.play(requests).await?;
            let closing = if self.cycle { closing(group).await? } else { BTreeSet::new() };
            for (at, own) in scored(group).into_iter().filter(|_| self.judges()) {
                let mut verdict = own;
                if !self.keep_rewards {
                    verdict.rewards.clear();
                }
                let closes = self.cycle.then(|| closing.contains(&at));
                if let Some(closes) = closes {
                    verdict.flags.insert(CLOSES.into(), closes);
                }
                let is_coherent = verdict.success && closes.unwrap_or(true);
                if verdict.rewards.insert(COHERENT.into(), f64::from(is_coherent)).is_some() {
                    let problem =
                        format!("must be false: the environment gives a reward `{COHERENT}` itself");
                    return Err(SettingError::new("config.keep_rewards", problem).into());
                }
                group.judge(at, verdict);
            }
            Ok(())
        })
    }

    fn group_size(&self, rollouts: usize) -> usize {
        rollouts * (1 + usize::from(self.reverse))
    }

    fn judges(&self) -> bool {
        self.reverse || self.cycle
    }

    fn components(&self) -> &'static [&'static str] {
        if self.judges() { &[COHERENT] } else { &[] }
    }

    /// Shares; one of nothing is left out.
    fn tally(&self, groups: &[&[Spawned]]) -> Vec<(String, f64)> {
        if !self.judges() {
            return Vec::new();
        }
        let (mut scored, mut successes, mut coherent) = ([0_usize; 2], [0_usize; 2], 0_usize);
        let (mut checked, mut closed) = (0_usize, 0_usize);
        let members = groups.iter().copied().flatten().filter(|own| own.role.is_member());
        for Spawned { role, episode, .. } in members {
            let verdict = &episode.verdict;
            if !verdict.is_scored() {
                continue;
            }
            let direction = usize::from(*role == Role::Turned);
            scored[direction] += 1;
            coherent += usize::from(verdict.rewards.get(COHERENT) == Some(&1.0));
            if verdict.success {
                successes[direction] += 1;
                checked += usize::from(self.cycle);
                closed += usize::from(verdict.flags.get(CLOSES) == Some(&true));
            }
        }
        let shares = [
            ("plan/coherent", coherent, scored[0] + scored[1]),
            ("plan/cycle_consistency", closed, checked),
            ("plan/forward_success", successes[0], scored[0]),
            ("plan/reverse_success", successes[1], scored[1]),
        ];
        let seen = shares.into_iter().filter(|(_, _, all)| *all > 0);
        seen.map(|(name, some, all)| (name.to_owned(), some as f64 / all as f64)).collect()
    }
}

/// The cycle check alone, for answers that have been played: it says which of them lead back, and changes no reward.
#[derive(Debug, Clone, Copy, Default)]
pub struct CycleCheck;

impl RolloutPlan for CycleCheck {
    fn needs(&self) -> Vec<Need> {
        Need::all(&[&COUNTERPART])
    }

    fn play<'a>(&'a self, group: &'a Group<'a>) -> Program<'a> {
        Box::pin(async {
            let closing = closing(group).await?;
            for (at, mut verdict) in scored(group) {
                verdict.flags.insert(CLOSES.into(), closing.contains(&at));
                group.judge(at, verdict);
            }
            Ok(())
        })
    }
}

/// The members that were judged, by their places.
fn scored(group: &Group<'_>) -> Vec<(usize, Verdict)> {
    let episodes = group.episodes();
    let members = episodes.iter().enumerate().filter(|(_, own)| own.role.is_member());
    let scored = members.filter(|(_, own)| own.episode.verdict.is_scored());
    scored.map(|(at, own)| (at, own.episode.verdict.clone())).collect()
}

/// The successes whose cycle closes: the other direction of each, built from its answer, is answered greedily, and the
/// answer gives back what was known. Answers that lead to the same task share its answer.
async fn closing(group: &Group<'_>) -> Result<BTreeSet<usize>, PlanError> {
    let mut checks: Vec<(Arc<Task>, Vec<usize>)> = Vec::new();
    let successes: Vec<usize> =
        scored(group).into_iter().filter(|(_, verdict)| verdict.success).map(|(at, _)| at).collect();
    for at in successes {
        let Some(task) = group.reversed(at) else { continue };
        match checks.iter_mut().find(|(other, _)| *other == task) {
            Some((_, of)) => of.push(at),
            None => checks.push((task, vec![at])),
        }
    }
    let check = |task: &Arc<Task>| Request {
        role: Role::Check,
        task: Some(Arc::clone(task)),
        ..Request::rollouts(1)
    };
    let answers = group.play(checks.iter().map(|(task, _)| check(task))).await?;
    let closes = |at: usize| {
        let verdict = &group.episode(at).verdict;
        verdict.is_scored() && verdict.flags.get(RECOVERED) == Some(&true)
    };
    Ok(checks.into_iter().zip(answers).filter(|(_, at)| closes(*at)).flat_map(|((_, of), _)| of).collect())
}

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "dgpo",
    title: "DGPO: groups of forward and reverse answers, preferred by coherence",
    paper: "Directional-Groupwise Preference Optimization, arXiv:2605.10863",
    evidence: Evidence::Abstract,
    reconstructed: &["the loss, from SimPO's margin and InfoNCE", "how reverse instances are made"],
    parts: &[
        PartRef { family: Family::Plan, id: "dgpo" },
        PartRef { family: Family::Preference, id: "dgpo" },
    ],
    uses: &[],
    environments: &["chains"],
    recipe: Some("systems/dgpo/recipe.toml"),
    set: &[],
    study: Some("systems/dgpo/study.toml"),
    results: &["systems/dgpo/results.md"],
    reduces_to: &[
        "SimPO, for one right and one wrong answer of one direction",
        "DPO, with log-ratios, a temperature of 1 and no margin",
    ],
    run: None,
    status: Status::Runs,
};

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
