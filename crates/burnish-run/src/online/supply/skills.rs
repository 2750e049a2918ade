//! A library of skills between the steps of a run: what each turn did with it and earned, what it learns from the episodes of a
//! step, and who reads it.

use std::sync::Arc;

use burnish_env::SkillLibrary;
use burnish_env::skilled::{Library, Outcome, Rules, Segment};
use burnish_rl::advantage::{ACTING, ASKING, Estimator, ORDERING, Rollout, WRITING};
use burnish_rl::fact::{Need, SEGMENT_REWARDS, SEGMENTS};
use serde_json::{Value, json};

use super::{Groups, Kind, Made, Making, Provider, Step};
use crate::RunError;
use crate::tasks::Tasks;
use burnish_recipe::Recipe;
use burnish_recipe::supply::OF_SKILLS;
use burnish_rundir::metrics::Values;

pub(super) const KIND: Kind = Kind { supply: &OF_SKILLS, make };

/// Its key in the state of a checkpoint.
const KEY: &str = "skills";

fn make(making: &Making<'_>) -> Result<Made, RunError> {
    Ok(Some(Box::new(Skills { library: saved(making.state)?, used: None })))
}

/// The library in the state of the loop, if it has one.
///
/// # Errors
/// If it is not a library.
pub(crate) fn saved(state: &Value) -> Result<Option<Arc<Library>>, RunError> {
    match &state[KEY] {
        Value::Null => Ok(None),
        _ => Ok(Some(Arc::new(crate::online::part(&state[KEY])?))),
    }
}

/// Lets every environment of `tasks` that reads a library read this one: those of evaluations without exploring.
pub(crate) fn share(library: &Arc<Library>, tasks: &Tasks) {
    if let Some(own) = of_training(tasks) {
        own.share(Arc::clone(library), true);
    }
    for shelf in tasks.evaluations.iter().filter_map(|set| set.generator.skill_library()) {
        shelf.share(Arc::clone(library), false);
    }
}

fn of_training(tasks: &Tasks) -> Option<&dyn SkillLibrary> {
    tasks.generator().ok()?.skill_library()
}

/// The library of a run, if its environment reads one.
struct Skills {
    library: Option<Arc<Library>>,
    /// How it is used, once the environment is known.
    used: Option<Used>,
}

#[derive(Clone, Copy)]
struct Used {
    rules: Rules,
    selects: bool,
}

impl Skills {
    /// What the members of a step that earn a reward did with the library, in their order.
    fn outcomes(&self, groups: &Groups) -> Vec<Outcome> {
        let (Some(library), Some(Used { rules, selects })) = (&self.library, &self.used) else {
            return Vec::new();
        };
        groups.downstream().map(|member| Outcome::of(&member.episode, library, rules, *selects)).collect()
    }
}

impl Provider for Skills {
    fn prepare(&mut self, tasks: &Tasks) {
        let Some(own) = of_training(tasks) else { return };
        self.used = Some(Used { rules: own.rules(), selects: own.selects() });
        share(self.library.get_or_insert_with(|| own.library()), tasks);
    }

    fn supply(&mut self, _: &[&Need], _: Step<'_>, groups: &mut Groups) -> Result<Values, RunError> {
        let (Some(library), Some(Used { rules, selects })) = (&self.library, &self.used) else {
            let problem = "advantage.estimator: credits what turns do with a library of skills, which the environment does not have";
            return Err(RunError::Refused(problem.to_owned()));
        };
        for member in groups.kept_mut().flat_map(|group| &mut group.members) {
            let outcome = Outcome::of(&member.episode, library, rules, *selects);
            let segments: Vec<f64> = outcome.segments.iter().map(|segment| number_of(*segment)).collect();
            let rewards: Vec<f64> = outcome.rewards.iter().map(|reward| reward.unwrap_or(f64::NAN)).collect();
            member.facts.set(&SEGMENTS, segments);
            member.facts.set(&SEGMENT_REWARDS, rewards);
        }
        Ok(Values::new())
    }

    fn learn(
        &mut self,
        _: &Recipe,
        groups: &Groups,
        _: &[&Rollout],
        _: &dyn Estimator,
        _: u64,
    ) -> Result<Values, RunError> {
        let outcomes = self.outcomes(groups);
        let (Some(library), Some(Used { rules, .. })) = (&mut self.library, self.used) else {
            return Ok(Values::new());
        };
        let miscalibration = library.miscalibration(&outcomes);
        let mut next = (**library).clone();
        let added = next.see(&outcomes, &rules);
        *library = Arc::new(next);
        let utilities: Vec<f64> = library.skills().iter().map(|skill| skill.utility).collect();
        let ordered = |outcome: &Outcome| {
            let turns = outcome.segments.iter().zip(&outcome.rewards);
            turns.filter(|(segment, _)| **segment == Segment::Ordering).find_map(|(_, reward)| *reward)
        };
        let ordered: Vec<f64> = outcomes.iter().filter_map(ordered).collect();
        let mut metrics = Values::from([
            ("skills/size".to_owned(), utilities.len() as f64),
            ("skills/added".to_owned(), added as f64),
        ]);
        for (name, values) in [("skills/utility", utilities), ("skills/order", ordered)] {
            if !values.is_empty() {
                metrics.insert(name.to_owned(), values.iter().sum::<f64>() / values.len() as f64);
            }
        }
        metrics.extend(miscalibration.map(|apart| ("skills/miscalibration".to_owned(), apart)));
        Ok(metrics)
    }

    fn state(&self) -> Option<(&'static str, Value)> {
        self.library.as_ref().map(|library| (KEY, json!(**library)))
    }
}

fn number_of(segment: Segment) -> f64 {
    match segment {
        Segment::Asking => ASKING,
        Segment::Ordering => ORDERING,
        Segment::Acting => ACTING,
        Segment::Writing => WRITING,
    }
}
