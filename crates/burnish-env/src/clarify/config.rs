//! The configuration of the environment.

use serde::{Deserialize, Serialize};

use crate::settings::{check_bounds, config_error};
use crate::{BoundRow, EnvError};

pub use crate::settings::PromptStyle;

/// The configuration of clarifying questions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClarifyConfig {
    /// Orders of a customer.
    pub orders: Span,
    /// Items of an order.
    pub items: Span,
    /// Slots of the goal that the customer leaves unsaid; a goal with fewer leaves all unsaid.
    pub unsaid: Span,
    /// Questions that have been asked, and answered, before the episode begins: steps of longer conversations.
    pub asked: Span,
    /// Most questions of an episode.
    pub questions: usize,
    /// How many times as likely a goal in an order is as in the order before it.
    pub recency: f64,
    /// How often the customer does not know a slot that was left unsaid.
    pub unknown: f64,
    /// Components of the verdict.
    pub rewards: Vec<Component>,
    /// Who demonstrates.
    pub demonstrations: Asker,
    /// What the policy does.
    #[serde(default, skip_serializing_if = "Role::is_asker")]
    pub role: Role,
    /// The style of the prompt.
    pub prompt: PromptStyle,
    /// Customers of tau-bench's shop in place of made-up ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shop: Option<Shop>,
}

/// The shop of tau-bench.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shop {
    /// The folder with its data: `data/tau2/domains` of tau2-bench.
    pub path: String,
    /// Whether goals are what the benchmark's tasks want; otherwise they are drawn, of customers whom no task serves.
    #[serde(default)]
    pub tasks: bool,
}

/// A range of counts, both ends included.
pub type Span = crate::settings::Range<usize>;

/// A component of the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// What the answers tell about the goal: `log P(G | after) - log P(G | before)`, in nats.
    Information,
    /// How much less uncertain the goal has become, whatever it is: entropy before less entropy after, in nats.
    Certainty,
    /// 1 if the agent then does what the customer wants, else 0.
    Success,
    /// Number of questions, negative.
    Questions,
}

impl Component {
    /// Every component.
    pub(super) const ALL: [Component; 4] =
        [Component::Information, Component::Certainty, Component::Success, Component::Questions];

    pub(super) fn name(self) -> &'static str {
        match self {
            Component::Information => "information",
            Component::Certainty => "certainty",
            Component::Success => "success",
            Component::Questions => "questions",
        }
    }
}

/// Who asks in demonstrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asker {
    /// Asks for the slot that is expected to tell most, as long as one tells anything.
    Informed,
    /// Asks for slots at random, as often as it likes.
    Random,
}

/// What the policy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Asks the customer.
    #[default]
    Asker,
    /// Reads what a customer said, and says what is wanted: what a model learns that is then to tell how likely a goal is.
    Reader,
}

impl Role {
    fn is_asker(&self) -> bool {
        *self == Role::Asker
    }
}

impl Default for ClarifyConfig {
    fn default() -> Self {
        ClarifyConfig {
            orders: Span { min: 2, max: 3 },
            items: Span { min: 1, max: 2 },
            unsaid: Span { min: 1, max: 3 },
            asked: Span { min: 0, max: 0 },
            questions: 3,
            recency: 2.0,
            unknown: 0.1,
            rewards: vec![Component::Information],
            demonstrations: Asker::Informed,
            role: Role::Asker,
            prompt: PromptStyle::Full,
            shop: None,
        }
    }
}

/// The bounds of the numeric keys that may be changed.
pub(super) const BOUNDS: &[BoundRow] = &[
    ("orders.min", 1.0, 6.0, "fewest orders of a customer"),
    ("orders.max", 1.0, 6.0, "most orders of a customer"),
    ("items.min", 1.0, 4.0, "fewest items of an order"),
    ("items.max", 1.0, 4.0, "most items of an order"),
    ("unsaid.min", 0.0, 4.0, "fewest slots left unsaid"),
    ("unsaid.max", 0.0, 4.0, "most slots left unsaid"),
    ("asked.min", 0.0, 4.0, "fewest questions asked before"),
    ("asked.max", 0.0, 4.0, "most questions asked before"),
    ("questions", 1.0, 8.0, "most questions of an episode"),
    ("recency", 1.0, 16.0, "how much likelier a goal in a newer order is"),
    ("unknown", 0.0, 1.0, "how often the customer does not know"),
];

impl ClarifyConfig {
    /// Checks what the types do not express.
    ///
    /// # Errors
    /// Names the first key that is out of its bounds or contradicts another.
    pub(super) fn check(&self) -> Result<(), EnvError> {
        check_bounds(self, BOUNDS)?;
        let spans =
            [("orders", self.orders), ("items", self.items), ("unsaid", self.unsaid), ("asked", self.asked)];
        for (key, Span { min, max }) in spans {
            if min > max {
                let problem = format!("{max} is below {key}.min, which is {min}; nearest: {min}");
                return Err(config_error(&format!("{key}.max"), &problem));
            }
        }
        if self.role == Role::Reader && self.rewards != [Component::Success] {
            return Err(config_error("rewards", "a reader is paid for `success` alone: write [\"success\"]"));
        }
        if self.rewards.is_empty() {
            let known = Component::ALL.map(Component::name).join("`, `");
            return Err(config_error("rewards", &format!("no component is named: `{known}`")));
        }
        Ok(())
    }
}
