//! Special functions, in double precision.

/// `B_2k / 2k` for k = 1 to 8, with B the Bernoulli numbers: the coefficients of the asymptotic series of ψ.
const SERIES: [f64; 8] = [
    1.0 / 12.0,
    -1.0 / 120.0,
    1.0 / 252.0,
    -1.0 / 240.0,
    1.0 / 132.0,
    -691.0 / 32_760.0,
    1.0 / 12.0,
    -3617.0 / 8160.0,
];

/// From here on, the first term that the series omits is below 4e-18.
const ASYMPTOTIC: f64 = 10.0;

/// The digamma function ψ(x), the derivative of ln Γ, for `x` above 0; NaN otherwise.
///
/// Upwards by ψ(x) = ψ(x + 1) - 1/x, then `ψ(x) ~ ln x - 1/2x - Σ_k B_2k / (2k·x^2k)` (Abramowitz and Stegun 1964,
/// 6.3.5 and 6.3.18). The error is below 1e-14, relative where |ψ| is above 1.
pub fn digamma(x: f64) -> f64 {
    if x.is_nan() || x <= 0.0 {
        return f64::NAN;
    }
    let (mut x, mut below) = (x, 0.0);
    while x < ASYMPTOTIC {
        below += x.recip();
        x += 1.0;
    }
    x.ln() - 0.5 / x - series(x) - below
}

/// `ψ(x + 1) - ln x` for `x` above 0: positive, and about `1/2x` for a large `x`, where the difference itself would be
/// noise.
pub fn digamma_above_ln(x: f64) -> f64 {
    if x < ASYMPTOTIC { digamma(x + 1.0) - x.ln() } else { 0.5 / x - series(x) }
}

fn series(x: f64) -> f64 {
    let step = (x * x).recip();
    SERIES.iter().rev().fold(0.0, |sum, coefficient| (sum + coefficient) * step)
}
