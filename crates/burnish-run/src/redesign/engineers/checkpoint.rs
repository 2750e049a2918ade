//! The policy that the round made redesigns its own environment, by constrained decoding: the JSON of a proposal is given
//! but for its numbers, and in each place stands the value of the key's menu that is likeliest for the policy after all
//! that comes before it. So every answer is a proposal.
//!
//! *Reconstructed*: in "From Trainee to Trainer" (arXiv 2606.17682) a language model writes its proposal freely. A policy
//! that has only ever seen boards or puzzles has nothing to say about configurations: with one, this tests the interface,
//! and its proposals are no evidence that a policy can diagnose itself.

use std::path::Path;

use burnish_core::{Message, Trace};
use burnish_env::redesign::KnobKind;
use burnish_model::{Loading, TextTokens, Trains};
use burnish_recipe::Recipe;
use burnish_tensor::{Device, Precision};
use burnish_train::{Sample, score};

use crate::RunError;
use crate::policy::LoadedPolicy;
use crate::redesign::{Brief, Engineer};

const LOADING: Loading =
    Loading { precision: Precision::F32, trains: Trains::Nothing, text_tokens: TextTokens::Literal };
const QUESTION: &str = "Which configuration should the next round have?";
const BEGINNING: &str = "{\"reason\":\"the likeliest value of each menu\",\"config\":{";

pub(super) struct Chooser {
    device: Device,
    tokens_max: usize,
}

impl Chooser {
    /// The policies of `recipe` as engineers.
    ///
    /// # Errors
    /// If its device does not exist.
    pub(super) fn new(recipe: &Recipe) -> Result<Self, RunError> {
        Ok(Chooser { device: Device::open(&recipe.device)?, tokens_max: recipe.train.micro_batch_tokens })
    }

    fn policy(&self, checkpoint: &Path) -> Result<LoadedPolicy, RunError> {
        Ok(LoadedPolicy::load(checkpoint, &LOADING)?.on(&self.device))
    }
}

impl Engineer for Chooser {
    fn propose(&mut self, brief: &Brief<'_>, _: usize) -> Result<String, RunError> {
        let policy = self.policy(brief.checkpoint)?;
        let encode = |text: &str| policy.chat.tokenizer.encode(text);
        let question = [Message::user(format!("{}\n{QUESTION}", brief.text))];
        let mut read = policy.chat.extend(&mut Trace::new(), &question, &[])?;
        let mut said = BEGINNING.to_owned();
        read.extend(encode(BEGINNING)?);
        let knobs = &brief.context.knobs;
        for (at, knob) in knobs.iter().enumerate() {
            let key = format!("\"{}\":", knob.key);
            read.extend(encode(&key)?);
            said += &key;
            // What follows a value tells 0.2 from the beginning of 0.25.
            let after = if at + 1 < knobs.len() { "," } else { "}}" };
            let written = |value: f64| match knob.kind {
                KnobKind::Whole => format!("{value:.0}{after}"),
                KnobKind::Number | KnobKind::Share => format!("{value}{after}"),
            };
            let mut choices = Vec::new();
            for value in &knob.menu {
                let text = written(*value);
                choices.push((encode(&text)?, text));
            }
            let best = self.likeliest(&policy, &read, &choices)?;
            let (ids, text) = choices.swap_remove(best);
            read.extend(ids);
            said += &text;
        }
        Ok(said)
    }
}

impl Chooser {
    /// Which of `choices` has the greatest log-prob after `read`; of equal ones the first. Of what does not fit the
    /// policy's context, the beginning is left out.
    fn likeliest(
        &self,
        policy: &LoadedPolicy,
        read: &[u32],
        choices: &[(Vec<u32>, String)],
    ) -> Result<usize, RunError> {
        let longest = choices.iter().map(|(ids, _)| ids.len()).max().unwrap_or(0);
        let room = policy.model.context_tokens_max().saturating_sub(longest).max(1);
        let read = &read[read.len().saturating_sub(room)..];
        let sample = |(ids, _): &(Vec<u32>, String)| {
            let ids = [read, ids].concat();
            let tokens = ids.len();
            Sample {
                loss_mask: (0..tokens).map(|at| at >= read.len()).collect(),
                model_logprobs: vec![0.0; tokens],
                sampled_logprobs: vec![0.0; tokens],
                temperatures: vec![1.0; tokens],
                advantages: vec![0.0; tokens],
                ids,
                ..Sample::default()
            }
        };
        let samples: Vec<Sample> = choices.iter().map(sample).collect();
        let scored = score(&policy.model, &samples, self.tokens_max)?;
        let totals: Vec<f64> =
            scored.iter().map(|logprobs| logprobs.iter().map(|&logprob| f64::from(logprob)).sum()).collect();
        let mut best = 0;
        for (at, total) in totals.iter().enumerate() {
            if *total > totals[best] {
                best = at;
            }
        }
        Ok(best)
    }
}
