mod streaming;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use burnish_core::reflection::question;
use burnish_core::{
    Abilities, Answered, Grammar, Policy, PolicyError, Sampling, ToolSpec, Trace, Turn, TurnId,
};
use burnish_model::{Chat, Generated, Model};
use burnish_tensor::Visibility;

use crate::control::Control;
use crate::grammar::{Answers, GrammarError, Grammars};
use crate::latent::{LatentIds, LatentSteps};
use crate::{Denoiser, Ended, EngineError, Limits, Request, RequestId, Sampler, Stats};
use crate::{contrast, thoughts};
use streaming::Reader;

/// A model in this process, used through its chat format: an open batch over one snapshot of its weights.
///
/// It works only while it is polled or waited for. Its packed weights and its cache belong to that snapshot, so it is
/// dropped before the weights are updated.
pub struct LocalPolicy {
    model: Arc<Model>,
    chat: Arc<Chat>,
    version: u64,
    limits: Limits,
    end_ids: Arc<[u32]>,
    /// Made with the first turn.
    answering: Option<Answering>,
    /// Made with the first turn that is held to a grammar.
    grammars: Option<Grammars>,
    /// The languages of the last such turns.
    languages: VecDeque<Language>,
    /// What controls of thoughts have found out.
    known: thoughts::Known,
    asked: BTreeMap<RequestId, Asked>,
    over: Vec<Answered>,
    submitted: u64,
}

/// How the model answers.
enum Answering {
    /// Token by token.
    Sampling(Box<Sampler>),
    /// From masks.
    Denoising(Box<Denoiser>),
}

impl Answering {
    fn stats(&self) -> Stats {
        match self {
            Answering::Sampling(sampler) => sampler.stats(),
            Answering::Denoising(denoiser) => denoiser.stats(),
        }
    }

    fn submit(
        &mut self,
        request: Request,
        controls: Vec<Box<dyn Control>>,
    ) -> Result<RequestId, EngineError> {
        match self {
            Answering::Sampling(sampler) => sampler.submit_under(request, controls),
            Answering::Denoising(denoiser) => denoiser.submit(request),
        }
    }

    fn advance(&mut self) -> Result<Vec<Ended>, EngineError> {
        match self {
            Answering::Sampling(sampler) => sampler.advance(),
            Answering::Denoising(denoiser) => denoiser.advance(),
        }
    }

    fn cancel(&mut self, request: RequestId) -> bool {
        match self {
            Answering::Sampling(sampler) => sampler.cancel(request),
            Answering::Denoising(denoiser) => denoiser.cancel(request),
        }
    }

    /// The ids of an answer so far; of one that comes out of masks there is no such thing.
    fn sampled(&self, request: RequestId) -> Option<&[u32]> {
        match self {
            Answering::Sampling(sampler) => sampler.sampled(request),
            Answering::Denoising(_) => None,
        }
    }

    /// Ends an answer where it is; one that comes out of masks is given up.
    fn stop(&mut self, request: RequestId) -> Option<Generated> {
        match self {
            Answering::Sampling(sampler) => sampler.stop(request),
            Answering::Denoising(denoiser) => {
                denoiser.cancel(request);
                None
            }
        }
    }
}

/// Languages that are kept: tasks that are sampled at once may each offer other tools.
const LANGUAGES_MAX: usize = 64;

/// A language that answers are held to.
struct Language {
    grammar: Grammar,
    /// The tools, if it is theirs.
    tools: Option<Arc<Vec<ToolSpec>>>,
    /// What holds answers to it; `None` if any answer is in the language.
    answers: Option<Answers>,
}

/// A turn under way.
struct Asked {
    id: TurnId,
    turn: Turn,
    /// Its trace with the prompt at its head.
    trace: Trace,
    /// Made when somebody first reads the answer under way.
    reader: Option<Reader>,
}

impl LocalPolicy {
    /// The policy of `model`, whose weights have had `version` updates.
    pub fn new(model: &Arc<Model>, chat: &Arc<Chat>, version: u64) -> Self {
        LocalPolicy {
            model: Arc::clone(model),
            chat: Arc::clone(chat),
            version,
            limits: Limits::default(),
            end_ids: chat.end_ids().into(),
            answering: None,
            grammars: None,
            languages: VecDeque::new(),
            known: thoughts::Known::default(),
            asked: BTreeMap::new(),
            over: Vec::new(),
            submitted: 0,
        }
    }

    /// Sets limits on batch and context.
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Statistics of all turns so far.
    pub fn stats(&self) -> Stats {
        self.answering.as_ref().map_or_else(Stats::default, Answering::stats)
    }

    /// Submits the request for a turn; returns its id, and the trace with the prompt at its head.
    fn begin(&mut self, turn: &Turn) -> Result<(RequestId, Trace), PolicyError> {
        self.abilities().check(turn)?;
        let (trace, request) = self.read(turn)?;
        let controls = self.controls(turn, &request.prompt)?;
        let failed = |error: EngineError| PolicyError::Failed(error.to_string());
        let answering = match self.answering.take() {
            Some(answering) => answering,
            None => self.answering().map_err(failed)?,
        };
        let submitted = self.answering.insert(answering).submit(request, controls);
        Ok((submitted.map_err(failed)?, trace))
    }

    fn answering(&self) -> Result<Answering, EngineError> {
        let (model, limits) = (Arc::clone(&self.model), self.limits.clone());
        Ok(match self.model.visibility() {
            Visibility::Bidirectional => Answering::Denoising(Box::new(Denoiser::new(model, limits)?)),
            Visibility::Causal => {
                let tokenizer = Some(Arc::clone(&self.chat.tokenizer));
                Answering::Sampling(Box::new(Sampler::new(model, tokenizer, limits)?))
            }
        })
    }

    /// The controls of the answer to a turn, whose ids are `prompt`.
    fn controls(&mut self, turn: &Turn, prompt: &[u32]) -> Result<Vec<Box<dyn Control>>, PolicyError> {
        let sampling = &*turn.sampling;
        let failed = |problem: String| PolicyError::Failed(format!("sampling.contrast: {problem}"));
        let contrast = sampling.contrast.as_ref();
        let contrast = contrast.map(|contrast| contrast::control(contrast, prompt, &self.chat.tokenizer));
        let contrast = contrast.transpose().map_err(failed)?.flatten();
        let latent = sampling.latent.as_ref().map(|rule| -> Result<Box<dyn Control>, PolicyError> {
            let failed = |problem: String| PolicyError::Failed(format!("sampling.latent: {problem}"));
            let ids = LatentIds::of(&self.chat.tokenizer).map_err(failed)?;
            Ok(Box::new(LatentSteps { rule: rule.clone(), ids }))
        });
        let latent = latent.transpose()?;
        let controlled = sampling.thoughts.as_ref().map(|thoughts| {
            let failed = |problem: String| PolicyError::Failed(format!("sampling.thoughts: {problem}"));
            let asked = thoughts::Asked {
                prompt,
                question: question(&turn.messages),
                seed: turn.seed,
                context_tokens_max: self.limits.context_tokens_max(&self.model),
                end_ids: &self.end_ids,
                tokenizer: &self.chat.tokenizer,
            };
            thoughts::control(thoughts, asked, &mut self.known).map_err(failed)
        });
        let controlled = controlled.transpose()?.flatten();
        let held = self.held(turn)?;
        Ok(contrast.into_iter().chain(latent).chain(controlled).chain(held).collect())
    }

    /// The control that holds the answer to a turn to its grammar, if it has one.
    fn held(&mut self, turn: &Turn) -> Result<Option<Box<dyn Control>>, PolicyError> {
        let Some(grammar) = &turn.sampling.grammar else { return Ok(None) };
        let failed = |error: GrammarError| PolicyError::Failed(format!("sampling.grammar: {error}"));
        let of_tools = matches!(grammar, Grammar::Tools);
        let tools = of_tools.then(|| Arc::clone(&turn.tools));
        let known = self.languages.iter().position(|known| known.grammar == *grammar && known.tools == tools);
        let mut language = match known.and_then(|place| self.languages.remove(place)) {
            Some(known) => known,
            None => {
                let grammars = match &mut self.grammars {
                    Some(grammars) => grammars,
                    none => {
                        let ids = self.model.vocab().len();
                        let grammars = Grammars::new(&self.chat.tokenizer, &self.end_ids, ids);
                        none.insert(grammars.map_err(failed)?)
                    }
                };
                let offered = tools.as_ref().map(|tools| (tools.as_slice(), &self.chat.template));
                let held = grammars.start(grammar, offered).map_err(failed)?;
                Language { grammar: grammar.clone(), tools, answers: held.map(Answers::of) }
            }
        };
        let held = language.answers.as_mut().map(Answers::next);
        self.languages.truncate(LANGUAGES_MAX - 1);
        self.languages.push_front(language);
        // Other grammars are those of what is sampled; a call may have been begun.
        let held = match (held, of_tools) {
            (Some(held), true) => Some(held.begun(&turn.prefix).map_err(failed)?),
            (held, _) => held,
        };
        Ok(held.map(|held| Box::new(held) as Box<dyn Control>))
    }

    /// The trace with the turn's prompt at its head, and the request for the answer.
    fn read(&self, turn: &Turn) -> Result<(Trace, Request), PolicyError> {
        let tokens_max = self.limits.context_tokens_max(&self.model).saturating_sub(1);
        let (trace, prompt) = self.chat.pose(turn, tokens_max)?;
        let sampling = Sampling::clone(&turn.sampling);
        let end_ids = Arc::clone(&self.end_ids);
        Ok((trace, Request { prompt, sampling, seed: turn.seed, end_ids }))
    }

    fn finish(&self, asked: Asked, answer: Result<Generated, EngineError>) -> Answered {
        let Asked { id, turn, mut trace, reader: _ } = asked;
        let answer = answer.map_err(|error| PolicyError::Failed(error.to_string()));
        let recorded =
            answer.and_then(|answer| self.chat.take_answer(&mut trace, &turn, answer, self.version));
        match recorded {
            Ok(output) => Answered { id, trace, result: Ok(output) },
            Err(error) => Answered { id, trace: turn.trace, result: Err(error) },
        }
    }

    /// Does one piece of the sampler's work.
    fn advance(&mut self) {
        let Some(answering) = &mut self.answering else { return };
        match answering.advance() {
            Ok(ended) => {
                for (request, answer) in ended {
                    if let Some(asked) = self.asked.remove(&request) {
                        let answered = self.finish(asked, answer);
                        self.over.push(answered);
                    }
                }
            }
            Err(error) => {
                for asked in std::mem::take(&mut self.asked).into_values() {
                    let answered = self.finish(asked, Err(error.clone()));
                    self.over.push(answered);
                }
            }
        }
    }
}

impl Policy for LocalPolicy {
    fn abilities(&self) -> Abilities {
        match self.model.visibility() {
            Visibility::Causal => Abilities::ALL,
            Visibility::Bidirectional => Abilities::DENOISING,
        }
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn submit(&mut self, turn: Turn) -> TurnId {
        let id = TurnId(self.submitted);
        self.submitted += 1;
        match self.begin(&turn) {
            Ok((request, trace)) => {
                self.asked.insert(request, Asked { id, turn, trace, reader: None });
            }
            Err(error) => self.over.push(Answered { id, trace: turn.trace, result: Err(error) }),
        }
        id
    }

    fn poll(&mut self) -> Vec<Answered> {
        if self.over.is_empty() {
            self.advance();
        }
        std::mem::take(&mut self.over)
    }

    fn wait(&mut self) -> Vec<Answered> {
        while self.over.is_empty() && !self.asked.is_empty() {
            self.advance();
        }
        std::mem::take(&mut self.over)
    }

    fn cancel(&mut self, id: TurnId) -> bool {
        let under_way = self.asked.iter().find(|(_, asked)| asked.id == id).map(|(request, _)| *request);
        if let (Some(request), Some(answering)) = (under_way, &mut self.answering) {
            self.asked.remove(&request);
            return answering.cancel(request);
        }
        let before = self.over.len();
        self.over.retain(|answered| answered.id != id);
        self.over.len() < before
    }
}
