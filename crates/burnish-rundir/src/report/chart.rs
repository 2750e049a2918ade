//! One curve as SVG.

use plotters::prelude::*;
use plotters::style::FontFamily;

/// Size of the drawing. The page shows it at about 0.4 of this, so that positions, which are whole numbers, are fine
/// enough.
const SIZE: (u32, u32) = (960, 460);
const FONT_SIZE: u32 = 42;

// The style sheet replaces these colours by those of the page, light or dark.
const LINE: RGBColor = RGBColor(0x00, 0x00, 0xFF);
const HELD_OUT: RGBColor = RGBColor(0xFF, 0x80, 0x00);
const GRID: RGBColor = RGBColor(0xC0, 0xC0, 0xC0);
const TEXT: RGBColor = RGBColor(0x80, 0x80, 0x80);

/// Beyond this number of points, neighbours are averaged, because they could not be told apart.
const POINTS_MAX: usize = 480;
/// Beyond this number of points, a smooth line is drawn over them.
const POINTS_BARE_MAX: usize = 24;

/// What to draw.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Curve {
    /// Steps with their values, by step; all finite.
    pub(super) points: Vec<(u64, f64)>,
    /// Steps with an interval, low and high; all finite.
    pub(super) bars: Vec<(u64, f64, f64)>,
    /// The same number on rows that are held out, as a second line; all finite.
    pub(super) held_out: Vec<(u64, f64)>,
    /// Whether the vertical axis starts at 0.
    pub(super) from_zero: bool,
    /// Whether the values were set or counted, not measured. Then they contain no noise, and points are not averaged.
    pub(super) is_exact: bool,
}

/// Where a drawn line ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct End {
    /// The value there.
    pub(super) value: f64,
    /// The value of the last step, if a smooth line is drawn, which does not end there.
    pub(super) last_step: Option<f64>,
}

impl Curve {
    /// Where the line ends that a reader sees.
    pub(super) fn end(&self) -> Option<End> {
        let points = thinned(self);
        let last = points.last()?.1;
        Some(if self.is_smoothed(&points) {
            let value = smoothed(&points).last().map_or(last, |(_, value)| *value);
            End { value, last_step: self.points.last().map(|(_, value)| *value) }
        } else {
            End { value: last, last_step: None }
        })
    }

    /// Whether a smooth line is drawn over these points of the curve.
    fn is_smoothed(&self, points: &[(u64, f64)]) -> bool {
        points.len() > POINTS_BARE_MAX && !self.is_exact
    }
}

/// Draws a curve, or says why it can't be drawn.
pub(super) fn svg(curve: &Curve) -> Result<String, String> {
    let mut svg = String::new();
    draw(curve, &mut svg).map_err(|error| error.to_string())?;
    Ok(svg)
}

type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

fn draw<'a>(curve: &Curve, svg: &'a mut String) -> Result<(), Failure<'a>> {
    let points = thinned(curve);
    let (x_low, x_high) = steps(&points, curve);
    let (y_low, y_high) = bounds(curve, &points);
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin(16)
        // Half of the last step's label is to the right of the curve.
        .margin_right(64)
        .x_label_area_size(56)
        .y_label_area_size(124)
        .build_cartesian_2d(x_low..x_high, y_low..y_high)?;
    let font = (FontFamily::SansSerif, FONT_SIZE).into_font().color(&TEXT);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID.stroke_width(2))
        .axis_style(GRID.stroke_width(2))
        .x_labels(if x_high < 1000 { 8 } else { 5 })
        .y_labels(5)
        .x_label_formatter(&u64::to_string)
        .y_label_formatter(&|value| tick(*value))
        .label_style(font)
        .draw()?;
    let bars = curve.bars.iter().map(|(step, low, high)| {
        PathElement::new(vec![(*step, *low), (*step, *high)], LINE.mix(0.45).stroke_width(6))
    });
    chart.draw_series(bars)?;
    if points.len() > POINTS_BARE_MAX && curve.is_exact {
        chart.draw_series(LineSeries::new(points.iter().copied(), LINE.stroke_width(5)))?;
    } else if curve.is_smoothed(&points) {
        chart.draw_series(LineSeries::new(points.iter().copied(), LINE.mix(0.3).stroke_width(2)))?;
        chart.draw_series(LineSeries::new(smoothed(&points), LINE.stroke_width(5)))?;
    } else {
        chart.draw_series(LineSeries::new(points.iter().copied(), LINE.stroke_width(5)))?;
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 8, LINE.filled())))?;
    }
    let held_out = &curve.held_out;
    chart.draw_series(LineSeries::new(held_out.iter().copied(), HELD_OUT.stroke_width(5)))?;
    if held_out.len() <= POINTS_BARE_MAX {
        chart.draw_series(held_out.iter().map(|point| Circle::new(*point, 8, HELD_OUT.filled())))?;
    }
    root.present()
}

/// The range of steps, never empty.
fn steps(points: &[(u64, f64)], curve: &Curve) -> (u64, u64) {
    let bars = || curve.bars.iter().map(|(step, ..)| *step);
    let steps = || points.iter().chain(&curve.held_out).map(|(step, _)| *step).chain(bars());
    let (low, high) = (steps().min().unwrap_or(0), steps().max().unwrap_or(0));
    if low < high { (low, high) } else { (low.saturating_sub(1), low.saturating_add(1)) }
}

/// Beyond this, computing the axis would overflow.
const VALUE_MAX: f64 = 1e300;

/// The range of values with a little room, never empty; 0 to 1 where an end is not a number or beyond [`VALUE_MAX`].
fn bounds(curve: &Curve, points: &[(u64, f64)]) -> (f64, f64) {
    let ends = curve.bars.iter().flat_map(|(_, low, high)| [*low, *high]);
    let values = || points.iter().chain(&curve.held_out).map(|(_, value)| *value).chain(ends.clone());
    let low = values().fold(if curve.from_zero { 0.0 } else { f64::INFINITY }, f64::min);
    let high = values().fold(f64::NEG_INFINITY, f64::max);
    let room = match high - low {
        // If values differ in their last digits only, the axis has no numbers between them.
        range if range > 0.0 => (0.06 * range).max(1e-6 * high.abs().max(low.abs())),
        // All values are equal, or there are none.
        _ if high.is_finite() && high != 0.0 => 0.5 * high.abs(),
        _ => 1.0,
    };
    let low_end = if low == 0.0 && curve.from_zero { 0.0 } else { low.min(high) - room };
    let high_end = high.max(low) + room;
    let is_usable = [low_end, high_end].iter().all(|end| end.abs() <= VALUE_MAX);
    if is_usable { (low_end, high_end) } else { (0.0, 1.0) }
}

/// At most [`POINTS_MAX`] points: means over equally long runs of neighbours. For an exact curve, the least and the
/// greatest point of every two runs, so that no value is invented and no peak is lost.
fn thinned(curve: &Curve) -> Vec<(u64, f64)> {
    let points = &curve.points;
    let run = points.len().div_ceil(POINTS_MAX).max(1);
    if run == 1 {
        return points.clone();
    }
    if curve.is_exact {
        let ends = |run: &[(u64, f64)]| {
            let by_value = |one: &&(u64, f64), other: &&(u64, f64)| one.1.total_cmp(&other.1);
            let mut ends: Vec<(u64, f64)> =
                run.iter().min_by(by_value).into_iter().chain(run.iter().max_by(by_value)).copied().collect();
            ends.sort_by_key(|(step, _)| *step);
            ends.dedup();
            ends
        };
        return points.chunks(2 * run).flat_map(ends).collect();
    }
    points
        .chunks(run)
        .map(|run| (run[run.len() / 2].0, run.iter().map(|(_, value)| value).sum::<f64>() / run.len() as f64))
        .collect()
}

/// At each point, the value of the straight line that fits best (least squares) in a window of about a tenth of the
/// points around it. Unlike a moving mean, it neither lags nor leans at the ends. It stays between the least and the
/// greatest value of its window, so that a share is never below 0.
fn smoothed(points: &[(u64, f64)]) -> Vec<(u64, f64)> {
    let half = points.len() / 20 + 1;
    let fit = |at: usize| {
        let (first, last) = (at.saturating_sub(half), (at + half).min(points.len() - 1));
        let center = (first + last) as f64 / 2.0;
        let count = (last - first + 1) as f64;
        let mut sums = (0.0, 0.0, 0.0);
        for (index, (_, value)) in (first..).zip(&points[first..=last]) {
            let x = index as f64 - center;
            sums = (sums.0 + value, sums.1 + x * value, sums.2 + x * x);
        }
        let values = points[first..=last].iter().map(|(_, value)| *value);
        let (least, greatest) =
            (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::MIN, f64::max));
        // A window has at least two points, so that the last sum is above 0.
        (sums.0 / count + sums.1 / sums.2 * (at as f64 - center)).clamp(least, greatest)
    };
    (0..points.len()).map(|at| (points[at].0, fit(at))).collect()
}

/// A number short enough for an axis.
pub fn tick(value: f64) -> String {
    let size = value.abs();
    // The ticks of an axis are not exact, so that 0 may come out as a tiny number.
    if size < 1e-12 {
        return "0".to_owned();
    }
    if !(1e-3..1e5).contains(&size) {
        return trimmed(&format!("{value:.1e}"));
    }
    let decimals = if size >= 100.0 { 1 } else { 4 };
    trimmed(&format!("{value:.decimals$}"))
}

/// A number to three significant digits.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    if !(1e-3..1e5).contains(&size) {
        return tick(value);
    }
    let decimals = (2 - size.log10().floor() as i32).max(0) as usize;
    trimmed(&format!("{value:.decimals$}"))
}

/// Removes zeros at the end of the fraction.
fn trimmed(number: &str) -> String {
    let (mantissa, exponent) = match number.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, format!("e{exponent}")),
        None => (number, String::new()),
    };
    let mantissa =
        if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
    format!("{mantissa}{exponent}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_that_differ_in_their_last_digit_and_the_greatest_can_be_drawn() {
        for value in [1.0f64, -1e20, 3e200, 0.7e-5, 1.7e308] {
            let close = vec![(0, value), (1, value.next_up()), (2, value.next_down())];
            let far = vec![(0, value), (1, -0.06 * value)];
            for points in [close, far] {
                let curve = Curve { points, ..Curve::default() };
                assert!(svg(&curve).is_ok(), "{value}");
            }
        }
    }

    #[test]
    fn ticks_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (1.4e-17, "0"),
            (0.25, "0.25"),
            (0.30000000000000004, "0.3"),
            (-12.0, "-12"),
            (120.0, "120"),
            (99_999.0, "99999"),
            (2.5e6, "2.5e6"),
            (0.00001, "1e-5"),
            (3e-4, "3e-4"),
        ] {
            assert_eq!(tick(value), text);
        }
    }

    #[test]
    fn short_numbers_have_three_digits_that_count() {
        for (value, text) in [
            (60.9237, "60.9"),
            (0.012345, "0.0123"),
            (1.0, "1"),
            (1234.5, "1234"),
            (0.0, "0"),
            (-0.5, "-0.5"),
        ] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn long_curves_are_thinned_without_moving_their_mean() {
        let points: Vec<(u64, f64)> = (0..4 * POINTS_MAX as u64).map(|step| (step, step as f64)).collect();
        let measured = |points: &[(u64, f64)]| Curve { points: points.to_vec(), ..Curve::default() };
        let thin = thinned(&measured(&points));
        assert_eq!(thin.len(), POINTS_MAX);
        let mean = |points: &[(u64, f64)]| points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64;
        assert!((mean(&thin) - mean(&points)).abs() < 1e-9);
        assert_eq!(thinned(&measured(&points[..7])), points[..7]);
    }

    /// The numbers of `points="x,y x,y ..."` of every line in the drawing.
    fn lines(svg: &str) -> Vec<usize> {
        let lines = svg.split("<polyline").skip(1).filter_map(|line| line.split("points=\"").nth(1));
        let counts = lines.map(|line| line.split('"').next().unwrap_or_default().split_whitespace().count());
        counts.filter(|count| *count > 2).collect()
    }

    #[test]
    fn a_schedule_is_drawn_as_it_is_with_its_corner() {
        // Warm-up, then decay: the corner matters, and a fit in a window would round it off.
        let rate = |step: u64| if step < 10 { step as f64 / 10.0 } else { 1.0 - (step - 10) as f64 / 90.0 };
        let points: Vec<(u64, f64)> = (0..100).map(|step| (step, rate(step))).collect();
        let exact = Curve { points, from_zero: true, is_exact: true, ..Curve::default() };
        assert_eq!(lines(&svg(&exact).unwrap()), [100], "one line, through every point");
        assert_eq!(lines(&svg(&Curve { is_exact: false, ..exact }).unwrap()), [100, 100]);
        // A long curve is thinned to values that it has; a single step that stands out stays.
        let mut points: Vec<(u64, f64)> = (0..5000).map(|step| (step, (step / 1000) as f64)).collect();
        points[1234].1 = 9.0;
        let exact = Curve { points: points.clone(), is_exact: true, ..Curve::default() };
        let thin = thinned(&exact);
        assert!(thin.len() <= POINTS_MAX && thin.iter().all(|point| points.contains(point)));
        assert!(thin.contains(&(1234, 9.0)) && thin.is_sorted_by_key(|(step, _)| *step));
    }

    #[test]
    fn smoothing_keeps_a_straight_line_straight_and_quiets_noise() {
        let line: Vec<(u64, f64)> = (0..100).map(|step| (step, 2.0 * step as f64)).collect();
        for (smooth, exact) in smoothed(&line).iter().zip(&line) {
            assert!((smooth.1 - exact.1).abs() < 1e-9);
        }
        let zigzag: Vec<(u64, f64)> =
            (0..100u64).map(|step| (step, if step.is_multiple_of(2) { 1.0 } else { -1.0 })).collect();
        assert!(smoothed(&zigzag).iter().all(|(_, value)| value.abs() < 0.6));
        // A share that falls to 0 and stays there.
        let falls: Vec<(u64, f64)> = (0..100).map(|at| (at, if at < 96 { 0.3 } else { 0.0 })).collect();
        assert!(smoothed(&falls).iter().all(|(_, value)| (0.0..=0.3).contains(value)));
        assert!(smoothed(&zigzag)[10..90].iter().all(|(_, value)| value.abs() < 0.2));
    }

    #[test]
    fn the_end_of_a_curve_is_that_of_the_line_that_is_drawn() {
        let end = |count: u64, is_exact: bool| {
            let mut points: Vec<(u64, f64)> = (0..count).map(|step| (step, 1.0)).collect();
            points.last_mut().unwrap().1 = 9.0;
            Curve { points, is_exact, ..Curve::default() }.end().unwrap()
        };
        for (count, is_exact) in [(5, false), (5, true), (200, true)] {
            assert_eq!(end(count, is_exact), End { value: 9.0, last_step: None });
        }
        let smooth = end(200, false);
        assert!((1.0..5.0).contains(&smooth.value) && smooth.last_step == Some(9.0), "{smooth:?}");
        assert_eq!(Curve::default().end(), None);
    }

    #[test]
    fn what_is_held_out_fits_into_the_drawing() {
        let curve = Curve { points: vec![(1, 1.0)], held_out: vec![(0, 5.0), (9, -2.0)], ..Curve::default() };
        let (low, high) = bounds(&curve, &curve.points);
        assert!(low < -2.0 && high > 5.0 && steps(&curve.points, &curve) == (0, 9));
    }

    #[test]
    fn a_rate_begins_at_zero_and_leaves_room_above() {
        let curve = Curve { points: vec![(1, 0.5), (2, 0.6)], from_zero: true, ..Curve::default() };
        let (low, high) = bounds(&curve, &curve.points);
        assert!(low == 0.0 && (0.6..0.7).contains(&high), "{low}..{high}");
    }

    #[test]
    fn the_drawing_has_the_line_the_bars_and_labels_in_the_colours_that_the_style_sheet_knows() {
        let curve = Curve {
            points: (0..3).map(|step| (step, 0.2 * step as f64)).collect(),
            bars: vec![(1, 0.1, 0.3)],
            held_out: vec![(0, 0.2), (2, 0.3)],
            from_zero: true,
            is_exact: false,
        };
        let svg = svg(&curve).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert_eq!(svg.matches("<circle").count(), 5);
        assert!(svg.contains("0.4") && svg.contains("polyline"));
        let style = include_str!("style.css");
        for colour in svg.split(['"']).filter(|part| part.len() == 7 && part.starts_with('#')) {
            assert!(style.contains(&format!("\"{colour}\"")), "{colour}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_curve_of_finite_numbers_can_be_drawn(
            points in prop::collection::btree_map(any::<u64>(), prop::num::f64::NORMAL, 0..40),
            from_zero: bool,
        ) {
            let curve = Curve { points: points.into_iter().collect(), from_zero, ..Curve::default() };
            prop_assert!(svg(&curve).is_ok());
        }

        #[test]
        fn bounds_hold_every_value(
            values in prop::collection::vec(-1e6f64..1e6, 1..20), from_zero: bool,
        ) {
            let points: Vec<(u64, f64)> = (0..).zip(values).collect();
            let curve = Curve { points, bars: vec![(0, -3.0, 3.0)], from_zero, ..Curve::default() };
            let (low, high) = bounds(&curve, &curve.points);
            prop_assert!(low < high && low <= -3.0 && high >= 3.0);
            prop_assert!(curve.points.iter().all(|(_, value)| (low..=high).contains(value)));
        }
    }
}
