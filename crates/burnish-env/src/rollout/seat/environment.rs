//! What an episode asks of its environment: the opening, steps, calls of tools, the verdict.

use std::sync::Arc;

use burnish_core::{Ending, FunctionCall, Message, Repeating, Role, ToolCall, TurnOutput, Verdict};
use burnish_episode::{Handle, Work};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Seat, Stop};
use crate::rollout::Start;
use crate::tools::check_call;
use crate::{EnvError, Environment, Step};

/// The result of work in an environment, as it is recorded.
type Done<T> = Result<T, String>;

/// How an episode began, as it is recorded.
#[derive(Serialize, Deserialize)]
struct Beginning {
    /// Seed of the environment.
    seed: u64,
    /// What the policy read instead of the environment's opening.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<Message>>,
}

impl Seat<'_> {
    /// Starts the environment; with a record, as it was started there.
    pub(in crate::rollout) async fn open(&mut self, handle: &Handle) -> Result<(), Stop> {
        let messages = match &self.spawn.start {
            Start::Messages(messages) => Some(messages.clone()),
            Start::Opening | Start::Within { .. } => None,
        };
        let own = Beginning { seed: handle.address().seed(), messages };
        let work = Work {
            what: "the beginning",
            question: &self.spawn.task.id,
            repeating: Repeating::Repeatable,
            is_slow: false,
            is_end: |_| false,
        };
        let begun = handle.work(work, (), move |(), _| own).await;
        let ((), Beginning { seed, messages }) = begun.map_err(|error| self.stop(error))?;
        self.reset(handle, seed, messages).await
    }

    /// Starts the environment with a seed. The policy reads `messages` in place of the opening, if there are any.
    pub(super) async fn reset(
        &mut self,
        handle: &Handle,
        seed: u64,
        messages: Option<Vec<Message>>,
    ) -> Result<(), Stop> {
        let task = self.spawn.task;
        let opening = match self.stepping() {
            None => self.environment()?.reset(task, seed)?,
            Some(repeating) => {
                self.refuse_to_go_within(handle, repeating)?;
                let (posed, question) = (task.clone(), (&task.id, seed));
                let reset =
                    move |environment: &mut Box<dyn Environment>, _: &str| environment.reset(&posed, seed);
                self.work(handle, "the opening", &question, repeating, reset).await?
            }
        };
        self.seed = seed;
        self.tools = Arc::new(self.environment()?.tools());
        self.messages = Arc::new(messages.unwrap_or(opening));
        if self.asks
            && let Step::Turn(posed) = self.begin(handle).await?
        {
            self.pose(posed);
        }
        Ok(())
    }

    /// An episode can't start within another one whose steps are never taken again.
    fn refuse_to_go_within(&self, handle: &Handle, repeating: Repeating) -> Result<(), Stop> {
        match (&self.spawn.start, repeating) {
            (Start::Within { .. }, Repeating::Outside) => {
                handle.lose();
                let reason =
                    "its environment changes the world, so it can't be brought to where this episode starts";
                Err(Stop::Unscored(Ending::Lost, reason.to_owned()))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn stepping(&self) -> Option<Repeating> {
        self.environment.as_ref().and_then(|environment| environment.stepping())
    }

    pub(super) async fn step(&mut self, handle: &Handle, action: &Message) -> Result<Step, Stop> {
        let Some(repeating) = self.stepping() else { return Ok(self.environment()?.step(action)?) };
        let taken = action.clone();
        let step = self
            .work(handle, "a step", action, repeating, move |environment, _| environment.step(&taken))
            .await?;
        self.environment()?.stepped(action, &step);
        Ok(step)
    }

    /// Starts the program that asks the policy by itself.
    async fn begin(&mut self, handle: &Handle) -> Result<Step, Stop> {
        if matches!(self.spawn.start, Start::Messages(_)) {
            let problem = "its program opens the conversation, so an episode can't start with other messages";
            return Err(EnvError::Failed(problem.to_owned()).into());
        }
        let Some(repeating) = self.stepping() else { return Ok(self.environment()?.begin()?) };
        let task = &self.spawn.task.id;
        self.work(handle, "the program's first request", task, repeating, |environment, _| {
            environment.begin()
        })
        .await
    }

    /// Gives a program that asks by itself its answer.
    pub(super) async fn answer(&mut self, handle: &Handle, output: TurnOutput) -> Result<Step, Stop> {
        let Some(repeating) = self.stepping() else { return Ok(self.environment()?.answer(&output)?) };
        let question = (output.message.clone(), output.stop);
        self.work(handle, "an answer to the program", &question, repeating, move |environment, _| {
            environment.answer(&output)
        })
        .await
    }

    pub(super) async fn hear(&mut self, handle: &Handle, said: Message) -> Result<Step, Stop> {
        let Some(repeating) = self.stepping() else { return Ok(self.environment()?.hear(&said)?) };
        let heard = said.clone();
        self.work(handle, "an answer", &said, repeating, move |environment, _| environment.hear(&heard)).await
    }

    pub(super) fn environment(&mut self) -> Result<&mut Box<dyn Environment>, Stop> {
        Ok(self.environment.as_mut().ok_or_else(lost)?)
    }

    /// Runs the calls of an answer one after the other and returns their results, then the problems of those that could
    /// not be read.
    pub(super) async fn call_all(
        &mut self,
        handle: &Handle,
        calls: &[ToolCall],
        malformed: Vec<String>,
    ) -> Result<Vec<Message>, Stop> {
        let mut results = Vec::with_capacity(calls.len());
        self.calls.made += calls.len() + malformed.len();
        self.calls.failed += malformed.len();
        for call in calls {
            let name = &call.function.name;
            let said = match (check_call(call, &self.tools), self.repeating(name)) {
                (Ok(()), Some(repeating)) => self.call(handle, call, repeating).await?,
                (checked, _) => {
                    self.calls.failed += 1;
                    checked.err().unwrap_or_else(|| format!("`{name}` can't be called here"))
                }
            };
            results.push(Message {
                tool_call_id: call.id.clone(),
                name: Some(name.clone()),
                ..Message::new(Role::Tool, said)
            });
        }
        if !malformed.is_empty() {
            // A line each, whatever of the call a reason repeats.
            let lines: Vec<String> =
                malformed.iter().map(|reason| reason.replace(['\n', '\r'], " ")).collect();
            results.push(Message::user(lines.join("\n")));
        }
        Ok(results)
    }

    async fn call(&mut self, handle: &Handle, call: &ToolCall, repeating: Repeating) -> Result<String, Stop> {
        let arguments = object(&call.function.arguments);
        let function = FunctionCall { arguments, ..call.function.clone() };
        let latency = self.environment()?.latency(&function);
        if !latency.is_zero() && self.again.is_none() {
            handle.wait(latency).await.map_err(|error| self.stop(error))?;
        }
        let what = format!("the call of `{}`", function.name);
        let asked = function.clone();
        self.work(handle, &what, &asked, repeating, move |environment, key| environment.call(&function, key))
            .await
    }

    pub(in crate::rollout) async fn verdict(&mut self, handle: &Handle) -> Result<Verdict, Stop> {
        let environment = self.environment()?;
        if !environment.is_slow() {
            return Ok(environment.verify()?);
        }
        let answers = self.answers.clone();
        self.work(handle, "the verdict", &answers, Repeating::Repeatable, |environment, _| {
            environment.verify()
        })
        .await
    }

    /// Does recorded work in the environment.
    async fn work<Q: Serialize, T: Serialize + for<'de> Deserialize<'de> + Send + 'static>(
        &mut self,
        handle: &Handle,
        what: &str,
        question: &Q,
        repeating: Repeating,
        work: impl FnOnce(&mut Box<dyn Environment>, &str) -> Result<T, EnvError> + Send + 'static,
    ) -> Result<T, Stop> {
        if self.again.is_some() && repeating == Repeating::Outside {
            let reason = "its environment changes the world, so a second way can't be tried";
            return Err(Stop::Unscored(Ending::Lost, reason.to_owned()));
        }
        let environment = self.environment.take().ok_or_else(lost)?;
        let is_slow = environment.is_slow();
        let is_end = |done: &Value| {
            serde_json::from_value::<Done<Value>>(done.clone()).is_ok_and(|done| done.is_err())
        };
        let done = handle.work(
            Work { what, question, repeating, is_slow, is_end },
            environment,
            move |environment, key| -> Done<T> { work(environment, key).map_err(|error| error.to_string()) },
        );
        let (environment, done) = done.await.map_err(|error| self.stop(error))?;
        self.environment = Some(environment);
        done.map_err(|error| Stop::Unscored(Ending::EnvironmentError, error))
    }
}

fn lost() -> EnvError {
    EnvError::Failed("the environment is lost, since work in it failed".to_owned())
}

/// Arguments as an object; some formats give them as a text.
fn object(arguments: &Value) -> Value {
    burnish_core::openai::read_arguments(arguments).map_or_else(|_| arguments.clone(), Value::Object)
}
