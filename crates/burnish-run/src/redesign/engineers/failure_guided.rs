//! A rule that reads the failures. *Reconstructed*: "From Trainee to Trainer" (arXiv 2606.17682) asks models; what a rule
//! would do instead is ours.
//!
//! - Shares move towards tasks that are solved sometimes: with the rate `p` of the tasks of a share, its weight is
//!   `p (1 - p) + floor`, the variance of a success plus what keeps the others alive, and the share becomes
//!   `(1 - shift) share + shift weight / sum of weights`.
//! - Any other key moves `places` in its menu towards what is harder if the tasks on which it acts are solved more often
//!   than `high`, and towards what is easier if they are solved less often than `low`.
//!
//! A key whose tasks are not among those that are held out stays: there is no evidence.

use burnish_env::redesign::{Knob, KnobKind};
use burnish_recipe::RuleSection;

use super::proposal;
use crate::RunError;
use crate::redesign::short;
use crate::redesign::{Breakdown, Brief, Engineer};

pub(super) struct FailureGuided {
    pub(super) rule: RuleSection,
}

impl Engineer for FailureGuided {
    fn propose(&mut self, brief: &Brief<'_>, _: usize) -> Result<String, RunError> {
        let missing = || RunError::Refused("redesign.without: this engineer reads the breakdown".to_owned());
        let breakdown = brief.context.breakdown.as_ref().ok_or_else(missing)?;
        let present = brief.context.present();
        let (mut values, mut reasons) = (self.shares(&present, breakdown), Vec::new());
        for (knob, value) in &present {
            let Some(solved) = solved(breakdown, knob) else { continue };
            if knob.kind == KnobKind::Share {
                if values.iter().any(|(other, _)| other.key == knob.key) {
                    reasons.push(format!("{} is solved at a rate of {}", knob.key, short(solved)));
                }
                continue;
            }
            let places = self.rule.places as i64;
            let (places, what) = match solved {
                solved if solved > self.rule.high => (places, "often: harder"),
                solved if solved < self.rule.low => (-places, "rarely: easier"),
                _ => continue,
            };
            if let Some(moved) = knob.moved(*value, places).filter(|moved| moved != value) {
                reasons.push(format!("{} is solved {what} ({})", knob.key, short(solved)));
                values.push((*knob, moved));
            }
        }
        let reason =
            if reasons.is_empty() { "Nothing speaks for a change".to_owned() } else { reasons.join("; ") };
        Ok(proposal(&format!("{reason}."), values))
    }
}

impl FailureGuided {
    /// The shares that are known to be solved at some rate, moved. Those of which nothing is known keep theirs.
    fn shares<'a>(&self, present: &[(&'a Knob, f64)], breakdown: &Breakdown) -> Vec<(&'a Knob, f64)> {
        let mut values = Vec::new();
        let shares = present.iter().filter(|(knob, _)| knob.kind == KnobKind::Share);
        let known: Vec<(&Knob, f64, f64)> = shares
            .filter_map(|(knob, share)| {
                let solved = solved(breakdown, knob)?;
                Some((*knob, *share, solved * (1.0 - solved) + self.rule.floor))
            })
            .collect();
        for (knob, share, weight) in &known {
            let own = || known.iter().filter(|(other, ..)| other.of == knob.of);
            let (shares, weights): (f64, f64) = own()
                .fold((0.0, 0.0), |(shares, weights), (_, share, weight)| (shares + share, weights + weight));
            let target = shares * weight / weights;
            values.push((*knob, (1.0 - self.rule.shift) * share + self.rule.shift * target));
        }
        values
    }
}

/// How often the tasks are solved on which a key acts.
fn solved(breakdown: &Breakdown, knob: &Knob) -> Option<f64> {
    breakdown.at(&knob.tasks)?.solved()
}
