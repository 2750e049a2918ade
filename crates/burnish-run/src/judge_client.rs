//! A policy that only answers questions and is not trained: a model directory, or a server that speaks OpenAI's wire
//! format.

use std::path::Path;
use std::sync::Arc;

use burnish_core::{Message, Policy, PolicyError, Sampling, Trace, Turn, TurnOutput, answer_all};
use burnish_engine::Limits;
use burnish_model::{Loading, TextTokens, Trains};
use burnish_reason::{REWARD_MODEL, Strategist, Strategy, StrategyConfig};
use burnish_remote::endpoint::{EndpointConfig, EndpointPolicy};
use burnish_tensor::{Device, Precision};

use crate::RunError;
use crate::policy::LoadedPolicy;
use crate::reward_model::RewardReader;

const LOADING: Loading =
    Loading { precision: Precision::F32, trains: Trains::Nothing, text_tokens: TextTokens::Literal };

/// A policy that answers questions, such as a judge. It is never trained.
pub(crate) struct JudgeClient {
    who: Who,
    /// What answers on top of it.
    strategy: Option<Arc<dyn Strategy>>,
    /// Who gives the answers of the strategy numbers.
    reward_model: Option<RewardReader>,
}

enum Who {
    Local(Box<LoadedPolicy>),
    Endpoint(Box<EndpointPolicy>),
}

/// How answers are sampled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    pub(crate) temperature: f32,
    pub(crate) tokens_max: usize,
    pub(crate) seed: u64,
}

impl JudgeClient {
    /// The policy from `path` or `endpoint`, whichever is given; a model runs on `device`.
    ///
    /// # Errors
    /// If the model can't be loaded, or the server's key is missing.
    pub(crate) fn new(
        path: Option<&Path>,
        endpoint: Option<&EndpointConfig>,
        device: &Device,
    ) -> Result<Self, RunError> {
        let who = match (path, endpoint) {
            (Some(path), _) => Who::Local(Box::new(LoadedPolicy::load(path, &LOADING)?.on(device))),
            (None, Some(endpoint)) => Who::Endpoint(Box::new(EndpointPolicy::new(endpoint.clone())?)),
            (None, None) => return Err(RunError::Refused("a judge needs `path` or `endpoint`".into())),
        };
        Ok(JudgeClient { who, strategy: None, reward_model: None })
    }

    /// The same, with a strategy on top of it if one is given; models that the strategy asks run on `device`.
    ///
    /// # Errors
    /// If it is none, or asks a reward model that can't be used.
    pub(crate) fn answering_by(
        self,
        strategy: Option<&StrategyConfig>,
        device: &Device,
    ) -> Result<Self, RunError> {
        let Some(strategy) = strategy else { return Ok(self) };
        let built = strategy.build();
        let strategy = built.map_err(|error| RunError::Refused(format!("judge.strategy.{error}")))?;
        let tokenizer = match &self.who {
            Who::Local(loaded) => Some(&*loaded.chat.tokenizer),
            Who::Endpoint(_) => None,
        };
        let reward_model = RewardReader::of_strategy(&*strategy, "judge.strategy.", tokenizer, device)?;
        Ok(JudgeClient { strategy: Some(strategy), reward_model, ..self })
    }

    /// Its answer to each question.
    ///
    /// # Errors
    /// If it can't answer.
    pub(crate) fn ask(&mut self, questions: Vec<Vec<Message>>, how: How) -> Result<Vec<String>, RunError> {
        let mut local;
        let policy: &mut dyn Policy = match &mut self.who {
            Who::Local(loaded) => {
                local = loaded.sampler(0, Limits::default());
                &mut local
            }
            Who::Endpoint(policy) => &mut **policy,
        };
        let (sampling, tools) = (Arc::new(Sampling::at(how.temperature, how.tokens_max)), Arc::default());
        let turn = |messages| Turn {
            trace: Trace::new(),
            messages: Arc::new(messages),
            tools: Arc::clone(&tools),
            prefix: Vec::new(),
            sampling: Arc::clone(&sampling),
            seed: how.seed,
        };
        let said = |(_, answer): (Trace, Result<TurnOutput, PolicyError>)| match answer {
            Ok(output) => Ok(output.message.content),
            Err(error) => Err(RunError::Refused(format!("a question got no answer: {error}"))),
        };
        let turns = questions.into_iter().map(turn);
        let answers = match &self.strategy {
            Some(strategy) => {
                let mut strategist = Strategist::new(policy, Arc::clone(strategy));
                if let Some(model) = &mut self.reward_model {
                    strategist = strategist.with(REWARD_MODEL, model);
                }
                answer_all(&mut strategist, turns)
            }
            None => answer_all(policy, turns),
        };
        answers.into_iter().map(said).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::net::TcpListener;

    use burnish_core::Role;
    use serde_json::json;

    use super::*;
    use crate::test_server::{question, said, serve};

    #[test]
    fn many_questions_are_answered_in_their_order_and_one_that_fails_is_an_error() {
        let (url, sent) = serve(|_, asked| said(&format!("re: {}", question(asked))));
        let endpoint: EndpointConfig =
            serde_json::from_value(json!({"url": url, "model": "m", "retries": 0})).unwrap();
        let mut asked = JudgeClient::new(None, Some(&endpoint), &Device::cpu()).unwrap();
        let how = How { temperature: 0.0, tokens_max: 4, seed: 1 };
        let message = |at: usize| vec![Message::new(Role::User, format!("question {at}"))];
        let questions: Vec<Vec<Message>> = (0..20).map(message).collect();
        let expected: Vec<String> = (0..20).map(|at| format!("re: question {at}")).collect();
        assert_eq!(asked.ask(questions.clone(), how).unwrap(), expected);
        assert_eq!(sent.lock().unwrap().len(), 20);
        assert!(asked.ask(Vec::new(), how).unwrap().is_empty());

        // The majority of its answers, of which every third differs.
        let (url, sent) = serve(|at, _| said(if at % 3 == 0 { "B" } else { "A" }));
        let voting: EndpointConfig =
            serde_json::from_value(json!({"url": url, "model": "m", "retries": 0})).unwrap();
        let strategy = StrategyConfig {
            strategy: "majority".into(),
            config: json!({"samples": 3, "equality": "exact", "temperature": 1.0}),
        };
        let voting = JudgeClient::new(None, Some(&voting), &Device::cpu()).unwrap();
        let mut voting = voting.answering_by(Some(&strategy), &Device::cpu()).unwrap();
        assert_eq!(voting.ask(vec![message(1)], how).unwrap(), ["A"]);
        assert_eq!(sent.lock().unwrap().len(), 3);
        let unknown = StrategyConfig::new("majorty");
        let error = JudgeClient::new(None, Some(&endpoint), &Device::cpu()).unwrap();
        let error = error.answering_by(Some(&unknown), &Device::cpu()).err().unwrap().to_string();
        assert!(error.contains("judge.strategy") && error.contains("did you mean `majority`"), "{error}");

        // An address on which nobody listens any more.
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let endpoint = EndpointConfig { url: format!("http://{gone}/v1"), ..endpoint };
        assert!(
            JudgeClient::new(None, Some(&endpoint), &Device::cpu()).unwrap().ask(questions, how).is_err()
        );
    }
}
