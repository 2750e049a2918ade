//! What supplies the facts that estimators, plans and objectives need, as far as a recipe decides it. The loop has a
//! provider for each of [`SUPPLIES`].

use burnish_rl::fact::{
    BOOTSTRAP, COMPONENTS, CONTINUED, COUNTERPART, DEMONSTRATED, FLAW, Fact, GREEDY_REWARD, HINT, LOGPROBS,
    Need, REFERENCE, SEGMENT_REWARDS, SEGMENTS, SQUARES, TASK_DRIFT, TEACHER, TEACHER_HEAD, TOKEN_REWARDS,
    TURN_REWARDS, TURN_STATES, VALUES, WINS, WORTH,
};
use burnish_rl::plan::RolloutPlan;

use crate::Recipe;

/// A supply of facts, and what a recipe must say to have it.
pub struct Supply {
    /// The facts.
    pub facts: &'static [&'static Fact],
    /// The table of the recipe that creates it; `None` if it is always there.
    pub(crate) table: Option<Table>,
    /// What conflicts with it in this recipe.
    pub(crate) clash: fn(&Recipe, Option<&dyn RolloutPlan>) -> Option<Clash>,
}

/// A table of the recipe that creates a supply.
pub(crate) struct Table {
    pub(crate) key: &'static str,
    /// What it makes: "a judge".
    pub(crate) makes: &'static str,
    pub(crate) is_there: fn(&Recipe) -> bool,
    /// The key of the part that could use it, and what to say of a part that does not.
    pub(crate) of: &'static str,
    pub(crate) unused: &'static str,
}

/// A key of the recipe that conflicts with a supply, and why: "which ...".
pub(crate) type Clash = (&'static str, &'static str);

/// Every supply, in the order in which they are asked.
pub static SUPPLIES: [&Supply; 13] = [
    &OF_REFERENCE,
    &OF_TEACHER,
    &OF_VERDICTS,
    &OF_CRITIC,
    &OF_DRIFT,
    &OF_FLAWS,
    &OF_TOKENS,
    &OF_GREEDY,
    &OF_JUDGE,
    &OF_CONTINUATIONS,
    &OF_WORTH,
    &OF_SKILLS,
    &OF_ENVIRONMENT,
];

/// Log-probs of a frozen policy.
pub static OF_REFERENCE: Supply = Supply::plain(&[&REFERENCE]);

/// Log-probs or distributions of a teacher.
pub static OF_TEACHER: Supply = Supply {
    table: Some(Table {
        key: "teacher",
        makes: "a teacher",
        is_there: |recipe| recipe.teacher.is_some(),
        of: "loss.objective",
        unused: "needs no teacher",
    }),
    ..Supply::plain(&[&TEACHER, &TEACHER_HEAD])
};

/// What verdicts and traces contain.
pub static OF_VERDICTS: Supply = Supply::plain(&[&COMPONENTS, &TURN_REWARDS, &TOKEN_REWARDS, &TURN_STATES]);

/// Values of a critic.
pub static OF_CRITIC: Supply = Supply {
    clash: |recipe, _| {
        let learns = recipe.advantage.build().is_ok_and(|own| own.needs().contains(&Need::of(&VALUES)));
        (!learns).then_some((
            "advantage.estimator",
            "whose critic learns what the estimator returns; take \"gae\"",
        ))
    },
    table: Some(Table {
        key: "critic",
        makes: "a critic",
        is_there: |recipe| recipe.critic.is_some(),
        of: "advantage.estimator",
        unused: "needs no values; take \"gae\"",
    }),
    ..Supply::plain(&[&VALUES, &BOOTSTRAP])
};

/// How far the policy has moved on a task since the task was last played.
pub static OF_DRIFT: Supply = Supply::plain(&[&TASK_DRIFT]);

/// Flaws in right answers.
pub static OF_FLAWS: Supply = Supply::plain(&[&FLAW]);

/// Statistics of the sampled tokens.
pub static OF_TOKENS: Supply = Supply::plain(&[&LOGPROBS, &SQUARES]);

/// One greedy answer per task.
pub static OF_GREEDY: Supply = Supply {
    clash: |_, plan| {
        plan.filter(|plan| plan.judges()).map(|_| {
            let why = "which compares with a greedy answer, and that one does not get the plan's rewards; take another \
                       estimator, such as `grpo`";
            ("plan", why)
        })
    },
    ..Supply::plain(&[&GREEDY_REWARD])
};

/// Judgements of pairs.
pub static OF_JUDGE: Supply = Supply {
    table: Some(Table {
        key: "judge",
        makes: "a judge",
        is_there: |recipe| recipe.judge.is_some(),
        of: "advantage.estimator",
        unused: "compares no pairs",
    }),
    clash: |recipe, _| recipe.plan.as_ref().map(|_| ("plan", "which compares answers to one prompt")),
    ..Supply::plain(&[&WINS])
};

/// Continuations that start inside other answers.
pub static OF_CONTINUATIONS: Supply = Supply {
    clash: |recipe, _| {
        let is_buffered = recipe.reward.overlong_buffer.is_on();
        let keys = [
            ("plan", recipe.plan.is_some()),
            ("latent", recipe.latent.is_some()),
            ("reward.overlong_buffer", is_buffered),
        ];
        let there = keys.into_iter().find(|(_, is_there)| *is_there);
        there.map(|(key, _)| (key, "which starts continuations inside bare answers"))
    },
    ..Supply::plain(&[&CONTINUED])
};

/// What beginnings are worth.
pub static OF_WORTH: Supply = Supply {
    clash: |recipe, _| {
        let is_buffered = recipe.reward.overlong_buffer.is_on();
        let keys = [("latent", recipe.latent.is_some()), ("reward.overlong_buffer", is_buffered)];
        let there = keys.into_iter().find(|(_, is_there)| *is_there);
        there.map(|(key, _)| (key, "which tells what bare answers are worth"))
    },
    ..Supply::plain(&[&WORTH])
};

/// What turns do with a library of skills.
pub static OF_SKILLS: Supply = Supply {
    clash: |recipe, _| {
        (recipe.env.id != "skilled")
            .then_some(("env.id", "which credits turns that use a library; take \"skilled\""))
    },
    ..Supply::plain(&[&SEGMENTS, &SEGMENT_REWARDS])
};

/// What environments know about their tasks; they supply it themselves when asked.
pub static OF_ENVIRONMENT: Supply = Supply::plain(&[&HINT, &DEMONSTRATED, &COUNTERPART]);

impl Supply {
    /// A supply of these facts that is always there and conflicts with nothing.
    const fn plain(facts: &'static [&'static Fact]) -> Self {
        Supply { facts, table: None, clash: |_, _| None }
    }
}
