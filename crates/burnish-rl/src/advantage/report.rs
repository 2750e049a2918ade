//! Metrics of the rewards of a step, and a control experiment that redistributes rewards within groups.

use std::collections::BTreeMap;

use burnish_core::rng::{self, Stream};

use super::Scale;
use super::common::{mean, scored, std, varies};

/// Can anything be learned from this group, that is, do its finite rewards differ? If they do not, or there are fewer
/// than two, [`super::Grpo`] gives advantages of exactly 0.
pub fn has_variance(group: &[Option<f64>]) -> bool {
    varies(&scored(group.iter().copied()))
}

/// The control experiment in which nothing can be learned: the rewards of each group go to random members of it. Every
/// number that depends only on the set of a group's rewards stays the same. Rollouts without a reward stay without one.
///
/// `seed` is that of an [`rng::Address`] with purpose [`rng::Purpose::Perturb`].
pub fn shuffle_within_groups(rewards: &[Option<f64>], group_size: usize, seed: u64) -> Vec<Option<f64>> {
    let mut shuffled = Vec::with_capacity(rewards.len());
    for (index, group) in groups(rewards, group_size).enumerate() {
        let mut given: Vec<f64> = group.iter().flatten().copied().collect();
        Stream::new(rng::bits(seed, index as u64)).shuffle(&mut given);
        let mut given = given.into_iter();
        shuffled.extend(group.iter().map(|reward| reward.and_then(|_| given.next())));
    }
    shuffled
}

/// `reward` (mean), `reward_std` (n - 1) and `frac_reward_zero_std`, as TRL 1.16 defines them, of rollouts that lie
/// group after group, `group_size` to each. A number that does not exist (the mean of nothing) is left out.
pub fn reward_metrics(rewards: &[Option<f64>], group_size: usize, scale: Scale) -> BTreeMap<String, f64> {
    let scored = |rewards: &[Option<f64>]| scored(rewards.iter().copied());
    let all = scored(rewards);
    // TRL's share counts rollouts, and takes the standard deviation that scales them. For a group in which fewer than
    // two of several members were scored, it is NaN and therefore not zero.
    let zero_std = |group: &[Option<f64>]| group.len() == 1 || std(&scored(group), 1).is_some_and(is_zero);
    let zero_std_rollouts = match scale {
        Scale::Batch => usize::from(zero_std(rewards)) * rewards.len(),
        Scale::Group | Scale::None => {
            groups(rewards, group_size).filter(|group| zero_std(group)).map(<[_]>::len).sum()
        }
    };
    let share = (!rewards.is_empty()).then(|| zero_std_rollouts as f64 / rewards.len() as f64);
    [("reward", mean(&all)), ("reward_std", std(&all, 1)), ("frac_reward_zero_std", share)]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

fn groups(rewards: &[Option<f64>], group_size: usize) -> std::slice::Chunks<'_, Option<f64>> {
    rewards.chunks(group_size.max(1))
}

/// `torch.isclose(std, 0)`.
fn is_zero(std: f64) -> bool {
    std <= 1e-8
}
