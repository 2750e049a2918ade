//! A strategy's access to policies while it answers one turn, and the record of what it did.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use burnish_core::rng;
use burnish_core::{Memory, Message, NodeId, Note, PolicyError, Sampling, ToolSpec, Trace, Turn, TurnOutput};
use burnish_episode::{Agent, Ask, ContactError, Handle, Position};
use burnish_verify::Verifier;

use crate::cost::Cost;
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

/// The turn that a strategy has to answer.
pub struct Asked {
    /// The turn. Its trace is what was said before.
    pub turn: Turn,
    /// Who can be asked besides the policy.
    pub others: Vec<&'static str>,
    /// Tokens, read and generated, that a strategy which takes any number of drafts has to reach.
    pub budget: Option<usize>,
    /// The notes that it can read, if there are any.
    pub memory: Option<Arc<dyn Memory>>,
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
    pub questions: Vec<Question>,
    /// How tokens are chosen.
    pub sampling: Arc<Sampling>,
}

/// The conversation that a turn reads.
#[derive(Debug, Clone)]
pub struct Question {
    /// The position that it continues, unless it is a judge's.
    pub at: usize,
    /// The conversation.
    pub messages: Arc<Vec<Message>>,
}

/// Answers one turn, or plays on by itself: an answer can be acted on ([`Session::act`]), which leads to another position, where
/// the next turn is asked for. Position 0 is where the turn was asked.
pub struct Session<'s> {
    handle: Handle,
    /// The policy; its trace is the tree of its answers.
    agent: Agent,
    asked: Asked,
    /// Was any turn asked for?
    is_begun: Cell<bool>,
    considered: RefCell<Considered>,
    /// The trace of each candidate of the policy itself.
    traces: RefCell<Vec<Option<Trace>>>,
    /// The end of each candidate of the policy itself in its tree.
    ends: RefCell<Vec<Option<NodeId>>>,
    reached: RefCell<Vec<Reached<'s>>>,
}

/// A position that was reached.
struct Reached<'s> {
    position: Box<dyn Position<'s> + 's>,
    /// The candidate that led there.
    by: Option<usize>,
}

/// A turn that is answered.
pub(crate) struct Over<'s> {
    pub(crate) considered: Considered,
    pub(crate) trace: Trace,
    pub(crate) output: TurnOutput,
    /// The position after the answer; the one before it, if it was not acted on.
    pub(crate) position: Box<dyn Position<'s> + 's>,
    /// The end of the answer in the policy's tree.
    pub(crate) end: Option<NodeId>,
}

impl<'s> Session<'s> {
    /// A session that answers a turn at a position; `agent` answers as the policy and has read what the turn has.
    pub(crate) fn new(
        handle: Handle,
        agent: Agent,
        asked: Asked,
        position: Box<dyn Position<'s> + 's>,
    ) -> Self {
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
        Session {
            handle,
            agent,
            asked,
            is_begun: Cell::new(false),
            considered: RefCell::new(considered),
            traces: RefCell::default(),
            ends: RefCell::default(),
            reached: RefCell::new(vec![Reached { position, by: None }]),
        }
    }

    /// The conversation as it was asked.
    pub fn messages(&self) -> Arc<Vec<Message>> {
        Arc::clone(&self.asked.turn.messages)
    }

    /// The notes of the memory that are nearest to what is asked about: at most `count`, and none that were made of the task that
    /// is played.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn recall(&self, about: &str, count: usize) -> Result<Vec<Note>, ContactError> {
        let none = || PolicyError::Failed("there is no memory here: name one in `[memory]`".to_owned());
        let memory = self.asked.memory.as_ref().ok_or_else(none)?;
        Ok(memory.recall(about, count, self.reached.borrow()[0].position.task()))
    }

    /// The policy's next question at a position.
    pub fn question(&self, at: usize) -> Question {
        let messages = match at {
            0 => self.messages(),
            _ => Arc::clone(self.reached.borrow()[at].position.messages()),
        };
        Question { at, messages }
    }

    /// Is the episode over at a position?
    pub fn is_over(&self, at: usize) -> bool {
        self.reached.borrow()[at].position.ending().is_some()
    }

    /// Sampling of the turn.
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
    /// session draws by the seed of the turn that is answered, every other one by [`Session::seed`]. A position other than the
    /// first gives no candidates if the episode is over there, or its conversation no longer fits the policy's context.
    ///
    /// # Errors
    /// If a turn can't be answered.
    pub async fn sample(&self, request: Request) -> Result<Vec<usize>, ContactError> {
        let Request { role, who, stage, first, questions, sampling } = request;
        let is_policy = who == POLICY || !self.asked.others.contains(&who);
        if who == REWARD_MODEL && is_policy {
            return Err(PolicyError::Unable("be asked for numbers: no reward model is there").into());
        }
        let was_begun = self.is_begun.replace(true);
        let seed = |at: usize| match was_begun || at > 0 {
            true => self.seed(stage, first + at as u32),
            false => self.asked.turn.seed,
        };
        let said: Vec<(usize, Said)> = match is_policy {
            true => {
                let asked =
                    questions.iter().enumerate().map(|(at, question)| (at, question.clone(), seed(at)));
                self.say(role, asked.collect(), &sampling).await?
            }
            false => {
                let who: Arc<str> = who.into();
                let asked = self.handle.all(questions.len() as u32, |at, handle| {
                    let place = at as usize;
                    let question = &questions[place];
                    let ask = self.asking(role, question, &sampling, seed(place));
                    // A reward model reads the candidate itself, as it was sampled.
                    let traces = self.traces.borrow();
                    let read = (*who == *REWARD_MODEL).then(|| traces.get((first + at) as usize).cloned());
                    let before = read.flatten().flatten().unwrap_or_default();
                    let who = &who;
                    async move {
                        let known = before.nodes().len();
                        let messages = Arc::clone(&ask.messages);
                        let agent = handle.agent(who, before);
                        let output = handle.sample(&agent, ask).await?;
                        let trace = handle.trace(&agent);
                        let cost = Cost::of(known, &trace, &messages, &output);
                        Ok((place, Said { output, trace, end: None, cost }))
                    }
                });
                asked.await.into_iter().collect::<Result<_, ContactError>>()?
            }
        };
        let (mut considered, mut traces) = (self.considered.borrow_mut(), self.traces.borrow_mut());
        let from = considered.candidates.len();
        for (place, Said { output, trace, end, cost }) in said {
            let TurnOutput { message, malformed, stop, .. } = output;
            considered.tokens += cost.tokens;
            considered.is_counted &= cost.is_counted;
            considered.candidates.push(Candidate {
                role,
                stage,
                number: first + place as u32,
                position: questions[place].at,
                message,
                stop,
                malformed,
                answer: None,
                mean_logprob: cost.mean_logprob,
                tokens: cost.tokens,
            });
            traces.push(is_policy.then_some(trace));
            self.ends.borrow_mut().push(end);
        }
        Ok((from..considered.candidates.len()).collect())
    }

    fn asking(&self, role: Role, question: &Question, sampling: &Arc<Sampling>, seed: u64) -> Ask {
        let (messages, sampling) = (Arc::clone(&question.messages), Arc::clone(sampling));
        // Judges are asked in words.
        let tools = if role == Role::Grade { Arc::default() } else { self.tools(question.at) };
        Ask { messages, tools, prefix: Vec::new(), sampling, seed }
    }

    /// Has the policy answer questions, side by side, each with its place and its seed.
    async fn say(
        &self,
        role: Role,
        mut open: Vec<(usize, Question, u64)>,
        sampling: &Arc<Sampling>,
    ) -> Result<Vec<(usize, Said)>, ContactError> {
        let shared = self.asked.turn.trace.nodes().len();
        // A judge's conversation begins anew.
        let from = |at: usize| if role == Role::Grade { None } else { self.end_before(at) };
        let mut answers: Vec<(usize, Said)> = Vec::with_capacity(open.len());
        loop {
            open.retain(|(_, question, _)| question.at == 0 || !self.is_over(question.at));
            if open.is_empty() {
                break;
            }
            let asks = open
                .iter()
                .map(|(_, question, seed)| (from(question.at), self.asking(role, question, sampling, *seed)));
            let outputs = self.handle.sample_each(&self.agent, asks.collect()).await;
            let tree = self.handle.trace(&self.agent);
            let mut again: Vec<(usize, Question, u64)> = Vec::new();
            for ((place, question, seed), said) in std::mem::take(&mut open).into_iter().zip(outputs) {
                match said {
                    Ok((output, end)) => {
                        let known = tree.along(shared, from(question.at)).nodes().len();
                        let trace = tree.along(shared, end);
                        let cost = Cost::of(known, &trace, &question.messages, &output);
                        answers.push((place, Said { output, trace, end, cost }));
                    }
                    Err(ContactError::Policy(PolicyError::PromptTooLong { tokens, tokens_max }))
                        if question.at > 0 =>
                    {
                        // The first of a position's questions makes room for all of them.
                        if again.iter().all(|(_, other, _)| other.at != question.at) {
                            self.reached.borrow_mut()[question.at].position.make_room(tokens, tokens_max)?;
                        }
                        again.push((place, self.question(question.at), seed));
                    }
                    Err(error) => return Err(error),
                }
            }
            open = again;
        }
        answers.sort_by_key(|(place, _)| *place);
        Ok(answers)
    }

    fn tools(&self, at: usize) -> Arc<Vec<ToolSpec>> {
        match at {
            0 => Arc::clone(&self.asked.turn.tools),
            _ => Arc::clone(self.reached.borrow()[at].position.tools()),
        }
    }

    /// The end of the conversation before a position in the policy's tree.
    fn end_before(&self, at: usize) -> Option<NodeId> {
        match self.reached.borrow()[at].by {
            None => self.asked.turn.trace.head(),
            Some(candidate) => self.ends.borrow()[candidate],
        }
    }

    /// Gives the environment candidates, side by side, each at its position, and returns the positions to which they lead. Where
    /// only a turn is answered, it is over then.
    ///
    /// # Errors
    /// If somebody whom the environment asks can't answer.
    pub async fn act(&self, among: &[usize]) -> Result<Vec<usize>, ContactError> {
        let mut next = Vec::with_capacity(among.len());
        for candidate in among {
            let (at, output) = self.read(|candidates| {
                let Candidate { position, message, malformed, stop, .. } = &candidates[*candidate];
                let output = TurnOutput::new(message.clone(), *stop);
                (*position, TurnOutput { malformed: malformed.clone(), ..output })
            });
            let position = self.reached.borrow_mut()[at].position.fork(&self.handle);
            next.push(Some((position, output)));
        }
        if let [only] = &mut next[..]
            && let Some((mut position, output)) = only.take()
        {
            // As in an episode that tries nothing else.
            position.act(&self.handle, output).await?;
            return Ok(self.reached_by(among, [position]));
        }
        let next: Vec<Cell<_>> = next.into_iter().map(Cell::new).collect();
        let acted = self.handle.all(among.len() as u32, |at, handle| {
            let next = next[at as usize].take();
            async move {
                let Some((mut position, output)) = next else { return Ok(None) };
                position.act(&handle, output).await.map(|()| Some(position))
            }
        });
        let acted: Result<Vec<_>, ContactError> = acted.await.into_iter().collect();
        Ok(self.reached_by(among, acted?.into_iter().flatten()))
    }

    fn reached_by(
        &self,
        among: &[usize],
        positions: impl IntoIterator<Item = Box<dyn Position<'s> + 's>>,
    ) -> Vec<usize> {
        let mut reached = self.reached.borrow_mut();
        let from = reached.len();
        let by = among.iter().map(|candidate| Some(*candidate));
        reached.extend(by.zip(positions).map(|(by, position)| Reached { position, by }));
        (from..reached.len()).collect()
    }

    /// Acts on a candidate, unless that was done.
    pub(crate) async fn reach(&self, candidate: usize) -> Result<(), ContactError> {
        if self.reached.borrow().iter().all(|reached| reached.by != Some(candidate)) {
            self.act(&[candidate]).await?;
        }
        Ok(())
    }

    /// The position where the turn was asked, for a session that can't answer it.
    pub(crate) fn give_up(self) -> Box<dyn Position<'s> + 's> {
        self.reached.into_inner().swap_remove(0).position
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
    pub(crate) fn finish(self, chosen: usize) -> Over<'s> {
        let Session { asked, considered, traces, ends, reached, .. } = self;
        let considered = Considered { chosen, ..considered.into_inner() };
        let (traces, ends) = (traces.into_inner(), ends.into_inner());
        let known = asked.turn.trace.nodes().len();
        let mut trace = asked.turn.trace;
        let order = (0..traces.len()).filter(|at| *at != chosen).chain([chosen]);
        for at in order {
            if let Some(own) = &traces[at] {
                trace.graft(own, known);
            }
        }
        let candidate = &considered.candidates[chosen];
        let (message, malformed, stop) =
            (candidate.message.clone(), candidate.malformed.clone(), candidate.stop);
        let output = TurnOutput { malformed, ..TurnOutput::new(message, stop) };
        let mut reached = reached.into_inner();
        let after = reached.iter().position(|reached| reached.by == Some(chosen)).unwrap_or(0);
        let position = reached.swap_remove(after).position;
        Over { considered, trace, output, position, end: ends[chosen] }
    }
}

/// A turn that was asked for.
struct Said {
    output: TurnOutput,
    trace: Trace,
    end: Option<NodeId>,
    cost: Cost,
}
