//! From episodes to samples.

use burnish_core::Trace;
use burnish_rl::advantage::Advantage;
use burnish_rl::kl::KlEstimator;
use burnish_train::Sample;

use super::groups::Groups;
use super::reference::EpisodeKl;

/// The samples of a step: every branch of every scored episode of a group that is trained on.
pub(super) struct Batch {
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
}

impl Batch {
    /// The samples of `groups` of `group_size` episodes with these `rewards`, without advantages yet.
    pub(super) fn of(groups: &Groups, rewards: &[Option<f64>], group_size: usize) -> Self {
        let mut batch = Batch { samples: Vec::new(), group_sizes: Vec::new(), origins: Vec::new() };
        for (group, episodes) in groups.episodes.chunks(group_size).enumerate() {
            if !groups.is_kept[group] {
                continue;
            }
            let before = batch.samples.len();
            for (rollout, played) in episodes.iter().enumerate() {
                let episode = group * group_size + rollout;
                // What has no number to compare gets no advantage.
                if !rewards[episode].is_some_and(f64::is_finite) {
                    continue;
                }
                for branch in played.traces.iter().flat_map(Trace::branches) {
                    batch.samples.push(Sample { group, ..Sample::from_rollout(&branch, 0.0) });
                    batch.origins.push(Origin { episode, is_truncated: branch.is_truncated });
                }
            }
            batch.group_sizes.push(batch.samples.len() - before);
        }
        batch
    }

    /// Index of the episode of sample number `at`.
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

    /// Keeps pairs of samples of one group: the best with the worst, the second best with the second worst, and so on as
    /// long as their advantages differ. The better one stands first. Samples without a token in the loss are in no pair.
    pub(super) fn pair(&mut self, advantages: &[Option<Advantage>]) {
        let credit = |at: &usize| advantages[self.origins[*at].episode].as_ref().map_or(0.0, Advantage::mean);
        let mut chosen_and_rejected = Vec::new();
        let mut first = 0;
        for size in &self.group_sizes {
            let mut members: Vec<usize> =
                (first..first + size).filter(|at| self.samples[*at].scored_tokens() > 0).collect();
            first += size;
            members.sort_by(|a, b| credit(b).total_cmp(&credit(a)));
            for rank in 0..members.len() / 2 {
                let (best, worst) = (members[rank], members[members.len() - 1 - rank]);
                if credit(&best) > credit(&worst) {
                    chosen_and_rejected.push([best, worst]);
                }
            }
        }
        let mut paired = Batch { samples: Vec::new(), group_sizes: Vec::new(), origins: Vec::new() };
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
