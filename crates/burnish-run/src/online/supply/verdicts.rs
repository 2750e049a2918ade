//! Facts that verdicts and traces contain: reward components, rewards of turns and tokens, and the states in which turns
//! were taken.

use std::collections::BTreeMap;
use std::ops::Range;

use burnish_core::names::nearest;
use burnish_core::rng::fold_bytes;
use burnish_core::{Episode, Node, Trace};
use burnish_model::Tokenizer;
use burnish_rl::fact::{COMPONENTS, Need, TOKEN_REWARDS, TURN_REWARDS};
use serde_json::{Value, json};

use super::{Groups, Kind, Made, Making, Provider, Step};
use crate::RunError;
use crate::online::credit::refuse_branches;
use crate::online::groups::Member;
use crate::online::part;
use burnish_recipe::Recipe;
use burnish_recipe::supply::OF_VERDICTS;
use burnish_rundir::metrics::Values;

pub(super) const KIND: Kind = Kind { supply: &OF_VERDICTS, make };

fn make(making: &Making<'_>) -> Result<Made, RunError> {
    Ok(Some(Box::new(Verdicts { names: part(&making.state["components"])? })))
}

/// Reads verdicts and traces.
struct Verdicts {
    /// The reward components seen so far. Their order never changes during a run, because what an estimator has
    /// learnt refers to positions in it.
    names: Vec<String>,
}

impl Provider for Verdicts {
    fn supply(&mut self, needs: &[&Need], step: Step<'_>, groups: &mut Groups) -> Result<Values, RunError> {
        let mut states = BTreeMap::new();
        for member in groups.kept_mut().flat_map(|group| &mut group.members) {
            for need in needs {
                let numbers = match need.fact {
                    fact if *fact == COMPONENTS => components(step.recipe, &self.names, &member.episode),
                    fact if *fact == TURN_REWARDS => {
                        let turns = turns(&member.episode).count();
                        match member.reward {
                            Some(reward) => {
                                member.episode.verdict.by_turn(&step.recipe.reward.weights, turns, reward)
                            }
                            None => vec![0.0; turns],
                        }
                    }
                    fact if *fact == TOKEN_REWARDS => {
                        token_rewards(step.recipe, &step.learner.chat().tokenizer, member)?
                    }
                    _ => turns(&member.episode).map(|said| number_of(&mut states, said)).collect(),
                };
                member.facts.set(need.fact, numbers);
            }
        }
        Ok(Values::new())
    }

    fn see(&mut self, recipe: &Recipe, groups: &Groups) -> Result<(), RunError> {
        let episodes = groups.downstream().map(|member| &*member.episode);
        let found: std::collections::BTreeSet<&String> =
            episodes.flat_map(|episode| episode.verdict.rewards.keys()).collect();
        let new: Vec<String> = found.into_iter().filter(|name| !self.names.contains(name)).cloned().collect();
        self.names.extend(new);
        check_weights(recipe, &self.names)
    }

    fn state(&self) -> Option<(&'static str, Value)> {
        Some(("components", json!(self.names)))
    }
}

/// The weighted components of a reward. A component that is not a number is left out of comparisons.
fn components(recipe: &Recipe, names: &[String], episode: &Episode) -> Vec<f64> {
    let weighted = |name: &String| {
        let weight = recipe.reward.weights.get(name).copied().unwrap_or(1.0);
        weight * episode.verdict.rewards.get(name).copied().unwrap_or(f64::NAN)
    };
    names.iter().map(weighted).collect()
}

/// The reward of each token of a member; none if it is not learnt from.
///
/// # Errors
/// If the episode has several branches, or its verdict rewards a span that the recipe does not define.
fn token_rewards(recipe: &Recipe, tokenizer: &Tokenizer, member: &Member) -> Result<Vec<f64>, RunError> {
    let verdict = &member.episode.verdict;
    let Some(own) = member.samples.first() else { return Ok(Vec::new()) };
    refuse_branches(recipe, &member.episode)?;
    let scored: Vec<usize> = own.sample.scored().collect();
    let Some(reward) = member.reward else { return Ok(vec![0.0; scored.len()]) };
    let before = |token: usize| scored.partition_point(|at| *at < token);
    let turns: Vec<Range<usize>> =
        own.turns().iter().map(|turn| before(turn.start)..before(turn.end)).collect();
    let mut last = BTreeMap::new();
    for name in verdict.spans.keys() {
        let span = recipe.spans.iter().find(|span| span.name == *name);
        let span = span.ok_or_else(|| no_span(recipe, name, &member.episode))?;
        let is_inside = own.tokens_in(span, tokenizer)?;
        last.insert(name.as_str(), scored.iter().rposition(|at| is_inside[*at]));
    }
    let last_of = |span: &str| last.get(span).copied().flatten();
    Ok(verdict.by_token(&recipe.reward.weights, &turns, last_of, reward))
}

fn no_span(recipe: &Recipe, name: &str, episode: &Episode) -> RunError {
    let meant = nearest(name, recipe.spans.iter().map(|span| span.name.as_str()));
    let meant = meant.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default();
    RunError::Refused(format!(
        "spans: the verdict on task {} rewards the span `{name}`, which the recipe does not define{meant}: add it to \
         `[[spans]]`, with its marks, or leave it out of the verdict's `span_rewards`",
        episode.task.0
    ))
}

/// The turns of an episode, each identified by what was said to the policy just before. Two turns with the same
/// identity are in the same state.
fn turns(episode: &Episode) -> impl Iterator<Item = u64> {
    let said = |node: &Node| fold_bytes(0, node.text.as_bytes());
    let before =
        move |trace: &Trace, node: &Node| node.parent.map_or(0, |parent| said(&trace.nodes()[parent.0]));
    episode.traces.iter().flat_map(move |trace| {
        let sampled = trace.nodes().iter().filter(|node| node.sampled.is_some());
        sampled.map(move |node| before(trace, node))
    })
}

/// A small number for each state, because a fact can't hold all bits of a digest.
fn number_of(states: &mut BTreeMap<u64, f64>, said: u64) -> f64 {
    let next = states.len() as f64;
    *states.entry(said).or_insert(next)
}

/// Refuses a weight for a component that no reward has had so far, once any reward had components. If the environment
/// knows its components, the recipe was checked before; an external judge may name its own.
///
/// # Errors
/// Names the existing components, and suggests the nearest.
fn check_weights(recipe: &Recipe, names: &[String]) -> Result<(), RunError> {
    // The environment of an extra evaluation may have other components.
    if names.is_empty() || recipe.eval.extra.iter().any(|also| also.env.is_some()) {
        return Ok(());
    }
    let Some(unknown) = recipe.reward.weights.keys().find(|name| !names.contains(name)) else {
        return Ok(());
    };
    let meant = nearest(unknown, names.iter().map(String::as_str));
    let meant = meant.map(|name| format!(" (did you mean `reward.weights.{name}`?)")).unwrap_or_default();
    Err(RunError::Refused(format!(
        "`reward.weights.{unknown}` weighs a component that no reward has had; they have: {}{meant}. Where only some answers \
         have it, let the others have it too, as 0",
        names.join(", ")
    )))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::online::groups::Group;
    use burnish_core::{Ending, Record, Sampled, Source, StopReason, Task, TaskId, Verdict};
    use burnish_recipe::SpanSection;
    use burnish_rl::fact::{Fact, Facts};
    use burnish_rl::plan::Role;
    use burnish_rl::{Evaluation, Objective, Streams, Totals};
    use std::sync::Arc;

    const ANSWERS: [&str; 2] = ["<a>3</a> plus <a>4</a> is 7", "so <a>7</a>, then"];

    fn recipe() -> Recipe {
        let text = "[run]\ndir = \"x\"\n[policy]\npath = \"p\"\n[env]\nid = \"countdown\"\n[train]\nmethod = \"grpo\"\n\
                    max_steps = 1\n";
        let source = burnish_recipe::Source::parse("r.toml", text, &[]).unwrap();
        let mut recipe = Recipe::resolve(&source).unwrap();
        let (begin, end) = (Some("<a>".to_owned()), Some("</a>".to_owned()));
        recipe.spans = vec![SpanSection { name: "sum".into(), begin, end, marks: true }];
        recipe
    }

    /// The member of an episode of two turns with this verdict, ready to be learnt from.
    fn groups(recipe: &Recipe, tokenizer: &Tokenizer, verdict: Verdict) -> Groups {
        let node = |parent: Option<usize>, text: &str, is_sampled: bool| {
            let ids = tokenizer.encode(text).unwrap();
            let sampled = is_sampled.then(|| Sampled {
                model_logprobs: vec![-1.0; ids.len()],
                sampled_logprobs: None,
                policy_version: 0,
                temperature: 1.0,
                stop: StopReason::EndToken,
                latents: Vec::new(),
            });
            let sources = vec![if is_sampled { Source::Policy } else { Source::User }; ids.len()];
            Node { parent: parent.map(burnish_core::NodeId), text: text.to_owned(), ids, sources, sampled }
        };
        let mut trace = Trace::new();
        for (at, (text, is_sampled)) in
            [("go", false), (ANSWERS[0], true), ("and", false), (ANSWERS[1], true)].into_iter().enumerate()
        {
            trace.push(node(at.checked_sub(1), text, is_sampled)).unwrap();
        }
        let episode = Episode {
            task: TaskId("sums/1".into()),
            rollout: 0,
            traces: vec![trace],
            partners: Vec::new(),
            verdict,
            ending: Ending::Completed,
            answers: Vec::new(),
            record: Record::default(),
        };
        let task = Task {
            id: TaskId("sums/1".into()),
            environment: "none".into(),
            prompt: Vec::new(),
            truth: Value::Null,
            labels: BTreeMap::default(),
        };
        let member = Member {
            role: Role::Rollout,
            episode: Arc::new(episode),
            reward: None,
            facts: Facts::default(),
            advantage: None,
            weight: 1.0,
            samples: Vec::new(),
        };
        let mut groups = Groups::of(vec![Group { task, turned: None, is_kept: true, members: vec![member] }]);
        groups.reward(recipe);
        groups.make_samples(recipe);
        groups
    }

    /// An objective that needs to know what tokens earned, and where the sums are.
    struct Reader;

    impl Objective for Reader {
        fn facts(&self) -> Vec<&'static Fact> {
            vec![&TOKEN_REWARDS]
        }

        fn spans(&self) -> Vec<String> {
            vec!["sum".to_owned()]
        }

        fn evaluate(&self, streams: &Streams<'_>, _: &Totals) -> Evaluation {
            Evaluation::zero(streams.policy.len())
        }
    }

    #[test]
    fn an_objective_finds_facts_and_spans_at_the_tokens_of_the_sample() {
        let recipe = recipe();
        let tokenizer = Tokenizer::train_bpe(&ANSWERS, 280, &[]).unwrap();
        let mut verdict = Verdict::scored("right", 1.0, true);
        verdict.reward_span("sum", "tidy", 0.25);
        let mut groups = groups(&recipe, &tokenizer, verdict);
        let rewards = token_rewards(&recipe, &tokenizer, &groups.all[0].members[0]).unwrap();
        groups.all[0].members[0].facts.set(&TOKEN_REWARDS, rewards.clone());
        groups.give_facts(&recipe, &Reader, &tokenizer).unwrap();
        let sample = &groups.all[0].members[0].samples[0].sample;
        let (earned, inside) = (&sample.facts["token.rewards"], &sample.facts["span.sum"]);
        let found: Vec<f64> = sample.scored().map(|at| f64::from(earned[at])).collect();
        assert_eq!(found, rewards);
        let read = |at: &usize| !sample.loss_mask[*at];
        assert!((0..earned.len()).filter(read).all(|at| earned[at] == 0.0 && inside[at] == 0.0));
        let last = earned.iter().position(|earned| *earned == 0.25).unwrap();
        assert_eq!((inside[last], inside[last + 1], sample.check()), (1.0, 0.0, Ok(())));
    }

    #[test]
    fn a_span_is_paid_at_the_last_token_of_its_last_place_and_the_rest_at_the_end() {
        let recipe = recipe();
        let tokenizer = Tokenizer::train_bpe(&ANSWERS, 280, &[]).unwrap();
        let paid = |verdict: Verdict| {
            let groups = groups(&recipe, &tokenizer, verdict);
            token_rewards(&recipe, &tokenizer, &groups.all[0].members[0])
        };
        let lens = ANSWERS.map(|answer| tokenizer.encode(answer).unwrap().len());
        let at = |rewards: &[f64]| -> Vec<(usize, f64)> {
            rewards.iter().copied().enumerate().filter(|(_, reward)| *reward != 0.0).collect()
        };
        let mut verdict = Verdict::scored("right", 1.0, true);
        let plain = paid(verdict.clone()).unwrap();
        assert_eq!((plain.len(), at(&plain)), (lens[0] + lens[1], vec![(lens[0] + lens[1] - 1, 1.0)]));
        verdict.reward_turn(0, "tidy", 0.5);
        verdict.reward_span("sum", "tidy", 0.25);
        let found = paid(verdict.clone()).unwrap();
        let [(turn, tidy), (span, sum), (end, rest)] = at(&found)[..] else { panic!("{found:?}") };
        assert_eq!((turn, tidy, sum, end, rest), (lens[0] - 1, 0.5, 0.25, lens[0] + lens[1] - 1, 1.0));
        let ids = tokenizer.encode(ANSWERS[1]).unwrap();
        let begins = |token: usize| tokenizer.decode(&ids[..token], false).unwrap().len();
        let end = ANSWERS[1].find(',').unwrap();
        assert!(begins(span - lens[0]) < end && begins(span + 1 - lens[0]) >= end, "{span}");
        // A span that does not occur leaves its reward at the end; one that the recipe does not define is refused.
        let mut elsewhere = recipe.clone();
        elsewhere.spans[0].begin = Some("never".into());
        elsewhere.spans[0].end = None;
        let member = groups(&elsewhere, &tokenizer, verdict.clone());
        let unfound = token_rewards(&elsewhere, &tokenizer, &member.all[0].members[0]).unwrap();
        assert_eq!(at(&unfound), [(lens[0] - 1, 0.5), (lens[0] + lens[1] - 1, 1.25)]);
        verdict.reward_span("sun", "tidy", 1.0);
        let error = paid(verdict).unwrap_err().to_string();
        assert!(
            error.contains("sums/1") && error.contains("`sun`") && error.contains("mean `sum`"),
            "{error}"
        );
    }
}
