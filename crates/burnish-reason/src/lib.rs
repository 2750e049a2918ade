//! Strategies: one answer made from several turns of any policy, without knowing what is right.
//!
//! ```text
//! Turn ─> Strategist ─> Strategy (an episode of its own) ─> turns of the policy, of a judge, of a deliberator
//!           │                  │
//!           │                  └─ Considered: every candidate, what each selection read, which was chosen, tokens
//!           └─ one answer
//! ```
//!
//! A [`Strategy`] is a durable function: it contacts policies through a [`Session`] and nothing else, so its record brings it
//! back to the same point. A [`Strategist`] is a strategy on top of a policy, and a policy itself: whoever plays, evaluates,
//! judges or teaches with one does not know it. Neither sees a task, a verdict or a reference answer: a turn holds only what
//! a policy reads.
//!
//! Random numbers follow from the seed of the turn and the place of a candidate ([`Session::sample`]). The first turn that a
//! strategy asks for draws by the turn's own seed, so that one candidate is the plain answer, to the bit. Ties are broken by
//! place, so that it does not matter which answer comes first.
//!
//! [`STRATEGIES`] lists them; `docs/reasoning.md`.

mod beam;
mod best_of_n;
mod card;
mod catalogue;
mod controlled;
mod cost;
mod equality;
pub mod heavyskill;
mod majority;
mod maker;
mod one_turn;
mod player;
mod rates;
mod recall;
mod record;
mod sampling;
mod scorer;
mod self_refine;
mod session;
mod strategist;
mod strategy;
mod template;
mod weighted_vote;

pub use beam::Beam;
pub use best_of_n::BestOfN;
pub use burnish_core::settings::SettingError;
pub use card::{Card, Part};
pub use catalogue::{Entry, STRATEGIES, StrategyConfig, cards};
pub use controlled::Controlled;
pub use heavyskill::Heavyskill;
pub use majority::Majority;
pub use maker::{
    Bench, Finished, Ledger, Made, MakeKind, Maker, MakerError, Making, Outcome, Played, Shop, TEACHER,
    World, design,
};
pub use player::Player;
pub use rates::Rates;
pub use recall::Recall;
pub use record::{Cached, Candidate, Considered, Role, Selection, Tokens, text_of};
pub use scorer::{By, Scoring};
pub use self_refine::SelfRefine;
pub use session::{Asked, DELIBERATOR, JUDGE, POLICY, Question, REWARD_MODEL, Request, Session};
pub use strategist::Strategist;
pub use strategy::{Answering, Strategy};
pub use weighted_vote::WeightedVote;
