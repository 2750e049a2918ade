//! Student's t distribution with a whole number of degrees of freedom, in closed form (Abramowitz and Stegun,
//! "Handbook of Mathematical Functions", 26.7.3 and 26.7.4).

use std::f64::consts::{FRAC_PI_2, PI};

/// Bisections of an angle of 90 degrees that leave nothing of a double's digits.
const BISECTIONS: usize = 80;

/// The probability that `|T|` is above `t`, for `t >= 0` and one or more degrees of freedom.
pub(crate) fn outside(t: f64, freedom: usize) -> f64 {
    1.0 - inside(angle(t, freedom), freedom)
}

/// The value that `T` stays below with probability `p`, for `0.5 <= p < 1`.
pub(crate) fn quantile(p: f64, freedom: usize) -> f64 {
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    for _ in 0..BISECTIONS {
        let middle = (low + high) / 2.0;
        if inside(middle, freedom) < 2.0 * p - 1.0 { low = middle } else { high = middle }
    }
    (freedom as f64).sqrt() * low.tan()
}

fn angle(t: f64, freedom: usize) -> f64 {
    (t.abs() / (freedom as f64).sqrt()).atan()
}

/// The probability of `|T| < tan(angle) √freedom`.
fn inside(angle: f64, freedom: usize) -> f64 {
    let (sine, cosine) = angle.sin_cos();
    // The terms are cosⁿ with n = 1, 3, 5 ... for odd degrees of freedom, and 0, 2, 4 ... for even ones, up to
    // freedom - 2; the factor from one to the next is n / (n + 1) cos² for the next power n + 1.
    let mut term = if freedom % 2 == 1 { cosine } else { 1.0 };
    let mut sum = 0.0;
    for power in (freedom % 2..freedom.saturating_sub(1)).step_by(2) {
        sum += term;
        term *= (power + 1) as f64 / (power + 2) as f64 * cosine * cosine;
    }
    if freedom % 2 == 1 { 2.0 / PI * (angle + sine * sum) } else { sine * sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tests/golden/student.py`: degrees of freedom, t, P(|T| > t), p, the quantile of p.
    fn golden() -> Vec<[f64; 5]> {
        serde_json::from_str(include_str!("../tests/golden/student.json")).unwrap()
    }

    #[test]
    fn probabilities_and_quantiles_are_those_of_scipy() {
        for [freedom, t, outside_it, p, at] in golden() {
            let freedom = freedom as usize;
            assert!((outside(t, freedom) - outside_it).abs() < 1e-13, "{freedom} {t}");
            assert!((outside(-t, freedom) - outside_it).abs() < 1e-13, "{freedom} {t}");
            assert!((quantile(p, freedom) / at - 1.0).abs() < 1e-10, "{freedom} {p}");
        }
    }
}
