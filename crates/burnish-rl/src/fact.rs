//! What can be known about a rollout beside its reward: numbers under an id.
//!
//! Parts say which facts they need ([`Need`]). Whoever runs them has providers that supply facts, and refuses a need
//! that no provider supplies. Parts and providers do not know each other by name.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// Something that can be known about a rollout, and what its numbers belong to.
#[derive(Debug, Serialize)]
pub struct Fact {
    /// Its name, which says where it comes from: `SOURCE.WHAT`.
    pub id: &'static str,
    /// How many numbers it has.
    pub per: Per,
    /// What they mean.
    pub about: &'static str,
}

impl PartialEq for Fact {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Fact {}

/// What each number of a fact belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    /// The rollout: one number, or none if it is not known.
    Rollout,
    /// A member of its group, in the group's order; the rollout itself is among them.
    Sibling,
    /// A turn of the rollout.
    Turn,
    /// A token that the policy sampled.
    Token,
    /// A component of the reward, a cut or the like: the fact says which.
    Entry,
    /// Numbers that a trainer keeps beside the tokens of a sample, where the loss reads them.
    Stream,
    /// No numbers: something that an environment knows about its tasks.
    Task,
}

/// The weighted components of the reward before they are added up, in an order that all rollouts of a run share. A
/// component that is not finite counts as absent.
pub static COMPONENTS: Fact =
    Fact { id: "reward.components", per: Per::Entry, about: "components of the reward, weighted" };

/// What each turn earned; a number that is not finite counts as nothing.
pub static TURN_REWARDS: Fact = Fact { id: "turn.rewards", per: Per::Turn, about: "what each turn earned" };

/// The reward of each token: a turn's reward is at the turn's last token, that of a named span of the answers at the last
/// token of the span, and the rest at the last token of the rollout. A number that is not finite counts as nothing.
pub static TOKEN_REWARDS: Fact =
    Fact { id: "token.rewards", per: Per::Token, about: "what each token earned" };

/// For each turn, a number that identifies the environment's state in which it was taken: equal states have equal
/// numbers.
pub static TURN_STATES: Fact =
    Fact { id: "turn.states", per: Per::Turn, about: "which state each turn was taken in" };

/// What each turn does with a library of skills: [`ASKING`](crate::advantage::ASKING) and the like.
pub static SEGMENTS: Fact =
    Fact { id: "skill.segments", per: Per::Turn, about: "what each turn does with a library of skills" };

/// What each turn earned by the reward of its segment; a number that is not finite counts as nothing.
pub static SEGMENT_REWARDS: Fact =
    Fact { id: "skill.rewards", per: Per::Turn, about: "what each turn with a library of skills earned" };

/// Reward of a greedy answer to the same task.
pub static GREEDY_REWARD: Fact =
    Fact { id: "greedy.reward", per: Per::Rollout, about: "reward of a greedy answer" };

/// Results of a judge's comparisons with the siblings: how often the sibling was found worse, ties counting half. The
/// rollout's own entry is ignored; NaN was not compared.
pub static WINS: Fact = Fact { id: "judge.wins", per: Per::Sibling, about: "comparisons by a judge" };

/// Log-probability of each token at the start of the update, in nats.
pub static LOGPROBS: Fact =
    Fact { id: "token.logprobs", per: Per::Token, about: "log-probs of what was sampled" };

/// Sum of the squared probabilities of each token's distribution.
pub static SQUARES: Fact = Fact {
    id: "token.squares",
    per: Per::Token,
    about: "sums of squared probabilities of each distribution",
};

/// The critic's estimate of the return from each token on.
pub static VALUES: Fact = Fact { id: "critic.values", per: Per::Token, about: "values of a critic" };

/// The critic's estimate of the return after the last token, if the rollout was cut off there; none if it came to its
/// end, because nothing more is earned then.
pub static BOOTSTRAP: Fact = Fact {
    id: "critic.bootstrap",
    per: Per::Rollout,
    about: "value after the last token, where it was cut off",
};

/// The mean reward that the policy earned when it went on from beginnings of the rollout: entry `j` is for the first
/// `(j + 1)·every` tokens ([`Continuations`]), NaN if no continuation from there has a reward.
pub static CONTINUED: Fact =
    Fact { id: "continuation.rewards", per: Per::Entry, about: "answers that go on from within an answer" };

/// How far the policy has moved since it last played the task: KL divergence, in nats per token. 0 the first time.
pub static TASK_DRIFT: Fact =
    Fact { id: "task.drift", per: Per::Rollout, about: "how far the policy has moved on each task" };

/// What a beginning is worth, and what its task is worth whatever the answer begins with: two mean rewards, each of
/// [`Worths::answers`] answers. Of [`Phase::Upstream`](crate::advantage::Phase::Upstream) rollouts, in some steps.
pub static WORTH: Fact =
    Fact { id: "beginning.worth", per: Per::Entry, about: "what beginnings and their tasks are worth" };

/// Is a step of the answer wrong, whatever its result? 1 or 0; none if the steps can't be read.
pub static FLAW: Fact = Fact { id: "process.flaw", per: Per::Rollout, about: "whether a step is wrong" };

/// Log-probs under the reference policy.
pub static REFERENCE: Fact =
    Fact { id: "reference.logprobs", per: Per::Stream, about: "log-probs of a reference" };

/// How far the policy is from the reference on answers to other prompts: one number for an optimiser batch.
pub static MISMATCHED: Fact = Fact {
    id: "reference.mismatched",
    per: Per::Entry,
    about: "a reference on answers to other prompts, for rows only",
};

/// Log-probs under a teacher.
pub static TEACHER: Fact = Fact { id: "teacher.logprobs", per: Per::Stream, about: "log-probs of a teacher" };

/// A teacher's distributions, or a part of each.
pub static TEACHER_HEAD: Fact =
    Fact { id: "teacher.head", per: Per::Stream, about: "distributions of a teacher" };

/// How a right answer to the task is reached.
pub static HINT: Fact =
    Fact { id: "task.reasoning", per: Per::Task, about: "reasoning that leads to the right answer" };

/// A right answer to the task, turn by turn.
pub static DEMONSTRATED: Fact =
    Fact { id: "task.demonstration", per: Per::Task, about: "right answers to its tasks" };

/// The task turned round: it states the right answer and asks for what the task states.
pub static COUNTERPART: Fact =
    Fact { id: "task.counterpart", per: Per::Task, about: "tasks that can be turned round" };

/// All the facts that parts can ask for.
pub static FACTS: &[&Fact] = &[
    &COMPONENTS,
    &TURN_REWARDS,
    &TOKEN_REWARDS,
    &TURN_STATES,
    &SEGMENTS,
    &SEGMENT_REWARDS,
    &GREEDY_REWARD,
    &WINS,
    &LOGPROBS,
    &SQUARES,
    &VALUES,
    &BOOTSTRAP,
    &CONTINUED,
    &TASK_DRIFT,
    &WORTH,
    &FLAW,
    &REFERENCE,
    &MISMATCHED,
    &TEACHER,
    &TEACHER_HEAD,
    &HINT,
    &DEMONSTRATED,
    &COUNTERPART,
];

/// The id under which a trainer keeps which tokens are in the span of this name.
pub fn span_id(name: &str) -> String {
    format!("span.{name}")
}

/// A fact that a part asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Need {
    /// Which fact.
    pub fact: &'static Fact,
    /// How to find it out, in the form that its provider reads ([`Continuations`]); null if there is only one way.
    pub settings: Value,
}

impl Need {
    /// A need of a fact that can be found out in only one way.
    pub fn of(fact: &'static Fact) -> Self {
        Need { fact, settings: Value::Null }
    }

    /// Several such needs.
    pub fn all(facts: &[&'static Fact]) -> Vec<Self> {
        facts.iter().map(|fact| Need::of(fact)).collect()
    }
}

/// Where rollouts are cut to find out what they were worth up to there: the settings of [`CONTINUED`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Continuations {
    /// Tokens between two cuts.
    pub every: usize,
    /// How often the policy goes on from each cut.
    pub rollouts: usize,
}

impl Continuations {
    /// The need of [`CONTINUED`] with these settings.
    pub fn need(self) -> Need {
        Need {
            fact: &CONTINUED,
            settings: serde_json::json!({ "every": self.every, "rollouts": self.rollouts }),
        }
    }
}

/// In which steps, and from how many answers, it is found out what beginnings are worth: the settings of [`WORTH`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Worths {
    /// Steps from one to the next.
    pub every: u64,
    /// How often the policy goes on from each beginning, and how many other beginnings it goes on from.
    pub answers: usize,
}

impl Worths {
    /// The need of [`WORTH`] with these settings.
    pub fn need(self) -> Need {
        Need { fact: &WORTH, settings: serde_json::json!({ "every": self.every, "answers": self.answers }) }
    }
}

/// What is known about one rollout.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts(BTreeMap<&'static str, Vec<f64>>);

impl Facts {
    /// The numbers of a fact; empty if it is not known.
    pub fn of(&self, fact: &Fact) -> &[f64] {
        self.0.get(fact.id).map_or(&[], Vec::as_slice)
    }

    /// The only number of a fact ([`Per::Rollout`]), if it is known.
    pub fn number(&self, fact: &Fact) -> Option<f64> {
        self.of(fact).first().copied()
    }

    /// Sets the numbers of a fact, replacing those known so far.
    pub fn set(&mut self, fact: &'static Fact, numbers: impl Into<Vec<f64>>) {
        self.0.insert(fact.id, numbers.into());
    }

    /// Forgets a fact.
    pub fn forget(&mut self, fact: &Fact) {
        self.0.remove(fact.id);
    }
}
