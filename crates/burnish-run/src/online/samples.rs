//! Turns members into samples, and samples into the batch of an update.

use std::ops::Range;

use burnish_core::{Branch, Source, Trace};
use burnish_model::Tokenizer;
use burnish_rl::Objective;
use burnish_rl::advantage::{Advantage, Phase};
use burnish_rl::correction::{ProximalSource, loglinear_share};
use burnish_rl::fact::span_id;
use burnish_rl::plan::Role;
use burnish_train::{LatentInputs, Proximal, Sample};

use super::credit::refuse_branches;
use super::groups::{Group, Groups, Member};
use crate::RunError;
use crate::learner::Learner;
use burnish_recipe::{LatentPath, Recipe, SpanSection};
use burnish_rundir::metrics::Values;

/// A branch of a member's traces that is learnt from.
pub(super) struct OwnSample {
    pub(super) sample: Sample,
    /// Whether an answer on it was cut off.
    pub(super) is_truncated: bool,
    /// Did somebody else give the answers?
    is_given: bool,
    /// The tokens that each turn sampled, or was given.
    turns: Vec<Range<usize>>,
    /// For each token, the number of updates of the weights that sampled it; 0 if it was not sampled.
    versions: Vec<u64>,
}

impl Member {
    fn make_samples(&mut self, group: usize, recipe: &Recipe) {
        let direction = self.direction();
        let flows = recipe.latent.as_ref().is_some_and(|latent| latent.gradient == LatentPath::Bptt);
        let branches = self.episode.traces.iter().flat_map(Trace::branches);
        let is_given = self.role == Role::Expert;
        let of_branch = |branch: &Branch| {
            if is_given {
                let temperatures = vec![recipe.rollout.temperature; branch.ids.len()];
                return Sample { group, direction, temperatures, ..Sample::from_demonstration(branch) };
            }
            let mut sample = Sample { group, direction, ..Sample::from_rollout(branch, 0.0) };
            if let Some(latents) = sample.latents.as_mut().filter(|_| flows) {
                latents.inputs = LatentInputs::Computed;
            }
            sample
        };
        let sample = |branch: Branch| OwnSample {
            sample: of_branch(&branch),
            is_truncated: branch.is_truncated,
            is_given,
            turns: if is_given { given_turns(&branch) } else { branch.turns },
            versions: branch.policy_versions,
        };
        self.samples = branches.map(sample).collect();
    }
}

/// The ranges of tokens that were given as answers.
fn given_turns(branch: &Branch) -> Vec<Range<usize>> {
    let mut turns: Vec<Range<usize>> = Vec::new();
    for at in (0..branch.ids.len()).filter(|at| branch.sources[*at] == Source::Demonstration) {
        match turns.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => turns.push(at..at + 1),
        }
    }
    turns
}

impl OwnSample {
    /// The tokens that each turn sampled.
    pub(super) fn turns(&self) -> &[Range<usize>] {
        &self.turns
    }

    /// Gives every sampled token the advantage of its episode, of its turn, or its own. If turns or tokens differ,
    /// the episode has only one sample.
    fn give(&mut self, advantage: Option<&Advantage>, weight: f64) {
        let sample = &mut self.sample;
        match advantage {
            None => sample.advantages.fill(0.0),
            Some(Advantage::Whole(advantage)) => sample.advantages.fill(*advantage as f32),
            Some(Advantage::Tokens(tokens)) => {
                let scored: Vec<usize> = sample.scored().collect();
                for (at, advantage) in scored.into_iter().zip(tokens) {
                    sample.advantages[at] = *advantage as f32;
                }
            }
            Some(Advantage::Steps(turns)) => {
                for (turn, advantage) in self.turns.iter().zip(turns) {
                    sample.advantages[turn.clone()].fill(*advantage as f32);
                }
            }
        }
        if weight != 1.0 {
            sample.advantages.iter_mut().for_each(|own| *own = (f64::from(*own) * weight) as f32);
        }
    }
}

impl Groups {
    /// Makes a sample of every branch of every member that has a number to compare, in the trained groups. A member
    /// that earns nothing itself is worth what follows it; if nothing that follows earned a reward, it has no worth.
    pub(super) fn make_samples(&mut self, recipe: &Recipe) {
        for (at, group) in self.all.iter_mut().enumerate().filter(|(_, group)| group.is_kept) {
            let mut is_learned_from = false;
            for member in &mut group.members {
                let is_upstream = member.phase() == Phase::Upstream;
                if is_upstream && is_learned_from || member.reward.is_some_and(f64::is_finite) {
                    member.make_samples(at, recipe);
                    is_learned_from |= !member.samples.is_empty();
                }
            }
        }
    }

    /// Computes the log-probs of answers that somebody else gave: to the loss they are as likely to have been drawn as the policy
    /// would draw them now, so that their ratio is 1 before the first update.
    ///
    /// # Errors
    /// If a sample does not fit the model.
    pub(super) fn score_given(&mut self, recipe: &Recipe, learner: &Learner) -> Result<(), RunError> {
        let given: Vec<&Sample> =
            self.samples().filter(|(_, _, own)| own.is_given).map(|(_, _, own)| &own.sample).collect();
        if given.is_empty() {
            return Ok(());
        }
        let known = learner.score(&given, recipe.train.micro_batch_tokens)?;
        for (own, known) in self.samples_mut().filter(|own| own.is_given).zip(known) {
            own.versions.fill(learner.updates());
            own.sample.sampled_logprobs.clone_from(&known);
            own.sample.model_logprobs = known;
        }
        Ok(())
    }

    /// The samples of all trained groups, each with its group and its member.
    pub(super) fn samples(&self) -> impl Iterator<Item = (&Group, &Member, &OwnSample)> {
        self.kept().flat_map(|group| {
            group
                .members
                .iter()
                .flat_map(move |member| member.samples.iter().map(move |own| (group, member, own)))
        })
    }

    /// As [`Groups::samples`], mutable.
    pub(super) fn samples_mut(&mut self) -> impl Iterator<Item = &mut OwnSample> {
        self.kept_mut().flat_map(|group| &mut group.members).flat_map(|member| &mut member.samples)
    }

    /// The samples as models read them.
    pub(super) fn bare_samples(&self) -> Vec<&Sample> {
        self.samples().map(|(_, _, own)| &own.sample).collect()
    }

    /// Gives the samples what the recipe needs to know about the proximal policy, which is `learner`'s. Reports how far behind it the sampling weights were.
    ///
    /// # Errors
    /// If a sample does not fit the model.
    pub(super) fn find_proximal(&mut self, recipe: &Recipe, learner: &Learner) -> Result<Values, RunError> {
        let version = learner.updates();
        match recipe.loss.correction.proximal {
            ProximalSource::Sampling => {}
            ProximalSource::Recompute => {
                let known = learner.score(&self.bare_samples(), recipe.train.micro_batch_tokens)?;
                for (own, known) in self.samples_mut().zip(known) {
                    own.sample.proximal = Proximal::Known(known);
                }
            }
            ProximalSource::Loglinear => {
                let trained = version + (recipe.train.epochs * recipe.train.minibatches) as u64;
                let share = |sampled: &u64| loglinear_share(Some(*sampled), version, trained) as f32;
                for own in self.samples_mut() {
                    own.sample.proximal = Proximal::Between(own.versions.iter().map(share).collect());
                }
            }
        }
        if recipe.rollout.policy_lag == 0 {
            return Ok(Values::new());
        }
        let of_sample = |own: &OwnSample| {
            let scored = own.sample.scored();
            scored.map(|at| version.saturating_sub(own.versions[at]) as f64).collect::<Vec<f64>>()
        };
        let behind: Vec<f64> = self.samples().flat_map(|(_, _, own)| of_sample(own)).collect();
        let mean = behind.iter().sum::<f64>() / behind.len().max(1) as f64;
        Ok(Values::from([("sampling/updates_behind".to_owned(), mean)]))
    }

    /// Gives the samples the facts of tokens and the spans that `objective` asks for. A fact that is not known of a member is
    /// left out.
    ///
    /// # Errors
    /// If an episode has several branches, or ids can't be decoded.
    pub(super) fn give_facts(
        &mut self,
        recipe: &Recipe,
        objective: &dyn Objective,
        tokenizer: &Tokenizer,
    ) -> Result<(), RunError> {
        let (facts, spans) = (objective.facts(), objective.spans());
        let spans = recipe.spans.iter().filter(|span| spans.contains(&span.name));
        let spans: Vec<&SpanSection> = spans.collect();
        for member in self.kept_mut().flat_map(|group| &mut group.members) {
            if !facts.is_empty() && !member.samples.is_empty() {
                refuse_branches(recipe, &member.episode)?;
            }
            let Member { samples, facts: known, .. } = member;
            for own in samples {
                for fact in facts.iter().filter(|fact| !known.of(fact).is_empty()) {
                    let mut numbers = vec![0.0; own.sample.ids.len()];
                    for (at, number) in own.sample.scored().zip(known.of(fact)) {
                        numbers[at] = *number as f32;
                    }
                    own.sample.facts.insert(fact.id.to_owned(), numbers);
                }
                for span in &spans {
                    let is_inside = own.tokens_in(span, tokenizer)?;
                    let numbers = is_inside.into_iter().map(|is_in| f32::from(u8::from(is_in))).collect();
                    own.sample.facts.insert(span_id(&span.name), numbers);
                }
            }
        }
        Ok(())
    }

    /// Gives the samples the advantages of their members.
    pub(super) fn give_advantages(&mut self) {
        for member in self.kept_mut().flat_map(|group| &mut group.members) {
            let Member { samples, advantage, weight, .. } = member;
            samples.iter_mut().for_each(|own| own.give(advantage.as_ref(), *weight));
        }
    }

    /// Excludes samples with an answer that was cut off from the loss. They still count as sequences, as in TRL.
    pub(super) fn mask_truncated(&mut self) {
        for own in self.samples_mut().filter(|own| own.is_truncated) {
            own.sample.loss_mask.fill(false);
        }
    }

    /// The batch of an update: all samples, group by group, moved out of their members.
    pub(super) fn take_batch(&mut self) -> Batch {
        let mut batch = Batch { samples: Vec::new(), group_sizes: Vec::new() };
        for group in self.kept_mut() {
            let before = batch.samples.len();
            let own = group.members.iter_mut().flat_map(|member| std::mem::take(&mut member.samples));
            batch.samples.extend(own.map(|own| own.sample));
            batch.group_sizes.push(batch.samples.len() - before);
        }
        batch
    }

    /// The batch in pairs of samples of one group and one direction, which answer the same prompt: the best with the
    /// worst, the second best with the second worst, and so on while their advantages differ. The better one comes
    /// first. Samples without a token in the loss are in no pair.
    pub(super) fn take_pairs(&mut self) -> Batch {
        let mut batch = Batch { samples: Vec::new(), group_sizes: Vec::new() };
        for group in self.kept() {
            for direction in [0, 1] {
                let own = group.members.iter().filter(|member| member.direction() == direction);
                let mut ranked: Vec<(f64, &Sample)> = own
                    .flat_map(|member| {
                        let credit = member.advantage.as_ref().map_or(0.0, Advantage::mean);
                        member.samples.iter().map(move |own| (credit, &own.sample))
                    })
                    .filter(|(_, sample)| sample.scored_tokens() > 0)
                    .collect();
                ranked.sort_by(|(a, _), (b, _)| b.total_cmp(a));
                for rank in 0..ranked.len() / 2 {
                    let ((best, chosen), (worst, rejected)) = (ranked[rank], ranked[ranked.len() - 1 - rank]);
                    if best > worst {
                        let group = batch.group_sizes.len();
                        let of_pair = |sample: &Sample| Sample { group, ..sample.clone() };
                        batch.samples.extend([chosen, rejected].map(of_pair));
                        batch.group_sizes.push(2);
                    }
                }
            }
        }
        self.samples_mut().for_each(|own| own.sample = Sample::default());
        batch
    }
}

/// The samples of an update.
pub(super) struct Batch {
    /// The samples, group by group.
    pub(super) samples: Vec<Sample>,
    /// Number of samples in each group.
    pub(super) group_sizes: Vec<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_core::{Ending, Episode, Record, Task, TaskId, Verdict};
    use burnish_rl::fact::Facts;
    use std::sync::Arc;

    /// A member with one sample, with this many scored tokens and `id` as its first id.
    fn member(id: u32, scored: usize, advantage: f64) -> Member {
        let sample = Sample {
            ids: vec![id; scored + 1],
            loss_mask: std::iter::once(false).chain(vec![true; scored]).collect(),
            ..Sample::default()
        };
        let episode = Episode {
            task: TaskId("a".into()),
            rollout: 0,
            traces: Vec::new(),
            partners: Vec::new(),
            verdict: Verdict::scored("right", 1.0, true),
            ending: Ending::Completed,
            answers: Vec::new(),
            record: Record::default(),
        };
        Member {
            role: Role::Rollout,
            episode: Arc::new(episode),
            reward: Some(1.0),
            facts: Facts::default(),
            advantage: Some(Advantage::Whole(advantage)),
            weight: 1.0,
            samples: vec![OwnSample {
                sample,
                is_truncated: false,
                is_given: false,
                turns: Vec::new(),
                versions: Vec::new(),
            }],
        }
    }

    fn groups(members: Vec<Vec<Member>>) -> Groups {
        let task = Task {
            id: TaskId("a".into()),
            environment: "none".into(),
            prompt: Vec::new(),
            truth: serde_json::Value::Null,
            labels: Default::default(),
        };
        let group = |members| Group { task: task.clone(), turned: None, is_kept: true, members };
        Groups::of(members.into_iter().map(group).collect())
    }

    fn ids(batch: &Batch) -> Vec<u32> {
        batch.samples.iter().map(|sample| sample.ids[0]).collect()
    }

    #[test]
    fn the_best_of_a_group_are_paired_with_its_worst_as_long_as_they_differ() {
        let advantages =
            [(2, 0.5), (2, -1.0), (2, 0.5), (2, 0.0), (1, 0.3), (1, 0.3), (3, 1.0), (0, -1.0), (3, 0.0)];
        let mut members: Vec<Member> = advantages
            .into_iter()
            .zip(0..)
            .map(|((scored, advantage), id)| member(id, scored, advantage))
            .collect();
        let third = members.split_off(6);
        let second = members.split_off(4);
        let batch = groups(vec![members, second, third]).take_pairs();
        // The second group ties; in the third group, one answer has no token in the loss.
        assert_eq!(ids(&batch), [0, 1, 2, 3, 6, 8]);
        assert_eq!(batch.group_sizes, [2, 2, 2]);
        let groups: Vec<usize> = batch.samples.iter().map(|sample| sample.group).collect();
        assert_eq!(groups, [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn answers_to_a_task_and_to_the_task_turned_round_are_no_pair() {
        let mut members: Vec<Member> = [1.0, -1.0, 0.5, -0.5]
            .into_iter()
            .zip(0..)
            .map(|(advantage, id)| member(id, 1, advantage))
            .collect();
        members[2..].iter_mut().for_each(|member| member.role = Role::Turned);
        let batch = groups(vec![members]).take_pairs();
        assert_eq!((ids(&batch), batch.group_sizes), (vec![0, 1, 2, 3], vec![2, 2]));
    }

    #[test]
    fn turns_and_tokens_get_advantages_of_their_own() {
        let given = |turns: [Range<usize>; 2], advantage: Advantage| {
            let sample = Sample {
                ids: vec![0; 7],
                loss_mask: vec![false, true, true, false, false, true, true],
                advantages: vec![0.0; 7],
                ..Sample::default()
            };
            let mut own = OwnSample {
                sample,
                is_truncated: false,
                is_given: false,
                turns: turns.into(),
                versions: Vec::new(),
            };
            own.give(Some(&advantage), 1.0);
            own.sample.scored().map(|at| own.sample.advantages[at]).collect::<Vec<f32>>()
        };
        assert_eq!(given([1..3, 5..7], Advantage::Whole(2.0)), [2.0; 4]);
        assert_eq!(given([1..3, 5..7], Advantage::Steps(vec![1.0, -1.0])), [1.0, 1.0, -1.0, -1.0]);
        // The trace tells where turns end, not the mask.
        assert_eq!(given([1..2, 2..7], Advantage::Steps(vec![1.0, -1.0])), [1.0, -1.0, -1.0, -1.0]);
        assert_eq!(given([1..3, 5..7], Advantage::Tokens(vec![1.0, 2.0, 3.0, 4.0])), [1.0, 2.0, 3.0, 4.0]);
    }
}
