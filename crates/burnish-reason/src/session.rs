//! A strategy's access to policies while it answers one turn, and the record of what it did.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use burnish_core::rng;
use burnish_core::{Message, Node, NodeId, PolicyError, Sampling, ToolSpec, Trace, Turn, TurnOutput};
use burnish_episode::{Ask, ContactError, Handle};
use burnish_verify::Verifier;

use crate::equality::{answer_of, numbered};
use crate::record::{Cached, Candidate, Considered, Role, Selection, Tokens};

/// The policy on top of which a strategy works.
pub const POLICY: &str = "policy";
/// Who reads earlier answers and decides, if it is not the policy.
pub const DELIBERATOR: &str = "deliberator";
/// Who grades answers, if it is not the policy.
pub const JUDGE: &str = "judge";
/// Who reads the tokens of a candidate's conversation and gives it a number. Nobody can take its place.
pub const REWARD_MODEL: &str = "reward_model";

/// Characters that count as a token of a policy that reports none.
const CHARACTERS_PER_TOKEN: usize = 4;

/// The turn that a strategy has to answer.
#[derive(Debug)]
pub struct Asked {
    /// The turn. Its trace is what was said before.
    pub turn: Turn,
    /// Who can be asked besides the policy.
    pub others: Vec<&'static str>,
    /// Tokens, read and generated, that a strategy which takes any number of drafts has to reach.
    pub budget: Option<usize>,
}

/// Turns that are asked for at once, each on its own: none sees another.
pub struct Request {
    /// What they are for.
    pub role: Role,
    /// Who is asked. [`JUDGE`] and [`DELIBERATOR`] are the policy where nobody else has that name.
    pub who: &'static str,
    /// The stage.
    pub stage: u32,
    /// The number of the first of them in the stage.
    pub first: u32,
    /// The conversation of each.
    pub messages: Vec<Arc<Vec<Message>>>,
    /// How tokens are chosen.
    pub sampling: Arc<Sampling>,
}

/// Answers one turn.
pub struct Session {
    handle: Handle,
    asked: Asked,
    messages: Arc<Vec<Message>>,
    /// Was any turn asked for?
    is_begun: Cell<bool>,
    considered: RefCell<Considered>,
    /// The trace of each candidate of the policy itself.
    traces: RefCell<Vec<Option<Trace>>>,
}

/// A turn that is answered.
pub(crate) struct Over {
    pub(crate) considered: Considered,
    pub(crate) trace: Trace,
    pub(crate) output: TurnOutput,
}

impl Session {
    pub(crate) fn new(handle: Handle, asked: Asked) -> Self {
        let considered = Considered {
            candidates: Vec::new(),
            selections: Vec::new(),
            cache: Vec::new(),
            prompts: Vec::new(),
            equality: None,
            chosen: 0,
            tokens: Tokens::default(),
            is_counted: true,
        };
        let messages = Arc::clone(&asked.turn.messages);
        let (considered, traces) = (RefCell::new(considered), RefCell::default());
        Session { handle, asked, messages, is_begun: Cell::new(false), considered, traces }
    }

    /// The conversation as it was asked.
    pub fn messages(&self) -> Arc<Vec<Message>> {
        Arc::clone(&self.messages)
    }

    /// How the turn is sampled.
    pub fn sampling(&self) -> &Arc<Sampling> {
        &self.asked.turn.sampling
    }

    /// Tokens that have to be reached ([`Asked::budget`]).
    pub fn budget(&self) -> Option<usize> {
        self.asked.budget
    }

    /// The seed of a stage's turn, or of a choice that takes the place of one.
    pub fn seed(&self, stage: u32, number: u32) -> u64 {
        let own = rng::bits(self.asked.turn.seed, 1 << 63);
        rng::bits(own, u64::from(stage) << 32 | u64::from(number))
    }

    /// Asks for turns and returns the indices of the candidates, in the order of their numbers. The first turn of a
    /// session draws by the seed of the turn that is answered, every other one by [`Session::seed`].
    ///
    /// # Errors
    /// If a turn can't be answered.
    pub async fn sample(&self, request: Request) -> Result<Vec<usize>, ContactError> {
        let Request { role, who, stage, first, messages, sampling } = request;
        let is_policy = who == POLICY || !self.asked.others.contains(&who);
        let reads_tokens = who == REWARD_MODEL;
        if reads_tokens && is_policy {
            return Err(PolicyError::Unable("be asked for numbers: no reward model is there").into());
        }
        let who: Arc<str> = if is_policy { POLICY.into() } else { who.into() };
        let was_begun = self.is_begun.replace(true);
        // Judges are asked in words.
        let tools: Arc<Vec<ToolSpec>> =
            if role == Role::Grade { Arc::default() } else { Arc::clone(&self.asked.turn.tools) };
        let said = self.handle.all(messages.len() as u32, |at, handle| {
            let seed = match was_begun || at > 0 {
                true => self.seed(stage, first + at),
                false => self.asked.turn.seed,
            };
            let (messages, tools) = (Arc::clone(&messages[at as usize]), Arc::clone(&tools));
            let ask = Ask { messages, tools, prefix: Vec::new(), sampling: Arc::clone(&sampling), seed };
            let before = match role {
                // The candidate itself, as it was sampled.
                Role::Grade if reads_tokens => {
                    let traces = self.traces.borrow();
                    traces.get((first + at) as usize).cloned().flatten().unwrap_or_default()
                }
                Role::Draft | Role::Deliberation if is_policy => self.asked.turn.trace.clone(),
                _ => Trace::new(),
            };
            let who = &who;
            async move {
                let known = before.nodes().len();
                let messages = Arc::clone(&ask.messages);
                let agent = handle.agent(who, before);
                let output = handle.sample(&agent, ask).await?;
                let trace = handle.trace(&agent);
                let cost = Cost::of(known, &trace, &messages, &output);
                Ok((output, trace, cost))
            }
        });
        let said: Vec<(TurnOutput, Trace, Cost)> =
            said.await.into_iter().collect::<Result<_, ContactError>>()?;
        let (mut considered, mut traces) = (self.considered.borrow_mut(), self.traces.borrow_mut());
        let from = considered.candidates.len();
        for ((output, trace, cost), number) in said.into_iter().zip(first..) {
            let TurnOutput { message, malformed, stop, .. } = output;
            considered.tokens += cost.tokens;
            considered.is_counted &= cost.is_counted;
            considered.candidates.push(Candidate {
                role,
                stage,
                number,
                message,
                stop,
                malformed,
                answer: None,
                mean_logprob: cost.mean_logprob,
                tokens: cost.tokens,
            });
            traces.push(is_policy.then_some(trace));
        }
        Ok((from..considered.candidates.len()).collect())
    }

    /// Looks at the candidates so far.
    pub fn read<T>(&self, look: impl FnOnce(&[Candidate]) -> T) -> T {
        look(&self.considered.borrow().candidates)
    }

    /// The numbers of the answers of candidates: equal ones have equal numbers. From now on their answers are on the
    /// record.
    pub fn answers(&self, among: &[usize], equality: Verifier) -> Vec<Option<usize>> {
        let mut considered = self.considered.borrow_mut();
        considered.equality = Some(equality);
        for at in among {
            let candidate = &mut considered.candidates[*at];
            candidate.answer = answer_of(equality, &candidate.message);
        }
        let answers: Vec<Option<String>> =
            among.iter().map(|at| considered.candidates[*at].answer.clone()).collect();
        numbered(equality, &answers)
    }

    /// Puts a choice on the record.
    pub fn note(&self, selection: Selection) {
        self.considered.borrow_mut().selections.push(selection);
    }

    /// Chooses the candidate at a place of `among`, puts that on the record, and returns its index.
    pub(crate) fn choose(
        &self,
        rule: &str,
        among: Vec<usize>,
        place: usize,
        answers: Vec<Option<usize>>,
        scores: Vec<Option<f64>>,
    ) -> usize {
        let chosen = among[place];
        self.note(Selection { rule: rule.to_owned(), among, answers, scores, chosen: vec![chosen] });
        chosen
    }

    /// Puts on the record what a stage of deliberation reads.
    pub(crate) fn note_cache(&self, cached: impl IntoIterator<Item = Cached>, prompt: String) {
        let mut considered = self.considered.borrow_mut();
        considered.cache.extend(cached);
        considered.prompts.push(prompt);
    }

    /// Ends the session with the candidate of this index. The trace holds every turn of the policy, the answer's last.
    pub(crate) fn finish(self, chosen: usize) -> Over {
        let Session { asked, considered, traces, .. } = self;
        let considered = Considered { chosen, ..considered.into_inner() };
        let traces = traces.into_inner();
        let known = asked.turn.trace.nodes().len();
        let mut trace = asked.turn.trace;
        let order = (0..traces.len()).filter(|at| *at != chosen).chain([chosen]);
        for at in order {
            // A judge's conversation begins anew.
            let shared = if considered.candidates[at].role == Role::Grade { 0 } else { known };
            if let Some(own) = &traces[at] {
                graft(&mut trace, own, shared);
            }
        }
        let candidate = &considered.candidates[chosen];
        let (message, malformed, stop) =
            (candidate.message.clone(), candidate.malformed.clone(), candidate.stop);
        let output = TurnOutput { malformed, ..TurnOutput::new(message, stop) };
        Over { considered, trace, output }
    }
}

/// Adds the nodes of `other` to `trace`; the first `shared` nodes are the same in both. Prompts that are there already are
/// not added again. The head of `other` becomes the head.
fn graft(trace: &mut Trace, other: &Trace, shared: usize) {
    let mut places: Vec<NodeId> = (0..shared.min(other.nodes().len())).map(NodeId).collect();
    for node in &other.nodes()[places.len()..] {
        let parent = node.parent.map(|parent| places[parent.0]);
        let node = Node { parent, ..node.clone() };
        let known = trace.nodes().iter().position(|known| node.sampled.is_none() && *known == node);
        let place = match known {
            Some(at) => NodeId(at),
            // The same node was accepted by the trace that it comes from.
            None => match trace.push(node) {
                Ok(place) => place,
                Err(_) => return,
            },
        };
        places.push(place);
    }
    let head = other.head().and_then(|NodeId(at)| places.get(at).copied());
    if let Some(whole) = trace.before(trace.nodes().len(), head) {
        *trace = whole;
    }
}

/// What a turn cost.
struct Cost {
    tokens: Tokens,
    mean_logprob: Option<f64>,
    is_counted: bool,
}

impl Cost {
    /// Of the turn that extended a trace, which had `known` nodes before.
    fn of(known: usize, trace: &Trace, messages: &[Message], output: &TurnOutput) -> Cost {
        if trace.nodes().len() <= known {
            let characters = |messages: &mut dyn Iterator<Item = &Message>| -> usize {
                let of = |message: &Message| crate::record::text_of(message).chars().count();
                messages.map(of).sum::<usize>().div_ceil(CHARACTERS_PER_TOKEN)
            };
            let generated = characters(&mut std::iter::once(&output.message));
            let read = characters(&mut messages.iter());
            return Cost { tokens: Tokens { generated, read }, mean_logprob: None, is_counted: false };
        }
        let path = trace.head().map(|head| trace.path(head)).unwrap_or_default();
        let mut tokens = Tokens { generated: 0, read: output.aside };
        let (mut logprobs, mut count) = (0.0, 0);
        for NodeId(at) in path {
            let node = &trace.nodes()[at];
            match &node.sampled {
                Some(sampled) if at >= known => {
                    tokens.generated += node.ids.len();
                    logprobs += sampled.model_logprobs.iter().map(|value| f64::from(*value)).sum::<f64>();
                    count += sampled.model_logprobs.len();
                }
                _ => tokens.read += node.ids.len(),
            }
        }
        let mean_logprob = (count > 0).then(|| logprobs / count as f64);
        Cost { tokens, mean_logprob, is_counted: true }
    }
}
