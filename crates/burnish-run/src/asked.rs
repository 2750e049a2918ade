//! A policy that only answers and is never trained: a judge, a simulated user, an engineer.

use std::path::Path;
use std::sync::Arc;

use burnish_core::{Message, Policy, PolicyError, Sampling, Trace, Turn, TurnOutput, answer_all};
use burnish_engine::Limits;
use burnish_model::{Chat, Loading, TextTokens, Trains};
use burnish_reason::{REWARD_MODEL, Strategist, StrategyConfig};
use burnish_recipe::InPlace;
use burnish_remote::endpoint::{EndpointConfig, EndpointPolicy};
use burnish_tensor::{Device, Precision};

use crate::RunError;
use crate::policy::LoadedPolicy;
use crate::reward_model::RewardReader;

const LOADING: Loading =
    Loading { precision: Precision::F32, trains: Trains::Nothing, text_tokens: TextTokens::Literal };

/// A policy that only answers: a model directory, or a server that speaks OpenAI's wire format.
pub(crate) struct Asked {
    pub(crate) policy: Box<dyn Policy>,
    /// Its chat format, if it is a model in this process.
    pub(crate) chat: Option<Arc<Chat>>,
}

/// How answers are sampled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    pub(crate) temperature: f32,
    pub(crate) tokens_max: usize,
    pub(crate) seed: u64,
}

impl Asked {
    /// The policy from `path` or `endpoint`, whichever is given. A model runs on `device`.
    ///
    /// # Errors
    /// If the model can't be loaded, or the server's key is missing.
    pub(crate) fn open(
        path: Option<&Path>,
        endpoint: Option<&EndpointConfig>,
        device: &Device,
    ) -> Result<Option<Self>, RunError> {
        Ok(match (path, endpoint) {
            (Some(path), _) => {
                let loaded = LoadedPolicy::load(path, &LOADING)?.on(device);
                let policy = Box::new(loaded.sampler(0, Limits::default()));
                Some(Asked { policy, chat: Some(loaded.chat) })
            }
            (None, Some(endpoint)) => {
                Some(Asked { policy: Box::new(EndpointPolicy::new(endpoint.clone())?), chat: None })
            }
            (None, None) => None,
        })
    }

    /// The policy that is asked in place of the trained one, if a recipe names one.
    ///
    /// # Errors
    /// As [`Asked::open`].
    pub(crate) fn in_place(who: Option<&InPlace>, device: &Device) -> Result<Option<Self>, RunError> {
        match who {
            Some(InPlace::Model(path)) => Asked::open(Some(path), None, device),
            Some(InPlace::Endpoint(endpoint)) => Asked::open(None, Some(endpoint), device),
            None => Ok(None),
        }
    }

    /// As [`Asked::open`], where a recipe has to name one below `key`.
    ///
    /// # Errors
    /// As [`Asked::open`], and if none is named.
    pub(crate) fn named(
        key: &str,
        path: Option<&Path>,
        endpoint: Option<&EndpointConfig>,
        device: &Device,
    ) -> Result<Self, RunError> {
        let asked = Asked::open(path, endpoint, device)?;
        asked.ok_or_else(|| RunError::Refused(format!("{key}: needs `path` or `endpoint`")))
    }

    /// The same, answering by a strategy if one is given; `key` is where the recipe names both. Models that the strategy asks
    /// run on `device`.
    ///
    /// # Errors
    /// If it is none, or asks a reward model that can't be used.
    pub(crate) fn by(
        self,
        strategy: Option<&StrategyConfig>,
        key: &str,
        device: &Device,
    ) -> Result<Self, RunError> {
        let Some(strategy) = strategy else { return Ok(self) };
        let built = strategy.build().map_err(|error| RunError::Refused(format!("{key}.strategy.{error}")))?;
        let Asked { policy, chat } = self;
        let tokenizer = chat.as_deref().map(|chat| &*chat.tokenizer);
        let model = RewardReader::of_strategy(&*built, &format!("{key}.strategy."), tokenizer, device)?;
        let mut strategist = Strategist::over(policy, built);
        if let Some(model) = model {
            strategist = strategist.with(REWARD_MODEL, model);
        }
        Ok(Asked { policy: Box::new(strategist), chat })
    }

    /// Its answer to each question.
    ///
    /// # Errors
    /// If it can't answer.
    pub(crate) fn ask(&mut self, questions: Vec<Vec<Message>>, how: How) -> Result<Vec<String>, RunError> {
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
        let answers = answer_all(&mut *self.policy, questions.into_iter().map(turn));
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
        let mut asked = Asked::open(None, Some(&endpoint), &Device::cpu()).unwrap().unwrap();
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
        let voting = Asked::open(None, Some(&voting), &Device::cpu()).unwrap().unwrap();
        let mut voting = voting.by(Some(&strategy), "judge", &Device::cpu()).unwrap();
        assert_eq!(voting.ask(vec![message(1)], how).unwrap(), ["A"]);
        assert_eq!(sent.lock().unwrap().len(), 3);
        let unknown = StrategyConfig::new("majorty");
        let error = Asked::open(None, Some(&endpoint), &Device::cpu()).unwrap().unwrap();
        let error = error.by(Some(&unknown), "judge", &Device::cpu()).err().unwrap().to_string();
        assert!(error.contains("judge.strategy") && error.contains("did you mean `majority`"), "{error}");

        // An address on which nobody listens any more.
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let endpoint = EndpointConfig { url: format!("http://{gone}/v1"), ..endpoint };
        assert!(
            Asked::open(None, Some(&endpoint), &Device::cpu()).unwrap().unwrap().ask(questions, how).is_err()
        );
    }
}
