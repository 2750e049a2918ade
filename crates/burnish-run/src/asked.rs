//! A policy that is asked questions and not trained: a model directory, or a server with OpenAI's wire format.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use burnish_core::{Message, Policy, Sampling, Trace, Turn};
use burnish_engine::LocalPolicy;
use burnish_engine::endpoint::{ChatAnswer, ChatRequest, Endpoint, EndpointConfig, EndpointError};
use burnish_model::{Loading, Trains};
use burnish_tensor::{Device, Precision};

use crate::RunError;
use crate::policy::LoadedPolicy;

const LOADING: Loading = Loading { precision: Precision::F32, trains: Trains::Nothing };
/// Questions that a server is asked at once.
const AT_ONCE: usize = 8;

/// One that can be asked.
pub(crate) enum Asked {
    Local(Box<LoadedPolicy>),
    Endpoint(Endpoint),
}

/// How answers are sampled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    pub(crate) temperature: f32,
    pub(crate) tokens_max: usize,
    pub(crate) seed: u64,
}

/// Checks that exactly one of the two is given, and is well formed.
///
/// # Errors
/// The key that is wrong, and what it must be.
pub(crate) fn check(
    path: Option<&Path>,
    endpoint: Option<&EndpointConfig>,
    tokens_max: usize,
) -> Result<(), (String, String)> {
    let wrong = |key: &str, rule: &str| Err((key.to_owned(), rule.to_owned()));
    if tokens_max == 0 {
        return wrong("tokens_max", "must be 1 or more");
    }
    match (path, endpoint) {
        (Some(_), Some(_)) => wrong("endpoint", "excludes `path`: give one of them"),
        (None, None) => wrong("endpoint", "must say which policy judges; or give `path`, a model directory"),
        (Some(_), None) => Ok(()),
        (None, Some(endpoint)) => {
            endpoint.check().map_err(|(key, rule)| (format!("endpoint.{key}"), rule.to_owned()))
        }
    }
}

impl Asked {
    /// The one of the two that is given: a model is computed with on `device`.
    ///
    /// # Errors
    /// If the model can't be loaded, or the server's key is not there.
    pub(crate) fn new(
        path: Option<&Path>,
        endpoint: Option<&EndpointConfig>,
        device: &Device,
    ) -> Result<Self, RunError> {
        match (path, endpoint) {
            (Some(path), _) => Ok(Asked::Local(Box::new(LoadedPolicy::load(path, &LOADING)?.on(device)))),
            (None, Some(endpoint)) => Ok(Asked::Endpoint(Endpoint::new(endpoint.clone())?)),
            (None, None) => Err(RunError::Refused("a judge needs `path` or `endpoint`".into())),
        }
    }

    /// What it says to each question.
    ///
    /// # Errors
    /// If it can't be asked.
    pub(crate) fn ask(&self, questions: &[Vec<Message>], how: How) -> Result<Vec<String>, RunError> {
        match self {
            Asked::Local(policy) => local(policy, questions, how),
            Asked::Endpoint(endpoint) => served(endpoint, questions, how),
        }
    }
}

fn local(policy: &LoadedPolicy, questions: &[Vec<Message>], how: How) -> Result<Vec<String>, RunError> {
    let sampling = Sampling::at(how.temperature, how.tokens_max);
    let mut traces: Vec<Trace> = questions.iter().map(|_| Trace::new()).collect();
    let turn = |(trace, messages)| Turn {
        trace,
        messages,
        tools: &[],
        prefix: "",
        sampling: &sampling,
        seed: how.seed,
    };
    let mut turns: Vec<Turn<'_>> =
        traces.iter_mut().zip(questions.iter().map(Vec::as_slice)).map(turn).collect();
    let outputs = LocalPolicy::new(&policy.model, &policy.chat, 0).act(&mut turns);
    let said = |output: Result<burnish_core::TurnOutput, burnish_core::PolicyError>| {
        let output =
            output.map_err(|error| RunError::Refused(format!("the judge can't be asked: {error}")))?;
        Ok(output.message.content)
    };
    outputs.into_iter().map(said).collect()
}

fn served(endpoint: &Endpoint, questions: &[Vec<Message>], how: How) -> Result<Vec<String>, RunError> {
    let How { temperature, tokens_max, seed } = how;
    let request = |messages| ChatRequest { messages, temperature, tokens_max, seed };
    let requests: Vec<ChatRequest<'_>> = questions.iter().map(|messages| request(messages)).collect();
    let answers = ask_at_once(endpoint, &requests, |_| true);
    let said: Vec<String> =
        answers.into_iter().flatten().map(|answer| answer.map(|it| it.content)).collect::<Result<_, _>>()?;
    if said.len() < questions.len() {
        return Err(RunError::Refused("the judge gave no answer".into()));
    }
    Ok(said)
}

/// What a server answers to each request, several asked at once. After a failure that `ends` it no further one is sent: what
/// was not sent has no answer.
pub(crate) fn ask_at_once(
    endpoint: &Endpoint,
    requests: &[ChatRequest<'_>],
    ends: fn(&EndpointError) -> bool,
) -> Vec<Option<Result<ChatAnswer, EndpointError>>> {
    let next = AtomicUsize::new(0);
    // Each takes the next request until there is none, or one could not be asked.
    let work = || {
        let mut said = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(request) = requests.get(at) else { return said };
            let answer = endpoint.chat(request);
            if answer.as_ref().is_err_and(ends) {
                next.store(requests.len(), Ordering::Relaxed);
            }
            said.push((at, answer));
        }
    };
    let mut answers: Vec<Option<Result<ChatAnswer, EndpointError>>> = requests.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE.min(requests.len())).map(|_| scope.spawn(work)).collect();
        for (at, answer) in workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()) {
            answers[at] = Some(answer);
        }
    });
    answers
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
        let asked = Asked::new(None, Some(&endpoint), &Device::cpu()).unwrap();
        let how = How { temperature: 0.0, tokens_max: 4, seed: 1 };
        let message = |at: usize| vec![Message::new(Role::User, format!("question {at}"))];
        let questions: Vec<Vec<Message>> = (0..20).map(message).collect();
        let expected: Vec<String> = (0..20).map(|at| format!("re: question {at}")).collect();
        assert_eq!(asked.ask(&questions, how).unwrap(), expected);
        assert_eq!(sent.lock().unwrap().len(), 20);
        assert!(asked.ask(&[], how).unwrap().is_empty());

        // Nobody listens there any more.
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let endpoint = EndpointConfig { url: format!("http://{gone}/v1"), ..endpoint };
        assert!(Asked::new(None, Some(&endpoint), &Device::cpu()).unwrap().ask(&questions, how).is_err());
    }
}
