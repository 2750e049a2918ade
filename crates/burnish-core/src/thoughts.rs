//! Control of thoughts while an answer is sampled.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::SamplingError;

/// What controls the thoughts of an answer: the part up to `close`, which begins with `open` or with the answer.
///
/// The controls are asked in order before each token; what one puts into the answer is put before the others are asked
/// again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thoughts {
    /// What thoughts begin with. They also begin where the prompt ends with it; if it is empty, with the answer.
    #[serde(default = "open")]
    pub open: String,
    /// What they end with.
    #[serde(default = "close")]
    pub close: String,
    /// What is done.
    pub controls: Vec<ThoughtControl>,
}

/// One way of controlling thoughts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ThoughtControl {
    /// Thoughts are had: an answer that would begin without them begins with `open` and `text`.
    Forced {
        /// What the thoughts begin with.
        #[serde(default)]
        text: String,
    },
    /// Thoughts of a limited length (budget forcing, s1, arXiv:2501.19393).
    Budget {
        /// Most tokens of thoughts; then `ending` is put.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        most: Option<usize>,
        /// Fewest tokens of thoughts: where the model would sooner close them, `again` is put instead.
        #[serde(default)]
        least: usize,
        /// What makes the model go on.
        #[serde(default = "again")]
        again: String,
        /// What is put at the end; `close` if it is absent. It must hold `close`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ending: Option<String>,
    },
    /// CyclicReflex (arXiv:2506.11077): a triangular wave is added to the logits of words of reflection. With `x` the
    /// position in the period, from 0 to 1, it is `4 A x` up to 1/4, `2 A - 4 A x` up to 3/4, then `4 A x - 4 A`.
    Cyclic {
        /// Greatest change, A.
        #[serde(default = "amplitude")]
        amplitude: f32,
        /// Tokens of a period, C.
        #[serde(default = "period")]
        period: usize,
        /// Where in a period the answer begins, as a share of it.
        #[serde(default)]
        phase: f32,
        /// The words, each in all tokens that are this word with or without blanks.
        #[serde(default = "cyclic_words")]
        words: Vec<String>,
    },
    /// The same logits changed by the same amount everywhere (thought switching penalty, arXiv:2501.18585).
    Shifted {
        /// What is added.
        #[serde(default = "shift")]
        by: f32,
        /// As of `cyclic`.
        #[serde(default = "cyclic_words")]
        words: Vec<String>,
    },
    /// CGRS (arXiv:2508.05337): at each `delimiter` the model is asked for its answer beside the thoughts. The surer it is,
    /// the more often words of reflection are forbidden until the next one: with probability
    /// `max(0, (C - threshold) / (1 - threshold))` for each token, `C = 1 - mean entropy / ln |V|`.
    Certainty {
        /// Certainty below which nothing is forbidden; 1 forbids nothing.
        #[serde(default = "threshold")]
        threshold: f32,
        /// Where it is asked.
        #[serde(default = "delimiter")]
        delimiter: String,
        /// How it is asked.
        #[serde(default = "probe")]
        probe: String,
        /// Most tokens of what it answers, greedily.
        #[serde(default = "probe_tokens")]
        tokens: usize,
        /// As of `cyclic`.
        #[serde(default = "certainty_words")]
        words: Vec<String>,
    },
    /// First Try Matters (arXiv:2510.08308): thoughts end after the answer was tried for the `tries`-th time. A try is what
    /// follows a text of `after`: up to the brace that closes one at its end, or else up to the first of `until` that is not
    /// within a number.
    FirstTry {
        /// Tries after which thoughts end.
        #[serde(default = "one")]
        tries: usize,
        /// Decides by the question whether they end then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        controller: Option<TryController>,
        /// What stands before a try.
        #[serde(default = "after")]
        after: Vec<String>,
        /// What stands behind one.
        #[serde(default = "until")]
        until: Vec<String>,
        /// As of `budget`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ending: Option<String>,
    },
}

/// Decides by the question alone after how many tries thoughts end. It never sees a reference answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TryController {
    /// The file with the model ([`ReflectionModel`](crate::reflection::ReflectionModel)), which `burnish fit-thoughts` writes.
    pub path: PathBuf,
    /// Where the predicted chance that reflection pays is below this, thoughts end after `tries` tries.
    #[serde(default = "half")]
    pub threshold: f64,
    /// Tries after which they end elsewhere; if it is absent, no try ends them there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<usize>,
}

impl TryController {
    /// After how many tries thoughts end where the predicted chance is `chance`, and `tries` is the control's own number.
    /// `None` if no try ends them.
    #[must_use]
    pub fn tries(&self, chance: f64, tries: usize) -> Option<usize> {
        if chance < self.threshold { Some(tries) } else { self.otherwise }
    }

    fn problem(&self, tries: usize) -> Option<&'static str> {
        if self.path.as_os_str().is_empty() {
            return Some("with a `first_try.controller.path` that is not empty");
        }
        if !(0.0..=1.0).contains(&self.threshold) {
            return Some("with a `first_try.controller.threshold` from 0 to 1");
        }
        let is_sooner = self.otherwise.is_some_and(|otherwise| otherwise < tries);
        is_sooner.then_some("with a `first_try.controller.otherwise` that is not below `first_try.tries`")
    }
}

impl Default for Thoughts {
    fn default() -> Self {
        Thoughts { open: open(), close: close(), controls: Vec::new() }
    }
}

impl Thoughts {
    /// Checks the ranges.
    ///
    /// # Errors
    /// If a number or text is out of its range: which of all.
    pub fn check(&self) -> Result<(), SamplingError> {
        let problem = match self.close.is_empty() {
            true => Some("with a `close` that is not empty"),
            false => self.controls.iter().find_map(|control| control.problem(&self.close)),
        };
        match problem {
            Some(range) => Err(SamplingError { field: "thoughts", range }),
            None => Ok(()),
        }
    }
}

impl ThoughtControl {
    /// The controller that decides by the question, if it has one.
    pub fn controller(&self) -> Option<&TryController> {
        match self {
            ThoughtControl::FirstTry { controller, .. } => controller.as_ref(),
            _ => None,
        }
    }

    fn problem(&self, close: &str) -> Option<&'static str> {
        let any_empty =
            |texts: &[String]| texts.is_empty() || texts.iter().any(|text| text.trim().is_empty());
        let closes = |ending: &Option<String>| ending.as_ref().is_none_or(|ending| ending.contains(close));
        match self {
            ThoughtControl::Budget { ending, .. } | ThoughtControl::FirstTry { ending, .. }
                if !closes(ending) =>
            {
                Some("with an `ending` that holds `close`")
            }
            ThoughtControl::Budget { most: Some(most), least, .. } if most < least => {
                Some("with a `budget` whose `most` is not below `least`")
            }
            ThoughtControl::Budget { least, again, .. } if *least > 0 && again.is_empty() => {
                Some("with a `budget` whose `again` is not empty")
            }
            ThoughtControl::Cyclic { period: 0, .. } => Some("with a `cyclic.period` of 1 or more"),
            ThoughtControl::Cyclic { amplitude, phase, .. }
                if !(amplitude.is_finite() && phase.is_finite()) =>
            {
                Some("with a finite `cyclic.amplitude` and `cyclic.phase`")
            }
            ThoughtControl::Shifted { by, .. } if !by.is_finite() => Some("with a finite `shifted.by`"),
            ThoughtControl::Certainty { threshold, .. } if !(0.0..=1.0).contains(threshold) => {
                Some("with a `certainty.threshold` from 0 to 1")
            }
            ThoughtControl::Certainty { delimiter, probe, .. }
                if delimiter.is_empty() || probe.is_empty() =>
            {
                Some("with a `certainty.delimiter` and a `certainty.probe` that are not empty")
            }
            ThoughtControl::Certainty { tokens, .. } if *tokens == 0 || *tokens > PROBE_TOKENS_MAX => {
                Some("with `certainty.tokens` from 1 to 256")
            }
            ThoughtControl::Cyclic { words, .. }
            | ThoughtControl::Shifted { words, .. }
            | ThoughtControl::Certainty { words, .. }
                if any_empty(words) =>
            {
                Some("with `words` that are not blank")
            }
            ThoughtControl::FirstTry { tries: 0, .. } => Some("with `first_try.tries` of 1 or more"),
            ThoughtControl::FirstTry { after, until, .. }
                if any_empty(after) || until.is_empty() || until.iter().any(String::is_empty) =>
            {
                Some("with texts in `first_try.after` and `first_try.until` that are not empty")
            }
            ThoughtControl::FirstTry { controller: Some(controller), tries, .. } => {
                controller.problem(*tries)
            }
            _ => None,
        }
    }
}

/// Most tokens that a model is asked for beside its thoughts.
const PROBE_TOKENS_MAX: usize = 256;

fn open() -> String {
    "<think>".to_owned()
}

fn close() -> String {
    "</think>".to_owned()
}

fn again() -> String {
    "Wait".to_owned()
}

fn amplitude() -> f32 {
    5.0
}

fn period() -> usize {
    1200
}

fn shift() -> f32 {
    -3.0
}

fn threshold() -> f32 {
    0.9
}

fn delimiter() -> String {
    "\n\n".to_owned()
}

fn probe() -> String {
    "**Final Answer: \\boxed".to_owned()
}

fn probe_tokens() -> usize {
    16
}

fn one() -> usize {
    1
}

fn half() -> f64 {
    0.5
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn cyclic_words() -> Vec<String> {
    texts(&["wait", "Wait", "but", "But", "Alternatively"])
}

fn certainty_words() -> Vec<String> {
    texts(&["Wait", "But", "Alternatively", "Hmm"])
}

fn after() -> Vec<String> {
    texts(&["answer is", "\\boxed{"])
}

fn until() -> Vec<String> {
    texts(&[".", "\n", "}"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(controls: serde_json::Value) -> Thoughts {
        serde_json::from_value(json!({ "controls": controls })).unwrap()
    }

    #[test]
    fn defaults_are_the_papers() {
        let thoughts = read(
            json!([{"cyclic": {}}, {"certainty": {}}, {"shifted": {}}, {"first_try": {}}, {"budget": {}}]),
        );
        assert_eq!(thoughts.check(), Ok(()));
        assert_eq!((thoughts.open.as_str(), thoughts.close.as_str()), ("<think>", "</think>"));
        let ThoughtControl::Cyclic { amplitude, period, .. } = thoughts.controls[0] else { panic!() };
        assert_eq!((amplitude, period), (5.0, 1200));
        let ThoughtControl::Certainty { threshold, .. } = thoughts.controls[1] else { panic!() };
        assert_eq!(threshold, 0.9);
        let again: Thoughts = serde_json::from_value(serde_json::to_value(&thoughts).unwrap()).unwrap();
        assert_eq!(again, thoughts);
    }

    #[test]
    fn a_controller_decides_after_how_many_tries_thoughts_end() {
        let of = |controller: serde_json::Value| {
            let thoughts = read(json!([{"first_try": {"tries": 2, "controller": controller}}]));
            assert_eq!(thoughts.check(), Ok(()));
            thoughts.controls[0].controller().unwrap().clone()
        };
        let never = of(json!({"path": "x.json"}));
        assert_eq!((never.tries(0.49, 2), never.tries(0.5, 2)), (Some(2), None));
        let later = of(json!({"path": "x.json", "threshold": 0.2, "otherwise": 3}));
        assert_eq!((later.tries(0.1, 2), later.tries(0.2, 2)), (Some(2), Some(3)));
        // Without one, nothing of it is written down.
        let without = read(json!([{"first_try": {}}]));
        assert!(without.controls[0].controller().is_none());
        assert!(!serde_json::to_string(&without).unwrap().contains("controller"));
        let wrong = json!({"controls": [{"first_try": {"controller": {"threshold": 0.5}}}]});
        assert!(serde_json::from_value::<Thoughts>(wrong).unwrap_err().to_string().contains("`path`"));
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        for (controls, said) in [
            (json!([{"cyclic": {"period": 0}}]), "cyclic.period"),
            (json!([{"certainty": {"threshold": 1.5}}]), "certainty.threshold"),
            (json!([{"certainty": {"tokens": 0}}]), "certainty.tokens"),
            (json!([{"certainty": {"words": []}}]), "words"),
            (json!([{"shifted": {"words": [" "]}}]), "words"),
            (json!([{"budget": {"most": 3, "least": 4}}]), "`most`"),
            (json!([{"budget": {"ending": "stop"}}]), "`ending`"),
            (json!([{"first_try": {"tries": 0}}]), "first_try.tries"),
            (json!([{"first_try": {"after": [""]}}]), "first_try.after"),
            (json!([{"first_try": {"controller": {"path": ""}}}]), "first_try.controller.path"),
            (
                json!([{"first_try": {"controller": {"path": "x", "threshold": 1.1}}}]),
                "first_try.controller.threshold",
            ),
            (
                json!([{"first_try": {"tries": 2, "controller": {"path": "x", "otherwise": 1}}}]),
                "first_try.controller.otherwise",
            ),
        ] {
            let error = read(controls).check().unwrap_err().to_string();
            assert!(error.starts_with("sampling.thoughts") && error.contains(said), "{error}");
        }
        assert!(serde_json::from_value::<Thoughts>(json!({"controls": [{"cycle": {}}]})).is_err());
    }
}
