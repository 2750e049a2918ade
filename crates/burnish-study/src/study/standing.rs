//! How far a study is: the disease first, then the grid, then the results.

use serde::{Deserialize, Serialize};

use super::claim::{Direction, Gauge, Test};
use super::measure::Measured;
use super::{ArmRun, Phase, Study};
use burnish_run::RunError;

/// The runs of a study as far as they are known, and what the finished phases found.
#[derive(Debug, Default)]
pub struct Standing {
    /// The runs that measure the disease.
    pub disease: Vec<ArmRun>,
    /// What was measured, once all of them are finished.
    pub gauges: Vec<Gauged>,
    /// The runs of the grid. Empty while the disease is not shown to be there.
    pub tuning: Vec<ArmRun>,
    /// What they found, arm by arm, once all of them are finished. Empty without a grid.
    pub tuned: Vec<Tuned>,
    /// The reported runs. Empty until it is known with which settings.
    pub reported: Vec<ArmRun>,
}

/// A gauge with what it showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gauged {
    /// The gauge.
    pub gauge: Gauge,
    /// Its mean over the seeds of the disease.
    pub value: f64,
    /// Whether it is within its bounds.
    pub holds: bool,
}

/// The points of the grid, tried with one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tuned {
    /// The arm.
    pub arm: String,
    /// The claim's metric at each point, seed by seed.
    pub values: Vec<Vec<f64>>,
    /// The point with the best mean; of equal ones the first.
    pub best: usize,
}

impl Tuned {
    fn of(arm: String, values: Vec<Vec<f64>>, direction: Direction) -> Self {
        let worth = |point: &[f64]| direction.sign() * mean(point);
        let mut best = 0;
        for at in 1..values.len() {
            if worth(&values[at]) > worth(&values[best]) {
                best = at;
            }
        }
        Tuned { arm, values, best }
    }
}

impl Standing {
    /// Looks at what is stored, and measures what is finished.
    ///
    /// # Errors
    /// If run directories hold runs of other recipes or can't be read, or a finished run lacks a number that decides.
    pub fn of(study: &Study) -> Result<Self, RunError> {
        let mut standing = Standing::default();
        let Some(test) = &study.test else {
            standing.reported = study.reported_runs(&[])?;
            return Ok(standing);
        };
        standing.disease = study.disease_runs()?;
        if !standing.disease.iter().all(ArmRun::is_finished) {
            return Ok(standing);
        }
        standing.gauges = gauges(test, &standing.disease)?;
        if !standing.is_testable() {
            return Ok(standing);
        }
        standing.tuning = study.tuning_runs()?;
        if !standing.tuning.iter().all(ArmRun::is_finished) {
            return Ok(standing);
        }
        standing.tuned = tuned(study, test, &standing.tuning)?;
        let points: Vec<usize> = standing.tuned.iter().map(|tuned| tuned.best).collect();
        standing.reported = study.reported_runs(&points)?;
        Ok(standing)
    }

    /// Whether all gauges that were read are within their bounds.
    pub fn is_testable(&self) -> bool {
        self.gauges.iter().all(|gauged| gauged.holds)
    }

    /// The runs of the phase that is not finished; those of the last phase if all are.
    pub fn current(&self) -> &[ArmRun] {
        let phases = [&self.disease, &self.tuning, &self.reported];
        phases.into_iter().find(|runs| !runs.iter().all(ArmRun::is_finished)).unwrap_or(&self.reported)
    }

    /// All runs that are known by now.
    pub fn runs(&self) -> impl Iterator<Item = &ArmRun> {
        self.disease.iter().chain(&self.tuning).chain(&self.reported)
    }
}

fn gauges(test: &Test, runs: &[ArmRun]) -> Result<Vec<Gauged>, RunError> {
    let of_arm = |name: &str, metric: &str| -> Result<Vec<f64>, RunError> {
        runs.iter().filter(|run| run.name == name).map(|run| number(run, metric)).collect()
    };
    let read = |gauge: &Gauge| {
        let mut value = mean(&of_arm(&gauge.arm, &gauge.metric)?);
        if let Some(against) = &gauge.against {
            value -= mean(&of_arm(against, &gauge.metric)?);
        }
        Ok(Gauged { gauge: gauge.clone(), value, holds: gauge.holds(value) })
    };
    test.disease.gauges.iter().map(read).collect()
}

fn tuned(study: &Study, test: &Test, runs: &[ArmRun]) -> Result<Vec<Tuned>, RunError> {
    if test.tuning.points().is_empty() {
        return Ok(Vec::new());
    }
    let claim = &test.claim;
    let of_arm = |(at, arm): (usize, &super::Arm)| {
        let of_point = |point: usize| {
            let of_both = |run: &&ArmRun| run.arm == at && run.phase == Phase::Tuning(point);
            runs.iter().filter(of_both).map(|run| number(run, &claim.metric)).collect()
        };
        let values = (0..test.tuning.points().len()).map(of_point).collect::<Result<_, RunError>>()?;
        Ok(Tuned::of(arm.name.clone(), values, claim.direction))
    };
    study.arms.iter().enumerate().map(of_arm).collect()
}

/// A number of a finished run on which the course of the study depends.
fn number(run: &ArmRun, metric: &str) -> Result<f64, RunError> {
    Measured::read(run, &[metric])?.numbers.get(metric).copied().ok_or_else(|| {
        RunError::Refused(format!(
            "`{}` has no `{metric}`, on which the study's {} depends: name a number that every arm has",
            run.dir().display(),
            run.phase.name()
        ))
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_point_is_the_one_that_the_claim_is_about() {
        let best = |direction| {
            Tuned::of("a".into(), vec![vec![1.0, 2.0], vec![3.0, 0.5], vec![1.7, 1.8]], direction).best
        };
        assert_eq!((best(Direction::Higher), best(Direction::Lower)), (1, 0));
        assert_eq!(Tuned::of("a".into(), vec![vec![1.0], vec![1.0]], Direction::Higher).best, 0, "the first");
    }
}
