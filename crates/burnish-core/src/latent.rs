//! Latent steps: positions of an answer that read the model's own hidden state instead of a token.

use serde::{Deserialize, Serialize};

use crate::SamplingError;

/// The token before a latent span.
pub const SPAN_OPEN: &str = "<swi>";
/// The token behind a latent span.
pub const SPAN_CLOSE: &str = "</swi>";
/// The id of every latent step. It marks a place and is never sampled.
pub const LATENT: &str = "<latent>";
/// The three of them, in the order in which a tokenizer gets them.
pub const LATENT_TOKENS: [&str; 3] = [SPAN_OPEN, SPAN_CLOSE, LATENT];

/// When an answer goes on in latent steps, and for how long.
///
/// A latent step reads the hidden state after the final norm at the position before it, `ẽ_t = h_{t-1}`, in place of an
/// embedding (Coconut, arXiv:2412.06769; SWITCH, arXiv:2606.13106, equation 1). No token is drawn there, so a latent step
/// has no probability and is in no loss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latent {
    /// Where latent steps are.
    #[serde(default)]
    pub place: LatentPlace,
    /// What they read.
    #[serde(default)]
    pub input: LatentInput,
    /// Fewest steps of a span: until then the model can't leave it (`K_min`).
    #[serde(default)]
    pub steps_min: usize,
    /// Most steps of a span: the model then has to leave it (`c · K_max`).
    #[serde(default = "one")]
    pub steps_max: usize,
    /// What is done to the hidden states before they are read; for experiments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervention: Option<Intervention>,
}

fn one() -> usize {
    1
}

/// Where latent steps are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatentPlace {
    /// After each `<swi>` that the policy samples, until `</swi>` (SWITCH).
    #[default]
    Spans,
    /// At the beginning of the answer, always `steps_max` of them, without tags (Coconut).
    Start,
    /// Nowhere: what is between the tags is said aloud (the first phase of SWITCH).
    Visible,
}

/// What a latent step reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatentInput {
    /// The hidden state of the position before it.
    #[default]
    Hidden,
    /// The embedding of `<latent>`, as of any token: pause tokens (arXiv:2310.02226).
    Filler,
}

/// What is done to the hidden state that a latent step reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intervention {
    /// Nothing. Answers are those without an intervention, to the bit.
    Identity,
    /// It becomes 0.
    Zero,
    /// It becomes a random vector of the same 2-norm.
    RandomNorm,
    /// There is no latent step: a span ends where it begins.
    Skip,
}

impl Intervention {
    /// All of them.
    pub const ALL: [Intervention; 4] =
        [Intervention::Identity, Intervention::Zero, Intervention::RandomNorm, Intervention::Skip];

    /// Its name in recipes.
    pub fn name(self) -> &'static str {
        match self {
            Intervention::Identity => "identity",
            Intervention::Zero => "zero",
            Intervention::RandomNorm => "random_norm",
            Intervention::Skip => "skip",
        }
    }
}

impl Latent {
    /// Checks the ranges.
    ///
    /// # Errors
    /// If there are fewer steps at most than at least, or none.
    pub fn check(&self) -> Result<(), SamplingError> {
        let range = match self {
            Latent { steps_max: 0, .. } => "with a `steps_max` of 1 or more",
            Latent { steps_min, steps_max, .. } if steps_min > steps_max => {
                "with a `steps_min` of at most `steps_max`"
            }
            Latent { input: LatentInput::Filler, intervention: Some(_), .. } => {
                "without an `intervention` where `input = \"filler\"`: its steps read no hidden state"
            }
            _ => return Ok(()),
        };
        Err(SamplingError { field: "latent", range })
    }

    /// Do its steps read hidden states?
    pub fn is_recurrent(&self) -> bool {
        self.input == LatentInput::Hidden
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked_and_defaults_are_switchs() {
        let latent: Latent = serde_json::from_str(r#"{"steps_max": 3}"#).unwrap();
        assert_eq!((latent.place, latent.input, latent.steps_min), Default::default());
        assert_eq!(latent.check(), Ok(()));
        assert!(latent.is_recurrent());
        for wrong in [
            r#"{"steps_max": 0}"#,
            r#"{"steps_max": 3, "steps_min": 4}"#,
            r#"{"steps_max": 3, "input": "filler", "intervention": "zero"}"#,
        ] {
            let latent: Latent = serde_json::from_str(wrong).unwrap();
            assert_eq!(latent.check().unwrap_err().field, "latent", "{wrong}");
        }
        for intervention in Intervention::ALL {
            let name = serde_json::to_value(intervention).unwrap();
            assert_eq!(name, intervention.name());
        }
    }
}
