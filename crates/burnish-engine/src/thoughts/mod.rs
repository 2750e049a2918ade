//! Control of thoughts: one control of the sampler that asks its parts in order.
//!
//! ```text
//! text so far ─> in thoughts? ─> part, part, part ─> nothing | changes of logits | tokens that are put | a probe
//! ```

mod budget;
mod certainty;
mod controller;
mod cyclic;
mod first_try;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::sync::Arc;

use burnish_core::{ThoughtControl, Thoughts};
use burnish_model::Tokenizer;

use crate::control::{Control, Decision, Now, Probe, Steer};

pub use controller::read_reflection_model;

/// What a part decides.
#[derive(Debug)]
enum Act {
    /// Nothing, beyond what it did to the logits.
    Pass,
    /// These tokens come next.
    Put(Arc<[u32]>),
    /// A probe must be answered first.
    Probe(Box<Probe>),
}

/// One way of controlling thoughts, for one answer.
trait Part: Send + Sync + Debug {
    fn decide(&mut self, now: &Now<'_>, said: &Said, steer: &mut Steer) -> Result<Act, String>;

    /// As [`Control::reads_logits`].
    fn reads_logits(&self) -> bool {
        false
    }

    fn probe_tokens_max(&self) -> usize {
        0
    }
}

/// The text of an answer, as far as its thoughts go.
#[derive(Debug)]
struct Said {
    tokenizer: Arc<Tokenizer>,
    open: String,
    close: String,
    /// Text of the tokens that were looked at, each turned into text by itself.
    text: String,
    tokens: usize,
    /// Bytes of the text before the newest token.
    before: usize,
    stage: Stage,
    /// Bytes of the text before the thoughts.
    thoughts_from: usize,
}

/// How far an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing of thoughts so far.
    Before,
    /// In thoughts, which began at this token of the answer.
    Thinking(usize),
    /// Behind them.
    After,
}

impl Said {
    fn new(thoughts: &Thoughts, prompt: &[u32], tokenizer: &Arc<Tokenizer>) -> Result<Self, String> {
        let prompt = tokenizer.decode(prompt, false).map_err(|error| error.to_string())?;
        let end = prompt.trim_end();
        let stage = if thoughts.open.is_empty() || end.ends_with(&thoughts.open) {
            Stage::Thinking(0)
        } else if end.ends_with(&thoughts.close) {
            // A template that says that nothing is to be thought.
            Stage::After
        } else {
            Stage::Before
        };
        Ok(Said {
            tokenizer: Arc::clone(tokenizer),
            open: thoughts.open.clone(),
            close: thoughts.close.clone(),
            text: String::new(),
            tokens: 0,
            before: 0,
            stage,
            thoughts_from: 0,
        })
    }

    /// Looks at the tokens that are new.
    fn follow(&mut self, answer: &[u32]) -> Result<(), String> {
        for &id in answer.get(self.tokens..).unwrap_or_default() {
            self.before = self.text.len();
            self.text += &self.tokenizer.decode(&[id], false).map_err(|error| error.to_string())?;
            self.tokens += 1;
            match self.stage {
                Stage::Before if self.is_new(&self.open) => {
                    (self.stage, self.thoughts_from) = (Stage::Thinking(self.tokens), self.text.len());
                }
                Stage::Thinking(_) if self.is_new(&self.close) => self.stage = Stage::After,
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether the newest token completes `text`.
    fn is_new(&self, text: &str) -> bool {
        // A match that ends in the newest token begins at most this much before it.
        let mut from = self.before.saturating_sub(text.len().saturating_sub(1));
        while !self.text.is_char_boundary(from) {
            from -= 1;
        }
        self.text[from..].contains(text)
    }

    /// The text of the thoughts so far, and of what follows them.
    fn thoughts(&self) -> &str {
        &self.text[self.thoughts_from..]
    }

    /// How many tokens of thoughts there are; `None` outside of thoughts.
    fn thought(&self) -> Option<usize> {
        match self.stage {
            Stage::Thinking(from) => Some(self.tokens - from),
            Stage::Before | Stage::After => None,
        }
    }
}

/// Controls the thoughts of one answer.
#[derive(Debug)]
struct Thinking {
    said: Said,
    parts: Vec<Box<dyn Part>>,
    /// Tokens that are still to be put.
    pending: VecDeque<u32>,
    /// The part whose probe is under way; what the parts before it did to the logits stands.
    asking: Option<usize>,
}

impl Control for Thinking {
    fn decide(&mut self, now: &Now<'_>, steer: &mut Steer) -> Result<Decision, String> {
        self.said.follow(now.answer)?;
        if let Some(id) = self.pending.pop_front() {
            return Ok(Decision::Put(id));
        }
        let first = if now.probed.is_some() { self.asking.take().unwrap_or(0) } else { 0 };
        for (at, part) in self.parts.iter_mut().enumerate().skip(first) {
            // A probe's answer is for the part that asked.
            let now = Now { probed: now.probed.filter(|_| at == first), ..*now };
            match part.decide(&now, &self.said, steer)? {
                Act::Pass => {}
                Act::Put(ids) => {
                    self.pending = ids.iter().copied().collect();
                    if let Some(id) = self.pending.pop_front() {
                        return Ok(Decision::Put(id));
                    }
                }
                Act::Probe(probe) => {
                    self.asking = Some(at);
                    return Ok(Decision::Probe(probe));
                }
            }
        }
        Ok(Decision::Choose)
    }

    fn reads_logits(&self) -> bool {
        self.parts.iter().any(|part| part.reads_logits())
    }

    fn probe_tokens_max(&self) -> usize {
        self.parts.iter().map(|part| part.probe_tokens_max()).max().unwrap_or(0)
    }
}

/// Ids of words, found once for each list: every id whose text is one of the words, with or without blanks around it.
#[derive(Debug, Default)]
struct Words(BTreeMap<Vec<String>, Arc<[u32]>>);

impl Words {
    fn ids(&mut self, words: &[String], tokenizer: &Tokenizer) -> Result<Arc<[u32]>, String> {
        if let Some(ids) = self.0.get(words) {
            return Ok(Arc::clone(ids));
        }
        let is_word = |id: &u32| {
            tokenizer.id_exists(*id)
                && tokenizer
                    .decode(&[*id], false)
                    .is_ok_and(|text| words.iter().any(|word| word == text.trim()))
        };
        let ids: Arc<[u32]> = (0..=tokenizer.id_max().unwrap_or(0)).filter(is_word).collect();
        if ids.is_empty() {
            return Err(format!("none of {} is a token of the policy's tokenizer", words.join(", ")));
        }
        self.0.insert(words.to_vec(), Arc::clone(&ids));
        Ok(ids)
    }
}

/// What is found out once for all answers of a policy.
#[derive(Debug, Default)]
pub(crate) struct Known {
    words: Words,
    models: controller::Models,
}

/// An answer whose thoughts are to be controlled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) prompt: &'a [u32],
    /// What the prompt asks, in the task's own words.
    pub(crate) question: &'a str,
    /// The request's seed.
    pub(crate) seed: u64,
    /// Most tokens of prompt, answer and probes.
    pub(crate) context_tokens_max: usize,
    pub(crate) end_ids: &'a Arc<[u32]>,
    pub(crate) tokenizer: &'a Arc<Tokenizer>,
}

/// The control of an answer. `None` if there are no controls.
///
/// # Errors
/// If a text is no tokens, words are none, or the file of a controller can't be used.
pub(crate) fn control(
    thoughts: &Thoughts,
    asked: Asked<'_>,
    known: &mut Known,
) -> Result<Option<Box<dyn Control>>, String> {
    let Asked { prompt, question, seed, context_tokens_max, end_ids, tokenizer } = asked;
    let Known { words, models } = known;
    if thoughts.controls.is_empty() {
        return Ok(None);
    }
    let encode = |text: &str| -> Result<Arc<[u32]>, String> {
        let ids = tokenizer.encode(text).map_err(|error| error.to_string())?;
        Ok(Arc::from(ids))
    };
    // An ending that is not recognised token by token would be put over and over.
    let ending = |ending: &Option<String>| -> Result<Arc<[u32]>, String> {
        let ids = encode(ending.as_deref().unwrap_or(&thoughts.close))?;
        let texts: Result<String, _> = ids.iter().map(|id| tokenizer.decode(&[*id], false)).collect();
        match texts.map_err(|error| error.to_string())?.contains(&thoughts.close) {
            true => Ok(ids),
            false => Err(format!(
                "`close` is `{}`, which this tokenizer's tokens do not spell one by one",
                thoughts.close
            )),
        }
    };
    let mut parts: Vec<Box<dyn Part>> = Vec::with_capacity(thoughts.controls.len());
    for control in &thoughts.controls {
        parts.push(match control {
            ThoughtControl::Forced { text } => {
                Box::new(budget::Forced { opening: encode(&format!("{}{text}", thoughts.open))? })
            }
            ThoughtControl::Budget { most, least, again, ending: end } => {
                let close = encode(&thoughts.close)?;
                if *least > 0 && close.len() != 1 {
                    return Err(format!(
                        "`budget.least` needs a `close` that is one token; `{}` is {}",
                        thoughts.close,
                        close.len()
                    ));
                }
                let (again, ending) = (encode(again)?, ending(end)?);
                Box::new(budget::Budget {
                    most: *most,
                    least: *least,
                    again,
                    ending,
                    close,
                    end_ids: Arc::clone(end_ids),
                })
            }
            &ThoughtControl::Cyclic { amplitude, period, phase, words: ref names } => {
                Box::new(cyclic::Cyclic { amplitude, period, phase, ids: words.ids(names, tokenizer)? })
            }
            &ThoughtControl::Shifted { by, words: ref names } => {
                Box::new(cyclic::Shifted { by, ids: words.ids(names, tokenizer)? })
            }
            &ThoughtControl::Certainty { threshold, ref delimiter, ref probe, tokens, words: ref names } => {
                Box::new(certainty::Certainty {
                    threshold,
                    delimiter: delimiter.clone(),
                    probe: encode(probe)?,
                    tokens,
                    context_tokens_max,
                    ids: words.ids(names, tokenizer)?,
                    seed,
                    probability: 0.0,
                    asked_at: None,
                })
            }
            ThoughtControl::FirstTry { tries, controller, after, until, ending: end } => {
                let (after, until, ending) = (after.clone(), until.clone(), ending(end)?);
                let tries = match controller {
                    Some(controller) => {
                        controller.tries(models.get(&controller.path)?.chance(question), *tries)
                    }
                    None => Some(*tries),
                };
                // No try ends the thoughts of this answer.
                let Some(tries) = tries else { continue };
                Box::new(first_try::FirstTry {
                    tries,
                    after,
                    until,
                    ending,
                    seen: first_try::Seen::default(),
                })
            }
        });
    }
    let said = Said::new(thoughts, prompt, tokenizer)?;
    Ok(Some(Box::new(Thinking { said, parts, pending: VecDeque::new(), asking: None })))
}
