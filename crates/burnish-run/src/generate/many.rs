//! Many prompts, answered side by side.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use burnish_core::rng::{Address, Purpose};
use burnish_core::{
    Answered, Partial, Piece, Policy, PolicyError, Sampling, Streaming, ToolSpec, Trace, Turn, TurnId,
    TurnOutput,
};

use super::Prompt;
use crate::seeds::Draws;
use crate::watch::{Event, Stop, Watch};

/// Longest wait for news of an answer before somebody looks whether it should stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Prompts, and how they are answered.
#[derive(Debug, Clone)]
pub struct Many {
    /// The prompts.
    pub prompts: Vec<Prompt>,
    /// Tools of the prompts that bring none.
    pub tools: Arc<Vec<ToolSpec>>,
    /// The beginning of every answer.
    pub prefix: Vec<Piece>,
    /// How tokens are chosen.
    pub sampling: Arc<Sampling>,
    /// Answers to each prompt.
    pub samples: usize,
    /// Decides all answers, together with the prompt's index and the sample's.
    pub seed: u64,
    /// Most answers that are asked for and not finished.
    pub ahead: usize,
}

/// An answer to one of [`Many`].
#[derive(Debug)]
pub struct Answer {
    /// Index of the prompt.
    pub index: usize,
    /// Index among the prompt's samples.
    pub sample: usize,
    /// What the policy read and sampled.
    pub trace: Trace,
    /// What it said, or why it did not.
    pub result: Result<TurnOutput, PolicyError>,
}

impl Many {
    /// Answers in all.
    pub fn len(&self) -> usize {
        self.prompts.len() * self.samples
    }

    /// Is nothing asked?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tools of a prompt: its own, or else those of all.
    pub fn tools_of(&self, prompt: &Prompt) -> Arc<Vec<ToolSpec>> {
        if prompt.tools.is_empty() { Arc::clone(&self.tools) } else { Arc::new(prompt.tools.clone()) }
    }

    /// The turn of answer number `at`: the samples of a prompt stand together.
    pub fn turn(&self, at: usize) -> Turn {
        let (index, sample) = (at / self.samples, at % self.samples);
        let prompt = &self.prompts[index];
        Turn {
            trace: Trace::new(),
            messages: Arc::new(prompt.messages.clone()),
            tools: self.tools_of(prompt),
            prefix: self.prefix.clone(),
            sampling: Arc::clone(&self.sampling),
            seed: seed(self.seed, index as u64, sample as u64),
        }
    }

    /// The answer to [`Many::turn`] number `at`.
    pub fn answer(&self, at: usize, answered: Answered) -> Answer {
        let Answered { trace, result, .. } = answered;
        Answer { index: at / self.samples, sample: at % self.samples, trace, result }
    }
}

/// The seed of an answer.
pub(super) fn seed(run: u64, task: u64, rollout: u64) -> u64 {
    let stage = Draws::Generation.stage();
    Address { stage, task, rollout, ..Address::new(run, Purpose::Sample) }.seed()
}

/// Answers prompts side by side, and gives each answer to `each`, in the order of the prompts; what waits for an
/// earlier answer when it is asked to stop comes then, in order too. Returns how many answers there are.
pub fn answer_all(
    policy: &mut dyn Policy,
    many: &Many,
    watch: &mut dyn Watch,
    stop: &Stop,
    each: &mut dyn FnMut(Answer),
) -> usize {
    let all = many.len();
    let mut under_way: BTreeMap<TurnId, usize> = BTreeMap::new();
    // Finished, but not yet given to `each`.
    let mut waiting: BTreeMap<usize, Answer> = BTreeMap::new();
    let (mut submitted, mut given, mut done, mut tokens) = (0, 0, 0, 0);
    let start = Instant::now();
    let mut event = |done: usize, tokens: usize| {
        let tokens_per_second = tokens as f64 / start.elapsed().as_secs_f64().max(1e-9);
        watch.event(Event::Items { done, items: all, success: None, tokens_per_second });
    };
    event(0, 0);
    while done < all && !stop.is_asked() {
        while submitted < all && under_way.len() < many.ahead.max(1) {
            under_way.insert(policy.submit(many.turn(submitted)), submitted);
            submitted += 1;
        }
        let answers = if policy.is_remote() { policy.wait() } else { policy.poll() };
        if answers.is_empty() {
            continue;
        }
        for answered in answers {
            let Some(at) = under_way.remove(&answered.id) else { continue };
            let answer = many.answer(at, answered);
            tokens += answer.tokens().unwrap_or(0);
            waiting.insert(at, answer);
            done += 1;
        }
        while let Some(answer) = waiting.remove(&given) {
            each(answer);
            given += 1;
        }
        event(done, tokens);
    }
    under_way.into_keys().for_each(|id| {
        policy.cancel(id);
    });
    waiting.into_values().for_each(each);
    done
}

/// Answers one turn, and shows what it has said so far to `each` whenever that may be more. Once `is_stopped`, the
/// answer ends where it is; `None` if it has said nothing by then.
pub fn follow(
    policy: &mut dyn Streaming,
    turn: Turn,
    is_stopped: &dyn Fn() -> bool,
    each: &mut dyn FnMut(Partial<'_>),
) -> Option<Answered> {
    let id = policy.submit(turn);
    loop {
        if let Some(answered) = policy.progress(LOOK_EVERY).into_iter().find(|answered| answered.id == id) {
            return Some(answered);
        }
        if let Some(partial) = policy.partial(id) {
            each(partial);
        }
        if is_stopped() && !policy.stop(id) {
            return None;
        }
    }
}
