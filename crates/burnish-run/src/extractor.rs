//! The model that copies final answers out of responses.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;

use burnish_core::{Abilities, Answered, Message, Policy, Role, Trace, Turn, TurnId, TurnOutput};
use burnish_remote::endpoint::EndpointConfig;
use burnish_tensor::Device;

use crate::RunError;
use crate::asked::{Asked, How};

/// Answers that are remembered at the same time.
const REMEMBERED_MAX: usize = 1 << 14;

/// Asks a model to copy final answers, outside of episodes.
pub struct Extractor(Asked);

impl Extractor {
    /// The model in the directory `named`, or `model` on the server at the URL `named`, which speaks OpenAI's wire format.
    ///
    /// # Errors
    /// If the model can't be loaded, or the URL is none.
    pub fn open(named: &str, model: &str) -> Result<Self, RunError> {
        let is_url = named.starts_with("http://") || named.starts_with("https://");
        let endpoint = is_url.then(|| EndpointConfig::new(named, model, None));
        let path = (!is_url).then(|| Path::new(named));
        Asked::named("extractor", path, endpoint.as_ref(), &Device::cpu()).map(Extractor)
    }

    /// The reply to each question ([`burnish_verify::extraction`]), of at most `tokens_max` tokens.
    ///
    /// # Errors
    /// If the model can't answer.
    pub fn ask(&mut self, questions: Vec<String>, tokens_max: usize) -> Result<Vec<String>, RunError> {
        let messages = questions.into_iter().map(|question| vec![Message::new(Role::User, question)]);
        self.0.ask(messages.collect(), How { temperature: 0.0, tokens_max, seed: 0 })
    }
}

/// A policy that answers a question as it did the first time, without being asked again. For policies that answer
/// greedily.
pub(crate) struct Remembering {
    policy: Box<dyn Policy>,
    known: HashMap<String, (Trace, TurnOutput)>,
    /// The pending turns by the policy's id: the id here, and the question.
    asked: BTreeMap<TurnId, (TurnId, String)>,
    remembered: VecDeque<Answered>,
    submitted: u64,
}

impl Remembering {
    pub(crate) fn new(policy: Box<dyn Policy>) -> Self {
        Remembering {
            policy,
            known: HashMap::new(),
            asked: BTreeMap::new(),
            remembered: VecDeque::new(),
            submitted: 0,
        }
    }

    /// Gives answers of the policy the ids under which they were asked for here.
    fn renamed(&mut self, answered: Vec<Answered>) -> Vec<Answered> {
        let renamed = answered.into_iter().filter_map(|Answered { id, trace, result }| {
            let (id, question) = self.asked.remove(&id)?;
            if let Ok(output) = &result {
                if self.known.len() >= REMEMBERED_MAX {
                    self.known.clear();
                }
                self.known.insert(question, (trace.clone(), output.clone()));
            }
            Some(Answered { id, trace, result })
        });
        renamed.collect()
    }
}

impl Policy for Remembering {
    fn abilities(&self) -> Abilities {
        self.policy.abilities()
    }

    fn version(&self) -> u64 {
        self.policy.version()
    }

    fn submit(&mut self, turn: Turn) -> TurnId {
        let id = TurnId(self.submitted);
        self.submitted += 1;
        let question: Vec<&str> = turn.messages.iter().map(|message| message.content.as_str()).collect();
        let question = question.join("\u{0}");
        match self.known.get(&question) {
            Some((trace, output)) => {
                let (trace, result) = (trace.clone(), Ok(output.clone()));
                self.remembered.push_back(Answered { id, trace, result });
            }
            None => {
                let asked = self.policy.submit(turn);
                self.asked.insert(asked, (id, question));
            }
        }
        id
    }

    fn poll(&mut self) -> Vec<Answered> {
        if !self.remembered.is_empty() {
            return self.remembered.drain(..).collect();
        }
        let answered = self.policy.poll();
        self.renamed(answered)
    }

    fn wait(&mut self) -> Vec<Answered> {
        if !self.remembered.is_empty() {
            return self.remembered.drain(..).collect();
        }
        let answered = self.policy.wait();
        self.renamed(answered)
    }

    fn is_remote(&self) -> bool {
        self.policy.is_remote()
    }

    fn cancel(&mut self, id: TurnId) -> bool {
        let before = self.remembered.len();
        self.remembered.retain(|answered| answered.id != id);
        let asked = self.asked.iter().find(|(_, (own, _))| *own == id).map(|(asked, _)| *asked);
        match asked {
            Some(asked) => {
                self.asked.remove(&asked);
                self.policy.cancel(asked)
            }
            None => self.remembered.len() < before,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::Arc;

    use burnish_core::{Sampling, Script, StopReason, answer_all};

    use super::*;

    #[test]
    fn a_question_is_asked_once_and_its_answer_is_the_same_each_time() {
        let count = Rc::new(Cell::new(0));
        let counted = Rc::clone(&count);
        let script = Script::new(move |turn: &Turn| {
            counted.set(counted.get() + 1);
            let said = format!("{} {}", turn.messages[0].content, counted.get());
            Ok((said, StopReason::EndToken))
        });
        let mut policy = Remembering::new(Box::new(script));
        let turn = |text: &str| Turn {
            trace: Trace::new(),
            messages: Arc::new(vec![Message::new(Role::User, text.to_owned())]),
            tools: Arc::default(),
            prefix: Vec::new(),
            sampling: Arc::new(Sampling::greedy(4)),
            seed: 1,
        };
        let mut ask = |texts: &[&str]| -> Vec<String> {
            let answers = answer_all(&mut policy, texts.iter().map(|text| turn(text)));
            answers.into_iter().map(|(_, result)| result.unwrap().message.content).collect()
        };
        assert_eq!(ask(&["a", "b"]), ["a 1", "b 2"]);
        assert_eq!(ask(&["b", "c", "a"]), ["b 2", "c 3", "a 1"]);
        assert_eq!(count.get(), 3);
        let id = policy.submit(turn("a"));
        assert!(policy.cancel(id) && !policy.cancel(id) && policy.poll().is_empty());
    }
}
