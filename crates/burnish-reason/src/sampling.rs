//! How a strategy's turns are sampled, and how many.

use std::sync::Arc;

use burnish_core::Sampling;
use burnish_core::settings::SettingError;
use burnish_episode::ContactError;

use crate::card::CANDIDATES_MAX;
use crate::record::Role;
use crate::session::{POLICY, Request, Session};

/// The sampling of a turn at another temperature, if one is given.
pub(crate) fn at(sampling: &Arc<Sampling>, temperature: Option<f32>) -> Arc<Sampling> {
    match temperature {
        Some(temperature) if temperature != sampling.temperature => {
            Arc::new(Sampling { temperature, ..(**sampling).clone() })
        }
        _ => Arc::clone(sampling),
    }
}

/// Refuses several answers that would all be the same.
///
/// # Errors
/// Names `key`, the setting that has to be given.
pub(crate) fn check_spread(
    key: &str,
    count: usize,
    temperature: Option<f32>,
    sampling: &Sampling,
) -> Result<(), SettingError> {
    if count > 1 && temperature.unwrap_or(sampling.temperature) == 0.0 {
        let problem = format!(
            "{count} answers are sampled greedily, so all would be the same: give a temperature above 0, such as 1.0"
        );
        return Err(SettingError::new(key, problem));
    }
    Ok(())
}

/// Samples drafts: `count`, or, where the session has a budget, as many as reach it. They are the numbers from 0 on, so
/// more of them begin with the same ones.
pub(crate) async fn drafts(
    session: &Session<'_>,
    count: usize,
    sampling: &Arc<Sampling>,
) -> Result<Vec<usize>, ContactError> {
    let more = async |first: usize, count: usize| {
        let questions = vec![session.question(0); count];
        let first = first as u32;
        let who = POLICY;
        session
            .sample(Request {
                role: Role::Draft,
                who,
                stage: 0,
                first,
                questions,
                sampling: Arc::clone(sampling),
            })
            .await
    };
    let Some(budget) = session.budget() else { return more(0, count).await };
    let mut drawn = more(0, 1).await?;
    loop {
        let costs = session.read(|candidates| {
            drawn.iter().map(|at: &usize| candidates[*at].tokens.total()).collect::<Vec<_>>()
        });
        let used: usize = costs.iter().sum();
        let room = CANDIDATES_MAX - drawn.len();
        if used >= budget || room == 0 {
            return Ok(drawn);
        }
        // As many as are needed if each costs what the dearest did: no more than that are asked for at once.
        let dearest = costs.iter().copied().max().unwrap_or(0).max(1);
        let count = ((budget - used) / dearest).clamp(1, room);
        drawn.extend(more(drawn.len(), count).await?);
    }
}
