//! What `rdpo` remembers about rewards from one step to the next: how far each component ranges, and how components
//! correlate.

use std::collections::BTreeMap;

use burnish_core::settings::to_value;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::SettingError;
use crate::whitening::Covariance;

/// What is known about the rewards of earlier steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RewardStatistics {
    /// `ref_d`; `None` for a component that never varied.
    pub(crate) references: Vec<Option<f64>>,
    /// `Σ_S` of each set of components that were active together.
    pub(crate) covariances: BTreeMap<Vec<usize>, Covariance>,
}

/// [`RewardStatistics`] in the form of a checkpoint.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    references: Vec<Option<f64>>,
    covariances: Vec<SetState>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetState {
    components: Vec<usize>,
    covariance: Vec<f64>,
}

impl RewardStatistics {
    /// For a checkpoint.
    pub(crate) fn state(&self) -> Value {
        let set = |(components, covariance): (&Vec<usize>, &Covariance)| SetState {
            components: components.clone(),
            covariance: covariance.entries().to_vec(),
        };
        let state = State {
            references: self.references.clone(),
            covariances: self.covariances.iter().map(set).collect(),
        };
        to_value(&state).unwrap_or_default()
    }

    /// Reads back what [`RewardStatistics::state`] returned.
    ///
    /// # Errors
    /// If it is not such a state.
    pub(crate) fn from_state(state: &Value) -> Result<Self, SettingError> {
        let state: State = serde_json::from_value(state.clone())
            .map_err(|error| SettingError::new("state", format!("is not a state of `rdpo`: {error}")))?;
        let is_range = |range: &f64| range.is_finite() && *range > 0.0;
        if let Some(at) = state.references.iter().position(|range| !range.as_ref().is_none_or(is_range)) {
            return Err(SettingError::new(format!("references[{at}]"), "must be a number above 0, or null"));
        }
        let set = |(at, SetState { components, covariance }): (usize, SetState)| {
            let wrong = || {
                let rule =
                    "must be the rows of a symmetric matrix, one a component; the components ascending";
                SettingError::new(format!("covariances[{at}]"), rule)
            };
            let is_ascending = components.windows(2).all(|pair| pair[0] < pair[1]);
            let covariance = Covariance::from_entries(components.len(), covariance).ok_or_else(wrong)?;
            if is_ascending { Ok((components, covariance)) } else { Err(wrong()) }
        };
        let covariances = state.covariances.into_iter().enumerate().map(set).collect::<Result<_, _>>()?;
        Ok(RewardStatistics { references: state.references, covariances })
    }
}
