//! From episodes to samples.

use burnish_core::{Branch, Episode, Trace};
use burnish_model::Model;
use burnish_rl::advantage::Advantage;
use burnish_rl::correction::{ProximalSource, loglinear_share};
use burnish_rl::kl::KlEstimator;
use burnish_train::{Proximal, Sample, score};

use super::groups::Groups;
use crate::RunError;
use crate::metrics::Values;
use crate::recipe::Recipe;
use crate::reference::EpisodeKl;

/// The samples of a step: every branch of every scored episode of a group that is trained on.
pub(super) struct Batch {
    /// Number of the step, counted from 0.
    pub(super) step: u64,
    /// The samples, group by group.
    pub(super) samples: Vec<Sample>,
    /// How many each of those groups has.
    pub(super) group_sizes: Vec<usize>,
    /// Of each sample.
    origins: Vec<Origin>,
}

/// Where a sample comes from.
#[derive(Clone)]
struct Origin {
    /// Index of the episode.
    episode: usize,
    /// Was an answer on it cut off?
    is_truncated: bool,
    /// Updates that the weights had had which sampled each token, 0 where none was sampled.
    versions: Vec<u64>,
}

impl Batch {
    /// The samples of `groups` with these `rewards`, without advantages yet.
    pub(super) fn of(groups: &Groups, rewards: &[Option<f64>], step: u64) -> Self {
        let mut batch = Batch { step, samples: Vec::new(), group_sizes: Vec::new(), origins: Vec::new() };
        for (group, episodes) in groups.episodes.chunks(groups.size).enumerate() {
            if !groups.is_kept[group] {
                continue;
            }
            let before = batch.samples.len();
            for (rollout, played) in episodes.iter().enumerate() {
                let episode = group * groups.size + rollout;
                // What has no number to compare gets no advantage.
                if !rewards[episode].is_some_and(f64::is_finite) {
                    continue;
                }
                batch.add(played, episode, group, groups.direction_of(episode));
            }
            // A draft is worth what follows it: without an answer that earned something it is worth nothing.
            if let Some(draft) = groups.drafts.get(group).filter(|_| batch.samples.len() > before) {
                batch.add(draft, groups.episodes.len() + group, group, 0);
            }
            batch.group_sizes.push(batch.samples.len() - before);
        }
        batch
    }

    /// Adds the branches of what was played as episode number `episode`.
    fn add(&mut self, played: &Episode, episode: usize, group: usize, direction: u8) {
        for branch in played.traces.iter().flat_map(Trace::branches) {
            self.samples.push(Sample { group, direction, ..Sample::from_rollout(&branch, 0.0) });
            let Branch { is_truncated, policy_versions: versions, .. } = branch;
            self.origins.push(Origin { episode, is_truncated, versions });
        }
    }

    /// Gives the samples what the recipe wants to know of the proximal policy, `policy`, which has had `version` updates.
    /// Says how far behind it the weights were that sampled.
    ///
    /// # Errors
    /// If a sample does not fit the model.
    pub(super) fn find_proximal(
        &mut self,
        recipe: &Recipe,
        policy: &Model,
        version: u64,
    ) -> Result<Values, RunError> {
        match recipe.loss.correction.proximal {
            ProximalSource::Sampling => {}
            ProximalSource::Recompute => {
                let known = score(policy, &self.samples, recipe.train.micro_batch_tokens)?;
                for (sample, known) in self.samples.iter_mut().zip(known) {
                    sample.proximal = Proximal::Known(known);
                }
            }
            ProximalSource::Loglinear => {
                let trained = version + (recipe.train.epochs * recipe.train.minibatches) as u64;
                let share = |sampled: &u64| loglinear_share(Some(*sampled), version, trained) as f32;
                for (sample, origin) in self.samples.iter_mut().zip(&self.origins) {
                    sample.proximal = Proximal::Between(origin.versions.iter().map(share).collect());
                }
            }
        }
        if recipe.rollout.policy_lag == 0 {
            return Ok(Values::new());
        }
        let of_sample = |(sample, origin): (&Sample, &Origin)| {
            sample.scored().map(|at| version.saturating_sub(origin.versions[at]) as f64).collect::<Vec<f64>>()
        };
        let behind: Vec<f64> = self.samples.iter().zip(&self.origins).flat_map(of_sample).collect();
        let mean = behind.iter().sum::<f64>() / behind.len().max(1) as f64;
        Ok(Values::from([("sampling/updates_behind".to_owned(), mean)]))
    }

    /// Index of the episode of sample number `at`: the drafts stand behind all episodes, group by group.
    pub(super) fn episode(&self, at: usize) -> usize {
        self.origins[at].episode
    }

    /// Was an answer on sample number `at` cut off?
    pub(super) fn is_truncated(&self, at: usize) -> bool {
        self.origins[at].is_truncated
    }

    /// The KL divergence from the reference of each of `episodes` episodes, where the samples have one.
    pub(super) fn kl(&self, episodes: usize, estimator: KlEstimator) -> Vec<EpisodeKl> {
        let mut kls = vec![EpisodeKl::default(); episodes];
        for (sample, origin) in self.samples.iter().zip(&self.origins) {
            kls[origin.episode].add(sample, estimator);
        }
        kls
    }

    /// Gives every sampled token of a sample the advantage of its episode, its turn or itself. Where turns or tokens
    /// differ, an episode has one sample.
    pub(super) fn give(&mut self, advantages: &[Option<Advantage>]) {
        for (sample, origin) in self.samples.iter_mut().zip(&self.origins) {
            match &advantages[origin.episode] {
                None => sample.advantages.fill(0.0),
                Some(Advantage::Whole(advantage)) => sample.advantages.fill(*advantage as f32),
                Some(Advantage::Tokens(tokens)) => {
                    let scored: Vec<usize> = sample.scored().collect();
                    for (at, advantage) in scored.into_iter().zip(tokens) {
                        sample.advantages[at] = *advantage as f32;
                    }
                }
                Some(Advantage::Steps(turns)) => {
                    let mut turn = 0;
                    for at in 1..sample.ids.len() {
                        // Something is always said between two turns.
                        let ends = sample.loss_mask[at - 1] && !sample.loss_mask[at];
                        turn += usize::from(ends);
                        sample.advantages[at] = turns.get(turn).map_or(0.0, |advantage| *advantage as f32);
                    }
                }
            }
        }
    }

    /// Keeps pairs of samples of one group and one direction, which answer one prompt: the best with the worst, the second
    /// best with the second worst, and so on as long as their advantages differ. The better one stands first. Samples
    /// without a token in the loss are in no pair.
    pub(super) fn pair(&mut self, advantages: &[Option<Advantage>]) {
        let credit = |at: &usize| advantages[self.origins[*at].episode].as_ref().map_or(0.0, Advantage::mean);
        let mut chosen_and_rejected = Vec::new();
        let mut first = 0;
        for size in &self.group_sizes {
            let own = first..first + size;
            first += size;
            for direction in [0, 1] {
                let is_in = |sample: &Sample| sample.direction == direction && sample.scored_tokens() > 0;
                let mut members: Vec<usize> = own.clone().filter(|at| is_in(&self.samples[*at])).collect();
                members.sort_by(|a, b| credit(b).total_cmp(&credit(a)));
                for rank in 0..members.len() / 2 {
                    let (best, worst) = (members[rank], members[members.len() - 1 - rank]);
                    if credit(&best) > credit(&worst) {
                        chosen_and_rejected.push([best, worst]);
                    }
                }
            }
        }
        let mut paired =
            Batch { step: self.step, samples: Vec::new(), group_sizes: Vec::new(), origins: Vec::new() };
        for (group, pair) in chosen_and_rejected.into_iter().enumerate() {
            for at in pair {
                paired.samples.push(Sample { group, ..self.samples[at].clone() });
                paired.origins.push(self.origins[at].clone());
            }
            paired.group_sizes.push(2);
        }
        *self = paired;
    }

    /// Leaves samples with an answer that was cut off out of the loss. They stay sequences, as in TRL.
    pub(super) fn mask_truncated(&mut self) {
        for (sample, origin) in self.samples.iter_mut().zip(&self.origins) {
            if origin.is_truncated {
                sample.loss_mask.fill(false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch of one sample an episode, with as many scored tokens each.
    fn batch(groups: &[&[usize]]) -> Batch {
        let scored: Vec<usize> = groups.concat();
        let sample = |(at, scored): (usize, &usize)| Sample {
            ids: vec![at as u32; scored + 1],
            loss_mask: std::iter::once(false).chain(vec![true; *scored]).collect(),
            ..Sample::default()
        };
        Batch {
            step: 0,
            samples: scored.iter().enumerate().map(sample).collect(),
            group_sizes: groups.iter().map(|group| group.len()).collect(),
            origins: (0..scored.len())
                .map(|episode| Origin { episode, is_truncated: false, versions: Vec::new() })
                .collect(),
        }
    }

    #[test]
    fn the_best_of_a_group_are_paired_with_its_worst_as_long_as_they_differ() {
        let mut batch = batch(&[&[2, 2, 2, 2], &[1, 1], &[3, 0, 3]]);
        let advantages = [0.5, -1.0, 0.5, 0.0, 0.3, 0.3, 1.0, -1.0, 0.0];
        batch.pair(&advantages.map(|advantage| Some(Advantage::Whole(advantage))));
        let episodes: Vec<usize> = batch.origins.iter().map(|origin| origin.episode).collect();
        // The second group ties; in the third one answer has no token in the loss.
        assert_eq!(episodes, [0, 1, 2, 3, 6, 8]);
        assert_eq!(batch.group_sizes, [2, 2, 2]);
        let groups: Vec<usize> = batch.samples.iter().map(|sample| sample.group).collect();
        assert_eq!(groups, [0, 0, 1, 1, 2, 2]);
        assert!(batch.samples.iter().zip(episodes).all(|(sample, at)| sample.ids[0] as usize == at));
    }

    #[test]
    fn answers_to_a_task_and_to_the_task_turned_round_are_no_pair() {
        let mut batch = batch(&[&[1, 1, 1, 1]]);
        batch.samples[2..].iter_mut().for_each(|sample| sample.direction = 1);
        batch.pair(&[1.0, -1.0, 0.5, -0.5].map(|advantage| Some(Advantage::Whole(advantage))));
        let episodes: Vec<usize> = batch.origins.iter().map(|origin| origin.episode).collect();
        assert_eq!((episodes, batch.group_sizes), (vec![0, 1, 2, 3], vec![2, 2]));
    }

    #[test]
    fn turns_and_tokens_get_advantages_of_their_own() {
        let two_turns = Sample {
            ids: vec![0; 7],
            loss_mask: vec![false, true, true, false, false, true, true],
            advantages: vec![0.0; 7],
            ..Sample::default()
        };
        let given = |advantage: Advantage| {
            let mut batch = batch(&[&[1]]);
            batch.samples = vec![two_turns.clone()];
            batch.give(&[Some(advantage)]);
            let sample = &batch.samples[0];
            sample.scored().map(|at| sample.advantages[at]).collect::<Vec<f32>>()
        };
        assert_eq!(given(Advantage::Whole(2.0)), [2.0; 4]);
        assert_eq!(given(Advantage::Steps(vec![1.0, -1.0])), [1.0, 1.0, -1.0, -1.0]);
        assert_eq!(given(Advantage::Tokens(vec![1.0, 2.0, 3.0, 4.0])), [1.0, 2.0, 3.0, 4.0]);
    }
}
