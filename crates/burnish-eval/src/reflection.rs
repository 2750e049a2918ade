//! Fits the model that tells by the question whether reflection pays (`burnish_core::reflection`, where its features are).
//!
//! ```text
//! question*, answers, of which reflection paid in some ─> one row a question: features, share ─> model, held-out log loss
//! ```
//!
//! The loss is `mean BCE(σ(w·x + b), y) + l2 Σ w²` over questions, where `y` is the share of a question's answers in which
//! reflection paid. It is strictly convex, and minimised over all questions at once by Newton's method, whose steps come
//! from conjugate gradients: nothing is drawn at random. Questions are sorted first, so that the order in which they are
//! given changes no bit.

use std::collections::BTreeMap;

use burnish_core::reflection::{BUCKETS_MAX, HeldOut, ReflectionModel, features, scale, sigmoid};
use burnish_core::settings::SettingError;

/// Most Newton steps; about ten suffice.
const STEPS_MAX: usize = 200;
/// A point counts as the minimum if no slope there is larger.
const SLOPE_MAX: f64 = 1e-9;

/// How a model is fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fitting {
    /// Number of buckets that words are hashed into.
    pub buckets: u32,
    /// Weight of the squared weights in the loss.
    pub l2: f64,
    /// Parts of which each is held out once, to see how well questions are told that were not fitted on.
    pub folds: usize,
}

impl Default for Fitting {
    fn default() -> Self {
        Fitting { buckets: 4096, l2: 0.01, folds: 5 }
    }
}

/// What came of reflection in the answers to a question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Paid {
    /// Answers.
    pub answers: usize,
    /// Those in which reflection turned a wrong first try into a right answer.
    pub paid: usize,
}

impl Paid {
    fn share(self) -> f64 {
        self.paid as f64 / self.answers.max(1) as f64
    }
}

/// Fits a model. Questions without answers are left out.
///
/// # Errors
/// If a setting is out of its range, or there are too few questions where reflection pays, or where it does not.
pub fn fit(questions: &BTreeMap<String, Paid>, fitting: Fitting) -> Result<ReflectionModel, SettingError> {
    let Fitting { buckets, l2, folds } = fitting;
    let wrong = |key: &str, problem: String| Err(SettingError::new(key, problem));
    if !(1..=BUCKETS_MAX).contains(&buckets) {
        return wrong("buckets", format!("must be from 1 to {BUCKETS_MAX}"));
    }
    if !(l2 > 0.0 && l2.is_finite()) {
        return wrong("l2", "must be a number above 0: without it, weights have no bound".into());
    }
    let asked: Vec<(&String, &Paid)> = questions.iter().filter(|(_, paid)| paid.answers > 0).collect();
    if !(2..=asked.len()).contains(&folds) {
        return wrong("folds", format!("must be from 2 to the number of questions, {}", asked.len()));
    }
    let rows: Vec<Row> = asked
        .iter()
        .map(|(question, paid)| Row { buckets: features(question, buckets), label: paid.share() })
        .collect();
    let count = |is_one: fn(&Row) -> bool| rows.iter().filter(|row| is_one(row)).count();
    let (paying, idle) = (count(|row| row.label > 0.0), count(|row| row.label < 1.0));
    if paying < 2 || idle < 2 {
        return wrong(
            "questions",
            format!(
                "of {} questions, reflection pays in {paying} and does not in {idle}: at least 2 of each are needed; \
                 evaluate more tasks",
                rows.len()
            ),
        );
    }
    let (mut log_loss, mut constant, mut chances) = (0.0, 0.0, Vec::with_capacity(rows.len()));
    let fold_of = deal(&rows, folds);
    for fold in 0..folds {
        let part = |is_held: bool| -> Vec<&Row> {
            let of = rows.iter().zip(&fold_of).filter(|(_, of)| (**of == fold) == is_held);
            of.map(|(row, _)| row).collect()
        };
        let (fitted_on, held) = (part(false), part(true));
        let table = Table::new(&fitted_on, l2);
        let (point, share) = (minimum(&table)?, mean(&fitted_on));
        for row in held {
            let logit = logit_of(row, &table.columns, &point);
            log_loss += cross_entropy(logit, row.label);
            constant += cross_entropy((share / (1.0 - share)).ln(), row.label);
            chances.push(sigmoid(logit));
        }
    }
    chances.sort_by(f64::total_cmp);
    let quantile = |quarter: usize| chances[quarter * (chances.len() - 1) / 4];
    let n = rows.len() as f64;
    let held_out = HeldOut {
        folds,
        log_loss: log_loss / n,
        constant: constant / n,
        chances: [0, 1, 2, 3, 4].map(quantile),
    };
    let all: Vec<&Row> = rows.iter().collect();
    let table = Table::new(&all, l2);
    let mut point = minimum(&table)?;
    let intercept = point.pop().unwrap_or(0.0);
    let weights = table.columns.into_iter().zip(point).filter(|(_, weight)| *weight != 0.0).collect();
    ReflectionModel::new((buckets, l2), (intercept, weights), (rows.len(), mean(&all)), held_out)
}

/// A question: its features, and the share of its answers in which reflection paid.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    buckets: Vec<u32>,
    label: f64,
}

fn mean(rows: &[&Row]) -> f64 {
    rows.iter().map(|row| row.label).sum::<f64>() / rows.len().max(1) as f64
}

/// The fold of each row. Rows are dealt out in the order of their labels, so that every fold has some of each kind.
fn deal(rows: &[Row], folds: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|a, b| rows[*a].label.total_cmp(&rows[*b].label));
    let mut fold_of = vec![0; rows.len()];
    order.into_iter().enumerate().for_each(|(place, row)| fold_of[row] = place % folds);
    fold_of
}

/// `-y ln σ(x) - (1 - y) ln (1 - σ(x))`, without overflow.
fn cross_entropy(logit: f64, label: f64) -> f64 {
    logit.max(0.0) + (-logit.abs()).exp().ln_1p() - label * logit
}

/// The logit of a row at a point that was fitted on the buckets `known`: its weights, then the intercept.
fn logit_of(row: &Row, known: &[u32], point: &[f64]) -> f64 {
    let at = row.buckets.iter().filter_map(|bucket| known.binary_search(bucket).ok());
    point[known.len()] + scale(row.buckets.len()) * at.map(|at| point[at]).sum::<f64>()
}

/// Rows with their buckets numbered, as the minimisation reads them.
struct Table {
    /// The buckets that occur, ascending.
    columns: Vec<u32>,
    rows: Vec<(Vec<usize>, f64)>,
    labels: Vec<f64>,
    l2: f64,
}

impl Table {
    fn new(rows: &[&Row], l2: f64) -> Self {
        let mut columns: Vec<u32> = rows.iter().flat_map(|row| row.buckets.iter().copied()).collect();
        columns.sort_unstable();
        columns.dedup();
        let numbered = rows.iter().map(|row| {
            let at = row.buckets.iter().filter_map(|bucket| columns.binary_search(bucket).ok());
            (at.collect(), scale(row.buckets.len()))
        });
        let (rows, labels) = (numbered.collect(), rows.iter().map(|row| row.label).collect());
        Table { columns, rows, labels, l2 }
    }

    /// Length of a point: a weight for each column, then the intercept.
    fn size(&self) -> usize {
        self.columns.len() + 1
    }

    /// `x·v` for every row, where the intercept's own feature is 1.
    fn times(&self, vector: &[f64]) -> Vec<f64> {
        let intercept = vector[self.columns.len()];
        let of = |(at, scale): &(Vec<usize>, f64)| {
            intercept + scale * at.iter().map(|at| vector[*at]).sum::<f64>()
        };
        self.rows.iter().map(of).collect()
    }

    /// `mean over rows of factor · x`, plus `2 l2` times the weights of `point`.
    fn back(&self, factors: impl Iterator<Item = f64>, point: &[f64]) -> Vec<f64> {
        let n = self.rows.len().max(1) as f64;
        let mut sum = vec![0.0; self.size()];
        for ((at, scale), factor) in self.rows.iter().zip(factors) {
            at.iter().for_each(|at| sum[*at] += factor * scale);
            sum[self.columns.len()] += factor;
        }
        let weights = self.columns.len();
        let regularised = |at: usize| if at < weights { 2.0 * self.l2 * point[at] } else { 0.0 };
        sum.iter().enumerate().map(|(at, sum)| sum / n + regularised(at)).collect()
    }

    fn loss(&self, point: &[f64]) -> f64 {
        let logits = self.times(point);
        let entropy = logits.iter().zip(&self.labels).map(|(logit, label)| cross_entropy(*logit, *label));
        let squares: f64 = point[..self.columns.len()].iter().map(|weight| weight * weight).sum();
        entropy.sum::<f64>() / self.rows.len().max(1) as f64 + self.l2 * squares
    }

    fn gradient(&self, point: &[f64]) -> Vec<f64> {
        let logits = self.times(point);
        self.back(logits.iter().zip(&self.labels).map(|(logit, label)| sigmoid(*logit) - label), point)
    }

    /// The Hessian at `point`, times `vector`.
    fn curved(&self, point: &[f64], vector: &[f64]) -> Vec<f64> {
        let (logits, along) = (self.times(point), self.times(vector));
        let factor = |(logit, along): (&f64, &f64)| {
            let p = sigmoid(*logit);
            p * (1.0 - p) * along
        };
        self.back(logits.iter().zip(&along).map(factor), vector)
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `a + factor · b`
fn add(a: &[f64], factor: f64, b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + factor * b).collect()
}

fn steepest(slopes: &[f64]) -> f64 {
    slopes.iter().fold(0.0, |most: f64, slope| most.max(slope.abs()))
}

/// Where the loss is least.
///
/// # Errors
/// If rounding keeps the slopes from coming near 0.
fn minimum(table: &Table) -> Result<Vec<f64>, SettingError> {
    let mut point = vec![0.0; table.size()];
    let mut slopes = table.gradient(&point);
    for _ in 0..STEPS_MAX {
        if steepest(&slopes) <= SLOPE_MAX {
            return Ok(point);
        }
        let step = newton(table, &point, &slopes);
        let (before, down) = (table.loss(&point), dot(&slopes, &step));
        // A step may overshoot where the logits saturate. Close to the minimum, where the loss no longer tells two points
        // apart, the slopes do.
        let is_better = |next: &[f64]| {
            table.loss(next) < before + 1e-4 * down
                || steepest(&table.gradient(next)) < 0.5 * steepest(&slopes)
        };
        let lengths = (0..40).map(|halvings| 0.5_f64.powi(halvings));
        let Some(next) = lengths.map(|length| add(&point, length, &step)).find(|next| is_better(next)) else {
            break;
        };
        point = next;
        slopes = table.gradient(&point);
    }
    match steepest(&slopes) <= SLOPE_MAX {
        true => Ok(point),
        false => Err(SettingError::new(
            "l2",
            format!(
                "is {}: the fit ends with a slope of {:.1e}, which is not the minimum; take a larger one",
                table.l2,
                steepest(&slopes)
            ),
        )),
    }
}

/// Newton's step, by conjugate gradients, the more exactly the smaller the slopes are.
fn newton(table: &Table, point: &[f64], slopes: &[f64]) -> Vec<f64> {
    let size = dot(slopes, slopes).sqrt();
    let enough = size * size.sqrt().min(0.1);
    let mut step = vec![0.0; slopes.len()];
    let mut rest: Vec<f64> = slopes.iter().map(|slope| -slope).collect();
    let mut direction = rest.clone();
    let mut square = dot(&rest, &rest);
    for _ in 0..2 * slopes.len() {
        let curved = table.curved(point, &direction);
        let curvature = dot(&direction, &curved);
        if square.sqrt() <= enough || curvature <= 0.0 {
            break;
        }
        let length = square / curvature;
        step = add(&step, length, &direction);
        rest = add(&rest, -length, &curved);
        let next = dot(&rest, &rest);
        direction = add(&rest, next / square, &direction);
        square = next;
    }
    step
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn asked(questions: &[(&str, usize, usize)]) -> BTreeMap<String, Paid> {
        questions.iter().map(|&(text, answers, paid)| (text.to_owned(), Paid { answers, paid })).collect()
    }

    /// Questions about hens, where reflection pays, and about cows, where it does not.
    fn separable(count: usize) -> BTreeMap<String, Paid> {
        let of = |at: usize| {
            let (animal, paid) = if at.is_multiple_of(3) { ("hens", 1) } else { ("cows", 0) };
            (format!("farm {} has {animal}", at * at), Paid { answers: 1, paid })
        };
        (0..count).map(of).collect()
    }

    #[test]
    fn what_a_word_tells_is_learned_and_told_of_new_questions() {
        let model = fit(&separable(60), Fitting { l2: 1e-3, ..Fitting::default() }).unwrap();
        assert!(model.chance("another farm, which has hens") > 0.8);
        assert!(model.chance("another farm, which has cows") < 0.2);
        assert_eq!((model.questions, model.buckets), (60, 4096));
        assert!((model.positives - 1.0 / 3.0).abs() < 1e-12);
        let HeldOut { log_loss, constant, chances, .. } = model.held_out;
        let entropy = -(1.0_f64 / 3.0).ln() / 3.0 - (2.0_f64 / 3.0).ln() * 2.0 / 3.0;
        assert!((constant - entropy).abs() < 1e-3, "{constant} {entropy}");
        assert!(log_loss < 0.5 * constant, "{log_loss} {constant}");
        assert!(chances[0] < 0.2 && chances[4] > 0.8);
    }

    #[test]
    fn where_questions_tell_nothing_held_out_ones_are_told_no_better() {
        // The words are the same everywhere but for a number that says nothing.
        let of = |at: usize| {
            let text = format!("number {}", at * 7919 % 1009);
            (text, Paid { answers: 1, paid: usize::from(at.is_multiple_of(4)) })
        };
        let model = fit(&(0..100).map(of).collect(), Fitting::default()).unwrap();
        assert!(model.held_out.log_loss > model.held_out.constant - 1e-3, "{:?}", model.held_out);
    }

    #[test]
    fn a_question_counts_once_by_the_share_of_its_answers() {
        let few = asked(&[("a", 1, 1), ("b", 2, 1), ("c", 1, 0), ("d", 1, 0)]);
        let many = asked(&[("a", 5, 5), ("b", 10, 5), ("c", 3, 0), ("d", 7, 0), ("e", 0, 0)]);
        let fitting = Fitting { folds: 2, ..Fitting::default() };
        let model = fit(&few, fitting).unwrap();
        assert_eq!(model, fit(&many, fitting).unwrap());
        assert!((model.positives - 1.5 / 4.0).abs() < 1e-15);
    }

    #[test]
    fn what_can_not_be_fitted_is_refused_by_name() {
        let two = asked(&[("a", 1, 1), ("b", 1, 1), ("c", 1, 0), ("d", 1, 0)]);
        let with = |fitting| fit(&two, fitting).unwrap_err().to_string();
        let default = Fitting { folds: 2, ..Fitting::default() };
        assert!(fit(&two, default).is_ok());
        assert!(with(Fitting { buckets: 0, ..default }).starts_with("buckets: "));
        assert!(with(Fitting { l2: 0.0, ..default }).starts_with("l2: "));
        assert!(with(Fitting { l2: f64::NAN, ..default }).starts_with("l2: "));
        assert!(with(Fitting { folds: 1, ..default }).starts_with("folds: "));
        assert!(with(Fitting { folds: 5, ..default }).starts_with("folds: must be from 2 to the number of"));
        let one = asked(&[("a", 1, 1), ("b", 1, 0), ("c", 1, 0)]);
        let error = fit(&one, default).unwrap_err().to_string();
        assert!(
            error.starts_with("questions: of 3 questions, reflection pays in 1 and does not in 2"),
            "{error}"
        );
        assert!(fit(&asked(&[("a", 1, 1), ("b", 1, 1), ("c", 1, 0)]), default).is_err());
    }

    /// Rows of some of eight buckets.
    fn rows() -> impl Strategy<Value = Vec<Row>> {
        let row = (prop::collection::btree_set(0_u32..8, 0..5), 0_u32..=4);
        let row = row.prop_map(|(buckets, label)| Row {
            buckets: buckets.into_iter().collect(),
            label: f64::from(label) / 4.0,
        });
        prop::collection::vec(row, 2..12)
    }

    proptest! {
        #[test]
        fn slopes_are_those_of_the_loss(rows in rows(), numbers in prop::collection::vec(-3.0_f64..3.0, 9)) {
            let all: Vec<&Row> = rows.iter().collect();
            let table = Table::new(&all, 0.02);
            let point = &numbers[..table.size()];
            let moved = |at: usize, by: f64| {
                let mut point = point.to_vec();
                point[at] += by;
                point
            };
            let slopes = table.gradient(point);
            for at in 0..table.size() {
                let difference = (table.loss(&moved(at, 1e-5)) - table.loss(&moved(at, -1e-5))) / 2e-5;
                prop_assert!((slopes[at] - difference).abs() < 1e-8, "{} {difference}", slopes[at]);
                let mut unit = vec![0.0; table.size()];
                unit[at] = 1.0;
                let curved = table.curved(point, &unit);
                let above = table.gradient(&moved(at, 1e-5));
                let below = table.gradient(&moved(at, -1e-5));
                for other in 0..table.size() {
                    let difference = (above[other] - below[other]) / 2e-5;
                    prop_assert!((curved[other] - difference).abs() < 1e-8);
                }
            }
        }

        /// The penalised loss, written out here once more, is flat where the fit ends, and higher around it.
        #[test]
        fn a_fit_ends_at_the_minimum(paid in prop::collection::vec(0_usize..=3, 6..30), l2 in 1e-4_f64..1.0) {
            let words = ["red", "green", "blue", "big", "small"];
            let text = |at: usize| format!("{} {} {at}", words[at % 5], words[at * 3 % 4]);
            let questions: BTreeMap<String, Paid> =
                paid.iter().enumerate().map(|(at, paid)| (text(at), Paid { answers: 3, paid: *paid })).collect();
            let fitting = Fitting { buckets: 64, l2, folds: 2 };
            let (some, less) = (paid.iter().filter(|paid| **paid > 0), paid.iter().filter(|paid| **paid < 3));
            prop_assume!(some.count() > 1 && less.count() > 1);
            let model = fit(&questions, fitting).unwrap();
            let loss = |intercept: f64, weights: &BTreeMap<u32, f64>| {
                let mut sum = 0.0;
                for (text, Paid { answers, paid }) in &questions {
                    let present = features(text, 64);
                    let length = (present.len() as f64).sqrt();
                    let logit: f64 = present.iter().map(|at| weights.get(at).unwrap_or(&0.0) / length).sum();
                    let p = 1.0 / (1.0 + (-(logit + intercept)).exp());
                    let y = *paid as f64 / *answers as f64;
                    sum -= y * p.ln() + (1.0 - y) * (1.0 - p).ln();
                }
                sum / questions.len() as f64 + l2 * weights.values().map(|weight| weight * weight).sum::<f64>()
            };
            let weights: BTreeMap<u32, f64> = model.weights.iter().copied().collect();
            let least = loss(model.intercept, &weights);
            let moved = |bucket: Option<u32>, by: f64| {
                let mut weights = weights.clone();
                let intercept = model.intercept + if bucket.is_none() { by } else { 0.0 };
                bucket.into_iter().for_each(|bucket| *weights.entry(bucket).or_default() += by);
                loss(intercept, &weights)
            };
            for bucket in (0..64).map(Some).chain([None]) {
                let slope = (moved(bucket, 1e-4) - moved(bucket, -1e-4)) / 2e-4;
                prop_assert!(slope.abs() < 1e-7, "{bucket:?}: {slope}");
                prop_assert!(moved(bucket, 1e-2) > least && moved(bucket, -1e-2) > least, "{bucket:?}");
            }
        }
    }
}
