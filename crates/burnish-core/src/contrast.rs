//! Decoding that sets what the model says against what it would have said at an earlier layer.

use serde::{Deserialize, Serialize};

use crate::SamplingError;

/// How the logits of earlier layers change those of the last one, before penalties and filters. Logits `ℒ_l` of a layer
/// are those that the model would have if it ended there: the final norm and the head on the residual stream after the
/// layer. Tokens whose probability is below `gamma` times the greatest are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Contrast {
    /// DaID (arXiv:2604.10071): `(1 + beta)(ℒ + alpha ℒ_spotlight) - beta ℒ_shadow`. The spotlight is the layer that
    /// attends most to the marked tokens, the shadow the one below it that attends least. An answer without marked
    /// tokens in its prompt, or to which no layer attends, is sampled as without it.
    Daid {
        /// Weight of the spotlight.
        #[serde(default = "alpha")]
        alpha: f32,
        /// Weight of the shadow.
        #[serde(default = "beta")]
        beta: f32,
        /// Least share of the greatest probability.
        #[serde(default = "gamma")]
        gamma: f32,
        /// Which tokens of the prompt are marked.
        marked: Span,
    },
    /// DoLa (arXiv:2309.03883): `log p - log p_l`, with the layer `l` whose distribution is farthest from the last one's,
    /// by the Jensen–Shannon divergence.
    Dola {
        /// Least share of the greatest probability.
        #[serde(default = "gamma")]
        gamma: f32,
        /// The layers that are looked at, counted from 0; all but the last if there are none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        layers: Vec<usize>,
    },
    /// VCD (arXiv:2311.16922): `(1 + alpha) ℒ - alpha ℒ_noised`, where `ℒ_noised` are the logits after the same prompt with
    /// noise in its marked tokens. (Reconstructed: the paper adds noise to an image; here tokens are replaced.) An answer
    /// without marked tokens in its prompt is sampled as without it.
    Vcd {
        /// Weight of what the noised prompt takes away.
        #[serde(default = "one")]
        alpha: f32,
        /// Least share of the greatest probability (the paper's β).
        #[serde(default = "gamma")]
        gamma: f32,
        /// Share of the marked tokens that are replaced by tokens drawn from the whole vocabulary.
        #[serde(default = "one")]
        noise: f32,
        /// Decides which, and by what.
        #[serde(default)]
        seed: u64,
        /// Which tokens of the prompt are marked.
        marked: Span,
    },
}

/// The part of a prompt between two texts: after the first occurrence of one, and before the next of the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// The text before it.
    pub after: String,
    /// The text behind it.
    pub before: String,
}

impl Contrast {
    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first number or text that is out of range.
    pub fn check(&self) -> Result<(), SamplingError> {
        match self.problem() {
            Some(range) => Err(SamplingError { field: "contrast", range }),
            None => Ok(()),
        }
    }

    fn problem(&self) -> Option<&'static str> {
        let is_share = |gamma: f32| (0.0..=1.0).contains(&gamma);
        let is_weight = |weight: f32| weight.is_finite() && weight >= 0.0;
        match self {
            Contrast::Daid { gamma, .. } | Contrast::Dola { gamma, .. } | Contrast::Vcd { gamma, .. }
                if !is_share(*gamma) =>
            {
                Some("with a `gamma` from 0 to 1")
            }
            Contrast::Vcd { noise, .. } if !is_share(*noise) => Some("with a `noise` from 0 to 1"),
            Contrast::Vcd { alpha, .. } if !is_weight(*alpha) => Some("with an `alpha` of 0 or more"),
            Contrast::Daid { alpha, beta, .. } if !(is_weight(*alpha) && is_weight(*beta)) => {
                Some("with `alpha` and `beta` of 0 or more")
            }
            Contrast::Daid { marked: Span { after, before }, .. }
            | Contrast::Vcd { marked: Span { after, before }, .. }
                if after.is_empty() || before.is_empty() =>
            {
                Some("with `marked = { after = ..., before = ... }`, texts that are not empty")
            }
            _ => None,
        }
    }
}

impl Span {
    /// Where it is in a text, in bytes. `None` if one of the texts around it is not there.
    pub fn find(&self, text: &str) -> Option<std::ops::Range<usize>> {
        let start = text.find(&self.after)? + self.after.len();
        let len = text[start..].find(&self.before)?;
        Some(start..start + len)
    }
}

fn alpha() -> f32 {
    0.8
}

fn beta() -> f32 {
    0.2
}

fn one() -> f32 {
    1.0
}

fn gamma() -> f32 {
    0.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_lies_between_its_texts() {
        let span = Span { after: "<image>".into(), before: "</image>".into() };
        let text = "</image> <image>red é</image> blue</image>";
        assert_eq!(span.find(text).map(|range| &text[range]), Some("red é"));
        assert_eq!(span.find("<image>red"), None);
        assert_eq!(span.find("red</image>"), None);
    }

    #[test]
    fn defaults_are_the_papers() {
        let read: Contrast =
            serde_json::from_str(r#"{"daid": {"marked": {"after": "a", "before": "b"}}}"#).unwrap();
        let marked = Span { after: "a".into(), before: "b".into() };
        assert_eq!(read, Contrast::Daid { alpha: 0.8, beta: 0.2, gamma: 0.1, marked });
        assert_eq!(read.problem(), None);
        let read: Contrast =
            serde_json::from_str(r#"{"vcd": {"marked": {"after": "a", "before": "b"}}}"#).unwrap();
        let marked = Span { after: "a".into(), before: "b".into() };
        assert_eq!(read, Contrast::Vcd { alpha: 1.0, gamma: 0.1, noise: 1.0, seed: 0, marked });
        assert_eq!(read.problem(), None);
        let wrong = Contrast::Dola { gamma: 1.5, layers: Vec::new() };
        assert!(wrong.problem().is_some_and(|problem| problem.contains("gamma")));
    }
}
