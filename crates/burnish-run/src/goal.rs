//! How likely a frozen model takes the goal of a task to be, before an episode and after it. With `P` the model, `x` what was
//! known before and `(Q, A)` the questions and answers of the episode, the component is
//!
//! ```text
//! ln P(G | x, Q, A) - ln P(G | x)
//! ```
//!
//! (Information-gain clarifier, arXiv:2606.03135). The mean over the goal's tokens is *reconstructed*: how the paper makes long
//! goals and short ones comparable is not known.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

use burnish_core::{Episode, Message, Task, TaskId, Trace, Validity};
use burnish_env::{Generator, Goals, Wanted};
use burnish_http::block_on;
use burnish_model::{Chat, Model};
use burnish_recipe::{GOAL_INFORMATION, GoalTokens, Recipe};
use burnish_remote::endpoint::{Continuation, Endpoint};
use burnish_tensor::Device;
use burnish_train::{Sample, score};

use crate::RunError;
use crate::policy::LoadedPolicy;

/// A frozen model that reads what is known and tells how likely goals are.
pub(crate) struct GoalReader {
    reader: Reader,
    over: GoalTokens,
}

enum Reader {
    /// A model in this process, which answers what is known with the goal.
    Model {
        model: Arc<Model>,
        chat: Arc<Chat>,
        /// Tokens that go through it together.
        tokens_max: usize,
    },
    /// A server, which goes on with the goal where what is known ends.
    Server(Box<Endpoint>),
}

/// The log-probs of a goal's tokens, or why there are none.
type Read = Result<Vec<f64>, String>;

impl GoalReader {
    /// That of a recipe; `None` if it names none.
    ///
    /// # Errors
    /// If the model can't be loaded, or the server's key is missing.
    pub(crate) fn of_recipe(recipe: &Recipe) -> Result<Option<Self>, RunError> {
        let Some(section) = &recipe.reward.goal else { return Ok(None) };
        let reader = match (&section.path, &section.endpoint) {
            (Some(path), _) => {
                let loaded = LoadedPolicy::load(path, &recipe.policy.sampling())
                    .map_err(|error| RunError::Refused(format!("reward.goal.path: {error}")))?
                    .on(&Device::open(&recipe.device)?);
                let tokens_max = recipe.train.micro_batch_tokens;
                Reader::Model { model: loaded.model, chat: loaded.chat, tokens_max }
            }
            (None, Some(endpoint)) => {
                let server = Endpoint::new(endpoint.clone());
                Reader::Server(Box::new(
                    server.map_err(|error| RunError::Refused(format!("reward.goal.endpoint: {error}")))?,
                ))
            }
            (None, None) => {
                return Err(RunError::Refused("reward.goal: needs `path` or `endpoint`".into()));
            }
        };
        Ok(Some(GoalReader { reader, over: section.over }))
    }

    /// Gives each scored episode of a task with a goal the component. An episode after which no more is known than before it
    /// has exactly 0. What the model can't read becomes unscored.
    ///
    /// # Errors
    /// If the server does not answer, or the environment has a component of that name.
    pub(crate) fn judge(
        &self,
        generator: &dyn Generator,
        tasks: &[&Task],
        episodes: &mut [Episode],
    ) -> Result<(), RunError> {
        let Some(goals) = generator.goals() else { return Ok(()) };
        let tasks: HashMap<&TaskId, &Task> = tasks.iter().map(|task| (&task.id, *task)).collect();
        let pairs: Vec<Option<[Wanted; 2]>> = episodes
            .iter()
            .map(|episode| {
                let task = tasks.get(&episode.task).filter(|_| episode.verdict.is_scored())?;
                before_and_after(goals, task, &episode.answers)
            })
            .collect();
        // The episodes of a group begin with the same words, and many end with the same.
        let mut asked: Vec<&Wanted> = Vec::new();
        let mut places: HashMap<&Wanted, usize> = HashMap::new();
        for wanted in pairs.iter().flatten().filter(|[before, after]| before != after).flatten() {
            places.entry(wanted).or_insert_with(|| {
                asked.push(wanted);
                asked.len() - 1
            });
        }
        let found = self.read(&asked)?;
        let value = |wanted: &Wanted| -> Result<f64, &String> {
            let Some(place) = places.get(wanted) else { return Ok(0.0) };
            let logprobs = found[*place].as_ref()?;
            let sum = logprobs.iter().sum::<f64>();
            Ok(match self.over {
                GoalTokens::Sum => sum,
                GoalTokens::Mean => sum / logprobs.len().max(1) as f64,
            })
        };
        for (episode, pair) in episodes.iter_mut().zip(&pairs) {
            let Some([before, after]) = pair else { continue };
            let gained = match before == after {
                true => Ok(0.0),
                false => value(after).and_then(|after| Ok(after - value(before)?)),
            };
            match gained {
                Err(reason) => episode.verdict.validity = Validity::Unscored { reason: reason.clone() },
                Ok(gained) => {
                    if episode.verdict.rewards.insert(GOAL_INFORMATION.into(), gained).is_some() {
                        return Err(RunError::Refused(format!(
                            "reward.goal: the environment gives a reward `{GOAL_INFORMATION}` itself; leave one of \
                             them out"
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    fn read(&self, asked: &[&Wanted]) -> Result<Vec<Read>, RunError> {
        match &self.reader {
            Reader::Model { model, chat, tokens_max } => read_here(model, chat, *tokens_max, asked),
            Reader::Server(server) => {
                let goals: Vec<String> = asked.iter().map(|wanted| format!(" {}", wanted.goal)).collect();
                let texts = asked.iter().zip(&goals);
                let texts: Vec<_> =
                    texts.map(|(wanted, text)| Continuation { prompt: &wanted.known, text }).collect();
                let refused =
                    |error: &dyn Display| RunError::Refused(format!("reward.goal.endpoint: {error}"));
                let read = block_on(server.text_logprobs(&texts)).map_err(|error| refused(&error))?;
                Ok(read.map_err(|error| refused(&error))?.into_iter().map(Ok).collect())
            }
        }
    }
}

/// What was known before the episode and what is known after it; `None` for a task without a goal.
fn before_and_after(goals: &dyn Goals, task: &Task, answers: &[Message]) -> Option<[Wanted; 2]> {
    Some([goals.wanted(task, &[])?, goals.wanted(task, answers)?])
}

fn read_here(
    model: &Model,
    chat: &Chat,
    tokens_max: usize,
    asked: &[&Wanted],
) -> Result<Vec<Read>, RunError> {
    let mut samples = Vec::new();
    let mut firsts = Vec::with_capacity(asked.len());
    for wanted in asked {
        let known = Message::user(wanted.known.as_str());
        let mut ids = chat.extend(&mut Trace::default(), &[known], &[])?;
        let first = ids.len();
        ids.extend(chat.tokenizer.encode(&wanted.goal)?);
        if ids.len() > model.context_tokens_max() {
            let (tokens, most) = (ids.len(), model.context_tokens_max());
            firsts.push(Err(format!(
                "what is known and the goal have {tokens} tokens, and the model of goals reads at most {most}"
            )));
            continue;
        }
        firsts.push(Ok(first));
        let loss_mask = (0..ids.len()).map(|at| at >= first).collect();
        samples.push(Sample { loss_mask, ..Sample::of_text(ids) });
    }
    let mut scored = score(model, &samples, tokens_max)?.into_iter();
    let of_goal = |first: Result<usize, String>| {
        let first = first?;
        let logprobs = scored.next().unwrap_or_default();
        Ok(logprobs.iter().skip(first).map(|logprob| f64::from(*logprob)).collect())
    };
    Ok(firsts.into_iter().map(of_goal).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::path::Path;

    use burnish_core::{Sampling, Script, StopReason};
    use burnish_env::rollout::{self, Overlong, RolloutSpec, SeedPlace, Spawn};
    use burnish_recipe::Source;
    use serde_json::{Value, json};

    use super::*;
    use crate::test_server::serve;

    fn reader(goal: &str) -> GoalReader {
        let text = format!(
            "[run]\ndir = \"x\"\n[policy]\npath = \"p\"\n[train]\nmethod = \"grpo\"\nmax_steps = 1\n[env]\nid = \"clarify\"\n\
             [reward]\ngoal = {goal}\n"
        );
        let recipe = Recipe::resolve(&Source::parse("r.toml", &text, &[]).unwrap()).unwrap();
        GoalReader::of_recipe(&recipe).unwrap().unwrap()
    }

    /// Customers who say nothing of what they want, and can answer every question.
    fn open() -> Value {
        json!({ "unknown": 0.0, "unsaid": { "min": 4, "max": 4 } })
    }

    /// Episodes of one task in which the policy gives these answers, read by `reader`.
    fn judged(reader: &GoalReader, answers: &'static [&'static [&'static str]]) -> (Task, Vec<Episode>) {
        let generator = burnish_env::build("clarify", &open()).unwrap();
        let tasks = generator.tasks(4, 1).unwrap().tasks;
        let seeds = SeedPlace { run: 1, stage: 0, step: 0, task_offset: 0 };
        let spawns = Spawn::of_tasks(&tasks, answers.len(), &Sampling::at(1.0, 8), seeds);
        let spec = RolloutSpec::new(&*generator, &spawns, 4, Overlong::Drop);
        let mut policy = Script::new(|_| Ok(("act".to_owned(), StopReason::EndToken)));
        let mut episodes = rollout::play(&mut policy, &spec).unwrap();
        for (episode, answers) in episodes.iter_mut().zip(answers) {
            episode.answers = answers.iter().map(|answer| Message::assistant(*answer)).collect();
        }
        reader.judge(&*generator, &[&tasks[0]], &mut episodes).unwrap();
        (tasks[0].clone(), episodes)
    }

    fn values(episodes: &[Episode]) -> Vec<f64> {
        episodes.iter().map(|episode| episode.verdict.rewards[GOAL_INFORMATION]).collect()
    }

    #[test]
    fn what_a_server_takes_for_likelier_is_worth_more_and_nothing_asked_is_worth_nothing() {
        // Every line that is known makes each word of the goal likelier by one nat.
        let (url, asked) = serve(|_, body: &Value| {
            let prompts = body["prompt"].as_array().unwrap().iter().enumerate();
            let choices: Vec<Value> = prompts
                .map(|(index, whole)| {
                    let whole = whole.as_str().unwrap();
                    let at = whole.rfind("\nwants").unwrap() + "\nwants".len();
                    let logprob = whole.matches('\n').count() as f64 - 40.0;
                    let mut offset = at;
                    let mut tokens = vec![(whole[..at].to_owned(), 0, json!(null))];
                    for word in whole[at..].split_inclusive(' ').filter(|word| *word != " ") {
                        tokens.push((word.to_owned(), offset, json!(logprob)));
                        offset += word.len();
                    }
                    json!({ "index": index, "logprobs": {
                        "tokens": tokens.iter().map(|(text, ..)| text).collect::<Vec<_>>(),
                        "text_offset": tokens.iter().map(|(_, offset, _)| offset).collect::<Vec<_>>(),
                        "token_logprobs": tokens.iter().map(|(.., logprob)| logprob).collect::<Vec<_>>(),
                    } })
                })
                .collect();
            ("200 OK", json!({ "choices": choices }))
        });
        let answers: &[&[&str]] =
            &[&["act"], &["ask item", "act"], &["ask item", "act"], &["ask item", "ask order", "act"]];
        let server = format!("{{ endpoint = {{ url = \"{url}\", model = \"m\", retries = 0 }} }}");
        let (_, episodes) = judged(&reader(&server), answers);
        assert_eq!(values(&episodes), [0.0, 1.0, 1.0, 2.0]);
        // What several episodes know is read once: nothing, one answer, two.
        assert_eq!(asked.lock().unwrap()[0]["prompt"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn a_model_reads_what_a_demonstration_of_the_goal_would_be() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/starter");
        let path = path.to_str().unwrap();
        let answers: &[&[&str]] = &[&["act"], &["ask item", "ask intent", "act"]];
        let sum = reader(&format!("{{ path = \"{path}\", over = \"sum\" }}"));
        let (task, episodes) = judged(&sum, answers);
        let generator = burnish_env::build("clarify", &open()).unwrap();
        let Reader::Model { model, chat, tokens_max } = &sum.reader else { unreachable!() };
        let of = |answers: &[Message]| -> (f64, usize) {
            let wanted = generator.goals().unwrap().wanted(&task, answers).unwrap();
            let messages = [Message::user(wanted.known), Message::assistant(wanted.goal)];
            let mut trace = Trace::default();
            chat.demonstrate(&mut trace, &messages, &[]).unwrap();
            let branch = trace.branches().pop().unwrap();
            let sample = Sample::of_text(branch.ids);
            let logprobs = score(model, &[sample], *tokens_max).unwrap().remove(0);
            let said: Vec<f64> = trace.nodes().last().unwrap().ids.iter().map(|_| 0.0).collect();
            // The end of the answer is no part of the goal.
            let own = &logprobs[logprobs.len() - said.len()..logprobs.len() - 1];
            (own.iter().map(|logprob| f64::from(*logprob)).sum(), own.len())
        };
        let ((before, tokens), (after, _)) = (of(&[]), of(&episodes[1].answers));
        let expected = after - before;
        assert_eq!(values(&episodes)[0], 0.0);
        assert!((values(&episodes)[1] - expected).abs() < 1e-3, "{:?}, {expected}", values(&episodes));
        let (_, episodes) = judged(&reader(&format!("{{ path = \"{path}\" }}")), answers);
        assert!((values(&episodes)[1] - expected / tokens as f64).abs() < 1e-3);
    }
}
