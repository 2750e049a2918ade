//! What a study will take and what it could see, before anything runs.

use burnish_eval::{Estimate, smallest_detectable};

use super::findings::SEEDS_LEAST;
use super::measure::Measured;
use super::{ArmRun, Standing, Study};
use burnish_run::RunError;

/// The size of a study.
#[derive(Debug, Clone, PartialEq)]
pub struct Size {
    /// The phases, with their runs.
    pub phases: Vec<PhaseSize>,
    /// Minutes that one run takes, and whence that is known. None if it is not.
    pub minutes: Option<(f64, &'static str)>,
    /// The smallest effect of the claim that would be found with a probability of 80 %, for each spread between seeds,
    /// and whence the spread is known.
    pub smallest: Vec<(f64, f64, &'static str)>,
    /// Seeds of a comparison.
    pub seeds: usize,
}

/// The runs of a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseSize {
    /// Its name.
    pub name: &'static str,
    /// How many runs it has.
    pub runs: usize,
    /// How many of them are finished.
    pub finished: usize,
}

/// Spreads of shares, for studies that expect none.
const USUAL_SPREADS: [f64; 3] = [0.01, 0.03, 0.05];

impl Size {
    /// # Errors
    /// If finished runs can't be read.
    pub fn of(study: &Study, standing: &Standing) -> Result<Self, RunError> {
        let seeds = study.arms.iter().map(|arm| arm.seeds.len()).max().unwrap_or(0);
        let phase = |name, planned: usize, runs: &[ArmRun]| PhaseSize {
            name,
            runs: planned,
            finished: runs.iter().filter(|run| run.is_finished()).count(),
        };
        let mut phases = Vec::new();
        if let Some(test) = &study.test {
            let tuning = &test.tuning;
            let points = study.arms.len() * tuning.points().len() * tuning.seeds().len();
            phases.push(phase("disease", standing.disease.len(), &standing.disease));
            phases.push(phase("tuning", points, &standing.tuning));
        }
        let reported = study.arms.iter().map(|arm| arm.seeds.len()).sum();
        phases.push(phase("results", reported, &standing.reported));
        let finished: Vec<Measured> = standing
            .runs()
            .filter(|run| run.is_finished())
            .map(|run| Measured::read(run, &[]))
            .collect::<Result<_, _>>()?;
        let seconds: Vec<f64> = finished.iter().map(|run| run.budget.seconds).collect();
        let measured = Estimate::of(&seconds)
            .map(|seconds| (seconds.mean / 60.0, "of the finished runs, without evaluations"));
        let minutes = measured.or_else(|| Some((study.minutes?, "as the file expects")));
        let mut smallest = Vec::new();
        if let Some(test) = &study.test {
            let tests = test.claim.contrasts.len();
            let spreads: Vec<(f64, &str)> = match test.claim.spread {
                Some(spread) => vec![(spread, "as the file expects")],
                None => USUAL_SPREADS.map(|spread| (spread, "for example")).to_vec(),
            };
            let effect =
                |(spread, whence)| Some((spread, smallest_detectable(spread, seeds, tests)?, whence));
            smallest.extend(spreads.into_iter().filter_map(effect));
        }
        Ok(Size { phases, minutes, smallest, seeds })
    }

    /// The runs that are not finished.
    pub fn open(&self) -> usize {
        self.phases.iter().map(|phase| phase.runs - phase.finished).sum()
    }

    /// For people, line by line.
    pub fn lines(&self, study: &Study) -> Vec<String> {
        let mut lines: Vec<String> = self
            .phases
            .iter()
            .map(|phase| format!("{:8} {} runs, {} finished", phase.name, phase.runs, phase.finished))
            .collect();
        lines.push(match self.minutes {
            Some((minutes, whence)) => format!(
                "machine time: about {:.1} hours for {} runs of {minutes:.1} minutes ({whence}), and the stages",
                minutes * self.open() as f64 / 60.0,
                self.open()
            ),
            None => "machine time: not known; `study.minutes` says how long a run takes, or let one finish".to_owned(),
        });
        let Some(test) = &study.test else { return lines };
        for (spread, effect, whence) in &self.smallest {
            lines.push(format!(
                "smallest detectable effect: {effect:.3} in `{}`, where it differs by {spread} between seeds ({whence})",
                test.claim.metric
            ));
        }
        if self.seeds < SEEDS_LEAST {
            lines.push(format!("no verdict: {} seeds, of {SEEDS_LEAST} that are needed", self.seeds));
        }
        lines
    }
}
