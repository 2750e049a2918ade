//! The task of the GRPO rows: a sum, right-justified to the length of the prompt, rewarded by the sevens in the answer.

use burnish_core::rng::Stream;
use burnish_core::{Message, Task, TaskId, Verdict};
use burnish_env::{Bound, EnvError, Environment, Generator, Step, TaskSet};
use serde_json::Value;

/// Makes prompts of so many characters.
pub(crate) struct Sevens {
    pub(crate) prompt: usize,
}

impl Generator for Sevens {
    fn id(&self) -> &'static str {
        "sevens"
    }

    fn config(&self) -> Value {
        serde_json::json!({ "prompt": self.prompt })
    }

    fn bounds(&self) -> Vec<Bound> {
        Vec::new()
    }

    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let mut numbers = Stream::new(seed);
        let task = |at: usize| {
            let sum = format!("{} + {} =", numbers.below(1000), numbers.below(1000));
            Task {
                id: TaskId(format!("sevens/{at}")),
                environment: self.id().into(),
                prompt: vec![Message::user(format!("{sum:>width$}", width = self.prompt))],
                truth: Value::Null,
                labels: Default::default(),
            }
        };
        Ok(TaskSet { tasks: (0..count).map(task).collect(), cells: Vec::new() })
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(Episode::default())
    }

    fn draw(&self, _task: &Task, answer: Option<&str>) -> String {
        answer.unwrap_or_default().into()
    }
}

#[derive(Default)]
struct Episode {
    answer: String,
}

impl Environment for Episode {
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Vec<Message>, EnvError> {
        Ok(task.prompt.clone())
    }

    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        self.answer.clone_from(&action.content);
        Ok(Step::Done)
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        Ok(Verdict::scored("sevens", self.answer.matches('7').count() as f64 / 10.0, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_have_the_length_that_was_asked_for_and_sevens_are_counted() {
        let generator = Sevens { prompt: 64 };
        let set = generator.tasks(3, 5).unwrap();
        assert!(set.tasks.iter().all(|task| task.prompt[0].content.len() == 64));
        let mut environment = generator.environment();
        environment.reset(&set.tasks[0], 0).unwrap();
        environment.step(&Message::assistant("7 a 77 b")).unwrap();
        assert_eq!(environment.verify().unwrap().total(&Default::default()), Some(0.3));
    }
}
