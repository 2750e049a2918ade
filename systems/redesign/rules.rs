//! Engineers that follow a rule: what they say is a proposal in the form that models are asked for.

use burnish_core::knob::{Harder, Knob, KnobKind};
use burnish_core::rng::Stream;
use burnish_reason::design::{Breakdown, Design, short};
use serde_json::{Map, Value, json};

use super::Rule;

/// Nobody: the environment stays as it is.
pub(super) fn identity() -> String {
    proposal("The environment stays as it is.", Vec::new())
}

/// Chance: each key gets a value of its menu, all equally likely.
pub(super) fn random(design: &Design, seed: u64) -> String {
    let mut stream = Stream::new(seed);
    let mut values = Vec::new();
    for knob in &design.knobs {
        values.push((knob, knob.menu[stream.index(knob.menu.len())]));
    }
    proposal("Every value was drawn.", values)
}

impl Rule {
    /// A curriculum: of each share, `shift` goes to the next harder one; other keys move `places` in their menus.
    pub(super) fn monotone(&self, design: &Design) -> String {
        let present = design.present();
        let mut values: Vec<(&Knob, f64)> = Vec::new();
        for (at, (knob, value)) in present.iter().enumerate() {
            if knob.kind != KnobKind::Share {
                values.extend(knob.moved(*value, self.places as i64).map(|moved| (*knob, moved)));
                continue;
            }
            if knob.harder == Harder::Unknown {
                continue;
            }
            let is_own = |other: &&(&Knob, f64)| other.0.kind == KnobKind::Share && other.0.of == knob.of;
            let easier = present[..at].iter().rev().find(is_own).map_or(0.0, |(_, share)| *share);
            let is_hardest = !present[at + 1..].iter().any(|other| is_own(&other));
            let stays = if is_hardest { *value } else { value * (1.0 - self.shift) };
            values.push((knob, stays + easier * self.shift));
        }
        proposal("Everything becomes harder.", values)
    }

    /// Shares move to tasks that are solved sometimes; other keys follow what is solved often or rarely. A key stays whose
    /// tasks are not among those that are held out: there is no evidence.
    pub(super) fn failure_guided(&self, design: &Design) -> String {
        let (present, breakdown) = (design.present(), &design.round.evaluation);
        let (mut values, mut reasons) = (self.shares(&present, breakdown), Vec::new());
        for (knob, value) in &present {
            let Some(solved) = solved(breakdown, knob) else { continue };
            if knob.kind == KnobKind::Share {
                if values.iter().any(|(other, _)| other.key == knob.key) {
                    reasons.push(format!("{} is solved at a rate of {}", knob.key, short(solved)));
                }
                continue;
            }
            let places = self.places as i64;
            let (places, what) = match solved {
                solved if solved > self.high => (places, "often: harder"),
                solved if solved < self.low => (-places, "rarely: easier"),
                _ => continue,
            };
            if let Some(moved) = knob.moved(*value, places).filter(|moved| moved != value) {
                reasons.push(format!("{} is solved {what} ({})", knob.key, short(solved)));
                values.push((*knob, moved));
            }
        }
        let reason =
            if reasons.is_empty() { "Nothing speaks for a change".to_owned() } else { reasons.join("; ") };
        proposal(&format!("{reason}."), values)
    }

    /// The shares that are known to be solved at some rate, moved. Those of which nothing is known keep theirs.
    fn shares<'a>(&self, present: &[(&'a Knob, f64)], breakdown: &Breakdown) -> Vec<(&'a Knob, f64)> {
        let mut values = Vec::new();
        let shares = present.iter().filter(|(knob, _)| knob.kind == KnobKind::Share);
        let known: Vec<(&Knob, f64, f64)> = shares
            .filter_map(|(knob, share)| {
                let solved = solved(breakdown, knob)?;
                Some((*knob, *share, solved * (1.0 - solved) + self.floor))
            })
            .collect();
        for (knob, share, weight) in &known {
            let own = || known.iter().filter(|(other, ..)| other.of == knob.of);
            let (shares, weights): (f64, f64) = own()
                .fold((0.0, 0.0), |(shares, weights), (_, share, weight)| (shares + share, weights + weight));
            let target = shares * weight / weights;
            values.push((*knob, (1.0 - self.shift) * share + self.shift * target));
        }
        values
    }
}

/// How often the tasks are solved on which a key acts.
fn solved(breakdown: &Breakdown, knob: &Knob) -> Option<f64> {
    breakdown.at(&knob.tasks)?.solved()
}

fn proposal(reason: &str, values: Vec<(&Knob, f64)>) -> String {
    let config: Map<String, Value> =
        values.into_iter().map(|(knob, value)| (knob.key.clone(), Value::from(value))).collect();
    json!({ "reason": reason, "config": config }).to_string()
}
