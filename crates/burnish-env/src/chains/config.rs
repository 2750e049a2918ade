//! The configuration of the environment.

use serde::{Deserialize, Serialize};

use super::facts::FactsConfig;
use super::language::LANGUAGES_MAX;
use super::problem::{Operator, TaskKind};
use crate::lang::Resource;
use crate::settings::{check_bounds, config_error};
use crate::{BoundRow, EnvError};

/// A range of whole numbers, both ends included.
pub type Range = crate::settings::Range<u64>;

/// Shares of the kinds of tasks, relative to their sum.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kinds {
    /// Chains of operations on numbers that the prompt states.
    pub chain: f64,
    /// One memorised fact.
    pub recall: f64,
    /// Chains of operations on the names of facts.
    pub memorised: f64,
}

impl Kinds {
    /// The shares in the order of [`TaskKind::ALL`].
    pub(super) fn shares(self) -> [f64; 3] {
        [self.chain, self.recall, self.memorised]
    }
}

/// A language in which tasks are written. Its position in the list decides its signs; the first is the plain one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Language {
    /// Its name in labels.
    pub name: String,
    /// Share of the tasks, relative to the sum.
    pub share: f64,
    /// Its level; if not given, it follows from the share relative to the largest share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<Resource>,
}

/// A reward component. Each is in 0..=1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// 1 if the final answer is right.
    Answer,
    /// 1 if the text is lines of well-formed steps (at least one if the task has any) and then one final answer.
    Format,
    /// 1 if every sign of the text belongs to the prompt's language.
    Language,
    /// 1 up to the needed number of characters, then falling linearly to 0 at twice that number.
    Length,
    /// Share of the steps that are right; see [`super::Finding::steps`].
    Steps,
    /// `format` with the probability `style_correlation`, otherwise a coin toss; the task and the text decide both.
    Style,
    /// The product of `answer`, `format` and `language`.
    All,
}

impl Component {
    /// All of them.
    pub const ALL: [Component; 7] = [
        Component::Answer,
        Component::Format,
        Component::Language,
        Component::Length,
        Component::Steps,
        Component::Style,
        Component::All,
    ];

    /// Its name in verdicts and configurations.
    pub fn name(self) -> &'static str {
        match self {
            Component::Answer => "answer",
            Component::Format => "format",
            Component::Language => "language",
            Component::Length => "length",
            Component::Steps => "steps",
            Component::Style => "style",
            Component::All => "all",
        }
    }
}

/// The configuration of chains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Number of steps in a chain. Tasks are spread evenly over the range.
    pub steps: Range,
    /// Operations that a chain may use.
    pub operations: Vec<Operator>,
    /// Range of the stated operands.
    pub values: Range,
    /// Range of all intermediate and final results.
    pub results: Range,
    /// Shares of the kinds.
    pub kinds: Kinds,
    /// Share of the tasks that are asked in reverse.
    pub reverse: f64,
    /// The table of facts.
    pub facts: FactsConfig,
    /// The languages.
    pub languages: Vec<Language>,
    /// The reward components of the verdict.
    pub rewards: Vec<Component>,
    /// How often `style` equals `format`.
    pub style_correlation: f64,
    /// Share of the demonstrations that are wrong.
    pub demonstration_errors: f64,
    /// Share of the skills that are wrong.
    pub skill_errors: f64,
    /// Share of the tasks whose prompt shows the skill on a line of its own, to teach a policy to read skills.
    pub skill_shown: f64,
    /// Share of the tasks whose prompt shows the beginning of an attempt, right or wrong, and then the task again, to
    /// teach a policy to read drafts (SKPO).
    pub draft_shown: f64,
    /// How many attempts such a prompt shows: of one its beginning, of several all of each (HeavySkill).
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub drafts: usize,
}

fn one() -> usize {
    1
}

/// Left out where it is 1, so that configurations from before it are the same.
fn is_one(drafts: &usize) -> bool {
    *drafts == 1
}

impl Default for Config {
    fn default() -> Self {
        Config {
            steps: Range { min: 1, max: 3 },
            operations: vec![Operator::Add, Operator::Subtract, Operator::Multiply],
            values: Range { min: 1, max: 9 },
            results: Range { min: 0, max: 99 },
            kinds: Kinds { chain: 1.0, recall: 0.0, memorised: 0.0 },
            reverse: 0.0,
            facts: FactsConfig { seed: 0, count: 30, values: Range { min: 1, max: 30 } },
            languages: vec![Language { name: "plain".to_owned(), share: 1.0, resource: None }],
            rewards: vec![Component::Answer],
            style_correlation: 0.0,
            demonstration_errors: 0.0,
            skill_errors: 0.0,
            skill_shown: 0.0,
            draft_shown: 0.0,
            drafts: 1,
        }
    }
}

/// Most attempts that a prompt shows.
const DRAFTS_MAX: usize = 16;

/// The bounds of the numeric keys that may be changed.
pub(super) const BOUNDS: &[BoundRow] = &[
    ("steps.min", 1.0, 8.0, "fewest steps of a chain"),
    ("steps.max", 1.0, 8.0, "most steps of a chain"),
    ("values.min", 1.0, 999.0, "least operand that is stated"),
    ("values.max", 1.0, 999.0, "greatest operand that is stated"),
    ("results.min", 0.0, 9_999.0, "least result of a step"),
    ("results.max", 1.0, 9_999.0, "greatest result of a step"),
    ("kinds.chain", 0.0, 1.0, "share of chains over stated numbers, relative to the sum of the kinds"),
    ("kinds.recall", 0.0, 1.0, "share of single facts"),
    ("kinds.memorised", 0.0, 1.0, "share of chains over names of facts"),
    ("reverse", 0.0, 1.0, "share of tasks that state the result and ask for an operand"),
    ("facts.count", 1.0, 1_000.0, "names in the table of facts"),
    ("facts.values.min", 1.0, 9_999.0, "least value of a fact"),
    ("facts.values.max", 1.0, 9_999.0, "greatest value of a fact"),
    ("style_correlation", 0.0, 1.0, "how often the reward `style` is the reward `format`"),
    ("demonstration_errors", 0.0, 1.0, "share of demonstrations that are wrong"),
    ("skill_errors", 0.0, 1.0, "share of skills that are wrong"),
    ("skill_shown", 0.0, 1.0, "share of tasks whose prompt has the skill"),
    ("draft_shown", 0.0, 1.0, "share of tasks whose prompt has a draft"),
];

impl Config {
    /// Checks what the types do not express.
    ///
    /// # Errors
    /// Names the first key that is out of its bounds or contradicts another.
    pub(super) fn check(&self) -> Result<(), EnvError> {
        check_bounds(self, BOUNDS)?;
        if !(1..=DRAFTS_MAX).contains(&self.drafts) {
            let problem = format!("must be 1 to {DRAFTS_MAX}, not {}", self.drafts);
            return Err(config_error("drafts", &problem));
        }
        let ranges = [
            ("steps", self.steps),
            ("values", self.values),
            ("results", self.results),
            ("facts.values", self.facts.values),
        ];
        for (key, Range { min, max }) in ranges {
            if min > max {
                let problem = format!("{max} is below {key}.min, which is {min}; nearest: {min}");
                return Err(config_error(&format!("{key}.max"), &problem));
            }
        }
        once("operations", &self.operations, "\"add\", \"subtract\", \"multiply\", \"divide\"")?;
        let names = Component::ALL.map(|component| format!("\"{}\"", component.name())).join(", ");
        once("rewards", &self.rewards, &names)?;
        if self.kinds.shares().iter().all(|share| *share == 0.0) {
            return Err(config_error(
                "kinds",
                "no kind has a share above 0; give one, like `kinds.chain = 1`",
            ));
        }
        let most = self.facts.values.max - self.facts.values.min + 1;
        if self.facts.count > most {
            let problem = format!(
                "{} names need as many different values, and facts.values has {most}; nearest: {most}",
                self.facts.count
            );
            return Err(config_error("facts.count", &problem));
        }
        self.check_languages()
    }

    fn check_languages(&self) -> Result<(), EnvError> {
        let languages = &self.languages;
        if languages.is_empty() || languages.len() > LANGUAGES_MAX {
            let problem =
                format!("{} languages are listed; 1 to {LANGUAGES_MAX} are allowed", languages.len());
            return Err(config_error("languages", &problem));
        }
        for (index, Language { name, share, .. }) in languages.iter().enumerate() {
            if !(0.0..=1.0).contains(share) {
                let nearest = if *share > 1.0 { 1.0 } else { 0.0 };
                let problem = format!("{share} is out of range: 0 to 1 are allowed; nearest: {nearest}");
                return Err(config_error(&format!("languages.{index}.share"), &problem));
            }
            if name.is_empty() || languages[..index].iter().any(|other| other.name == *name) {
                let problem =
                    format!("`{name}` is empty or names an earlier language; give each its own name");
                return Err(config_error(&format!("languages.{index}.name"), &problem));
            }
        }
        if languages.iter().all(|language| language.share == 0.0) {
            return Err(config_error("languages", "no language has a share above 0; give one, like 1"));
        }
        Ok(())
    }

    /// Name and level of a language; one that is not listed is named by its number and has the lowest level.
    pub(super) fn language(&self, index: usize) -> (String, Resource) {
        let most = self.languages.iter().map(|language| language.share).fold(0.0, f64::max);
        let Some(Language { name, share, resource }) = self.languages.get(index) else {
            return (format!("language {index}"), Resource::Low);
        };
        let derived = match share / most {
            relative if relative >= 0.5 => Resource::High,
            relative if relative >= 0.1 => Resource::Mid,
            _ => Resource::Low,
        };
        (name.clone(), resource.unwrap_or(derived))
    }

    /// The possible numbers of steps for tasks of a kind.
    pub(super) fn steps_of(&self, kind: TaskKind) -> Vec<u64> {
        match kind {
            TaskKind::Recall => vec![0],
            TaskKind::Chain | TaskKind::Memorised => (self.steps.min..=self.steps.max).collect(),
        }
    }
}

/// Checks that a list is not empty and has no duplicates.
fn once<T: PartialEq>(key: &str, list: &[T], names: &str) -> Result<(), EnvError> {
    let twice = list.iter().enumerate().any(|(index, one)| list[..index].contains(one));
    if list.is_empty() || twice {
        return Err(config_error(key, &format!("name at least one of {names}, and none twice")));
    }
    Ok(())
}
