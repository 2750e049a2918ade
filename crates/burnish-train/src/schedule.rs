//! Learning-rate schedules: a warm-up from zero, then constant, linear or cosine.
//!
//! The values are those of `get_{constant,linear,cosine}_schedule_with_warmup` and
//! `get_cosine_with_min_lr_schedule_with_warmup` of Hugging Face `transformers`, where the first update of a
//! warm-up has learning rate 0.

use serde::{Deserialize, Serialize};

/// What the learning rate does after the warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decay {
    /// Stays at its peak.
    Constant,
    /// Falls along a straight line.
    #[default]
    Linear,
    /// Falls along half a cosine wave (Loshchilov and Hutter 2017, without restarts).
    Cosine,
}

/// How long the warm-up lasts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Warmup {
    /// A number of updates.
    Steps(u64),
    /// A share of all updates; the number is rounded up.
    Ratio(f64),
}

impl Default for Warmup {
    fn default() -> Self {
        Warmup::Steps(0)
    }
}

/// The learning rate as a function of the number of updates made.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Learning rate at the end of the warm-up.
    pub peak: f64,
    /// How long it takes to get there.
    pub warmup: Warmup,
    /// What follows.
    pub decay: Decay,
    /// Number of updates after which a decay ends.
    pub steps: u64,
    /// Share of the peak at which a decay ends.
    pub final_share: f64,
}

/// A setting of a schedule is out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the schedule's {field} must be {range}")]
pub struct ScheduleError {
    /// Which setting.
    pub field: &'static str,
    /// What it may be.
    pub range: &'static str,
}

impl Schedule {
    /// Checks the ranges.
    ///
    /// # Errors
    /// If a setting is out of range; the error names the first one, and its range.
    pub fn check(&self) -> Result<(), ScheduleError> {
        let out_of_range = |field, range| Err(ScheduleError { field, range });
        if !(self.peak.is_finite() && self.peak >= 0.0) {
            return out_of_range("peak", "0 or more");
        }
        if let Warmup::Ratio(ratio) = self.warmup
            && !(0.0..=1.0).contains(&ratio)
        {
            return out_of_range("warmup ratio", "0 to 1");
        }
        if !(0.0..=1.0).contains(&self.final_share) {
            return out_of_range("final_share", "0 to 1");
        }
        Ok(())
    }

    /// Number of updates of the warm-up.
    pub fn warmup_steps(&self) -> u64 {
        match self.warmup {
            Warmup::Steps(steps) => steps,
            Warmup::Ratio(ratio) => (self.steps as f64 * ratio).ceil() as u64,
        }
    }

    /// Learning rate of the update that follows `step` updates. Past the end, it stays where the decay ended.
    pub fn lr(&self, step: u64) -> f64 {
        self.peak * self.share(step)
    }

    fn share(&self, step: u64) -> f64 {
        let warmup = self.warmup_steps();
        if step < warmup {
            return step as f64 / warmup as f64;
        }
        let progress = (step - warmup) as f64 / self.steps.saturating_sub(warmup).max(1) as f64;
        let remaining = match self.decay {
            Decay::Constant => return 1.0,
            Decay::Linear => 1.0 - progress.min(1.0),
            Decay::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * progress.min(1.0)).cos()),
        };
        self.final_share + (1.0 - self.final_share) * remaining
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Schedule = Schedule {
        peak: 2.0,
        warmup: Warmup::Ratio(0.05),
        decay: Decay::Linear,
        steps: 50,
        final_share: 0.0,
    };

    #[test]
    fn a_warmup_ratio_is_rounded_up_to_whole_updates() {
        assert_eq!(BASE.warmup_steps(), 3);
        assert_eq!(BASE.lr(3), 2.0);
    }

    #[test]
    fn past_the_end_the_learning_rate_stays_where_the_decay_ended() {
        for decay in [Decay::Linear, Decay::Cosine] {
            let schedule = Schedule { decay, final_share: 0.25, ..BASE };
            assert_eq!(schedule.lr(50), 0.5);
            assert_eq!(schedule.lr(90), 0.5);
        }
    }

    #[test]
    fn a_warmup_longer_than_the_run_ends_at_a_finite_rate() {
        let schedule = Schedule { warmup: Warmup::Steps(80), ..BASE };
        assert_eq!(schedule.lr(40), 1.0);
        assert!((0..200).all(|step| schedule.lr(step).is_finite()));
    }

    #[test]
    fn settings_out_of_range_are_named() {
        assert_eq!(BASE.check(), Ok(()));
        let field = |schedule: Schedule| schedule.check().unwrap_err().field;
        assert_eq!(field(Schedule { peak: f64::NAN, ..BASE }), "peak");
        assert_eq!(field(Schedule { warmup: Warmup::Ratio(1.5), ..BASE }), "warmup ratio");
        assert_eq!(field(Schedule { final_share: -0.1, ..BASE }), "final_share");
    }
}
