//! Answers that go on in latent steps: what they earn for their tags, and how much they think.
//!
//! ```text
//! latent_format  = 2 · [well-formed] - 1         latent_use = [right] [well-formed] [has a span]
//! latent_brevity = clip((high - tokens) / (high - low), 0, 1) · latent_use
//! ```
//!
//! (SWITCH, arXiv:2606.13106, rewards of phase 3. Well-formed is said of the tags; whether the answer can be read the
//! environment judges. The weights of the rewards are not known: `reward.weights`. That latent steps count among the tokens
//! of an answer is reconstructed.)

use burnish_core::Episode;
use burnish_engine::LatentIds;
use burnish_model::Tokenizer;
use burnish_recipe::{LATENT_BREVITY, LATENT_FORMAT, LATENT_USE, Recipe};
use burnish_rundir::metrics::Values;

use crate::RunError;

/// Gives a scored episode the components of `latent.rewards`.
///
/// # Errors
/// If the environment has a component of such a name, or the tokenizer lacks a tag.
pub(super) fn reward(episode: &mut Episode, recipe: &Recipe, tokenizer: &Tokenizer) -> Result<(), RunError> {
    let is_asked = recipe.latent.as_ref().is_some_and(|latent| latent.rewards);
    if !is_asked || !episode.verdict.is_scored() {
        return Ok(());
    }
    let ids = LatentIds::of(tokenizer).map_err(|problem| RunError::Refused(format!("latent: {problem}")))?;
    let Tags { is_well_formed, spans } = tags(answers(episode), ids);
    let is_used = episode.verdict.success && is_well_formed && spans > 0;
    let format = if is_well_formed { 1.0 } else { -1.0 };
    let brevity = recipe.latent.as_ref().and_then(|latent| latent.brevity).map(|brevity| {
        let tokens = answers(episode).map(<[u32]>::len).sum();
        (LATENT_BREVITY, f64::from(is_used) * brevity.of(tokens))
    });
    let rewards = [(LATENT_FORMAT, format), (LATENT_USE, f64::from(is_used))].into_iter().chain(brevity);
    for (name, reward) in rewards {
        if episode.verdict.rewards.insert(name.to_owned(), reward).is_some() {
            return Err(RunError::Refused(format!(
                "latent.rewards: the environment gives a reward `{name}` itself; leave one of them out"
            )));
        }
    }
    Ok(())
}

/// Latent steps of an answer on average, and the share of answers that have any. Nothing where none can have one.
pub(super) fn metrics(recipe: &Recipe, episodes: &[&Episode]) -> Values {
    if recipe.latent.is_none() || episodes.is_empty() {
        return Values::new();
    }
    let steps: Vec<usize> = episodes.iter().map(|episode| episode.latent_steps()).collect();
    let mean = |sum: usize| sum as f64 / episodes.len() as f64;
    Values::from([
        ("latent/steps".to_owned(), mean(steps.iter().sum())),
        ("latent/used".to_owned(), mean(steps.iter().filter(|steps| **steps > 0).count())),
    ])
}

/// The ids of each answer.
fn answers(episode: &Episode) -> impl Iterator<Item = &[u32]> {
    let nodes = episode.traces.iter().flat_map(|trace| trace.nodes());
    nodes.filter(|node| node.sampled.is_some()).map(|node| &*node.ids)
}

/// The tags of answers.
#[derive(Debug, PartialEq)]
struct Tags {
    /// Does every span begin and end, and none inside of another?
    is_well_formed: bool,
    spans: usize,
}

fn tags<'a>(answers: impl Iterator<Item = &'a [u32]>, ids: LatentIds) -> Tags {
    let mut found = Tags { is_well_formed: true, spans: 0 };
    for answer in answers {
        let mut is_inside = false;
        for id in answer.iter().filter(|id| [ids.open, ids.close].contains(id)) {
            let opens = *id == ids.open;
            found.is_well_formed &= opens != is_inside;
            found.spans += usize::from(opens);
            is_inside = opens;
        }
        found.is_well_formed &= !is_inside;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_well_formed_if_every_span_begins_and_ends_outside_of_others() {
        let ids = LatentIds { open: 1, close: 2, step: 3 };
        let of = |answers: &[&[u32]]| {
            let Tags { is_well_formed, spans } = tags(answers.iter().copied(), ids);
            (is_well_formed, spans)
        };
        assert_eq!(of(&[&[7, 8]]), (true, 0));
        assert_eq!(of(&[&[7, 1, 3, 3, 2, 8, 1, 2]]), (true, 2));
        assert_eq!(of(&[&[1, 3]]), (false, 1), "cut off inside");
        assert_eq!(of(&[&[2, 7]]), (false, 0));
        assert_eq!(of(&[&[1, 1, 2, 2]]), (false, 2));
        assert_eq!(of(&[&[1], &[2]]), (false, 1), "a span ends where it began");
    }
}
