//! Held-out success over training steps (or reward, if that is the headline), one line per arm, as SVG.

use std::collections::BTreeMap;

use plotters::prelude::*;
use plotters::style::FontFamily;

use super::{ArmFindings, Findings, Measure};

const WIDTH: u32 = 960;
const PLOT_HEIGHT: u32 = 440;
/// Height of one line of the legend.
const LEGEND_HEIGHT: u32 = 30;
const FONT_SIZE: u32 = 22;
const MARGIN: i32 = 16;

// The page around the plot may be light or dark, and the plot has no background. So every colour has a middle
// lightness, with a contrast of about 3 or more to white and to black.
const GRID: RGBColor = RGBColor(0x80, 0x80, 0x80);
const TEXT: RGBColor = RGBColor(0x80, 0x80, 0x80);
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x7a, 0x7f, 0x87),
    RGBColor(0x2f, 0x7d, 0xe1),
    RGBColor(0xd9, 0x6b, 0x0b),
    RGBColor(0x1f, 0x94, 0x5a),
    RGBColor(0xa3, 0x5a, 0xd6),
    RGBColor(0xd6, 0x40, 0x5a),
    RGBColor(0x12, 0x8f, 0x9c),
    RGBColor(0x9a, 0x74, 0x2b),
];

/// A step with the mean, the minimum and the maximum over seeds; success in percent.
type Point = (u64, f64, f64, f64);

/// Draws the plot, or says why it can't be drawn.
pub(super) fn svg(findings: &Findings) -> Result<String, String> {
    let mut svg = String::new();
    draw(findings, &mut svg).map_err(|error| error.to_string())?;
    Ok(svg)
}

type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

fn draw<'a>(findings: &Findings, svg: &'a mut String) -> Result<(), Failure<'a>> {
    let measure = findings.headline;
    let curves: Vec<(usize, Vec<Point>)> =
        findings.arms.iter().map(|arm| curve(arm, measure)).enumerate().collect();
    let steps_max = curves.iter().flat_map(|(_, curve)| curve).map(|point| point.0).max().unwrap_or(0).max(1);
    let values = || curves.iter().flat_map(|(_, curve)| curve);
    let highest = values().map(|point| point.3).fold(0.0, f64::max);
    let lowest = values().map(|point| point.2).fold(0.0, f64::min);
    // Leave room at the top, but no rate is above 100 %.
    let ceiling = if measure == Measure::Success { 100.0 } else { f64::INFINITY };
    let top = if highest > 0.0 {
        (1.1 * highest).min(ceiling)
    } else if lowest < 0.0 {
        0.0
    } else {
        1.0
    };
    let y_desc = match measure {
        Measure::Success => "held-out success, %",
        Measure::Reward => "held-out reward",
    };
    let size = (WIDTH, PLOT_HEIGHT + LEGEND_HEIGHT * findings.arms.len() as u32 + MARGIN as u32);
    let root = SVGBackend::with_string(svg, size).into_drawing_area();
    let (plot, legend) = root.split_vertically(PLOT_HEIGHT);
    let font = || (FontFamily::SansSerif, FONT_SIZE).into_font().color(&TEXT);
    let mut chart = ChartBuilder::on(&plot)
        .margin(MARGIN)
        .margin_right(3 * MARGIN)
        .x_label_area_size(58)
        .y_label_area_size(90)
        .build_cartesian_2d(0..steps_max, 1.1 * lowest..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID.mix(0.35))
        .axis_style(GRID)
        .x_labels(8)
        .y_labels(6)
        .x_desc("training steps")
        .y_desc(y_desc)
        .y_label_formatter(&|value| burnish_rundir::report::tick(*value))
        .label_style(font())
        .axis_desc_style(font())
        .draw()?;
    for (arm, curve) in &curves {
        let colour = COLOURS[arm % COLOURS.len()];
        let lower = curve.iter().map(|(step, _, low, _)| (*step, *low));
        let upper = curve.iter().rev().map(|(step, _, _, high)| (*step, *high));
        chart.draw_series([Polygon::new(lower.chain(upper).collect::<Vec<_>>(), colour.mix(0.16))])?;
    }
    for (arm, curve) in &curves {
        let colour = COLOURS[arm % COLOURS.len()];
        chart.draw_series(LineSeries::new(
            curve.iter().map(|point| (point.0, point.1)),
            colour.stroke_width(3),
        ))?;
        chart.draw_series(curve.iter().map(|point| Circle::new((point.0, point.1), 4, colour.filled())))?;
    }
    for (row, (arm, curve)) in ranked(&curves).into_iter().enumerate() {
        let y = (row as i32) * LEGEND_HEIGHT as i32 + LEGEND_HEIGHT as i32 / 2;
        let left = 100;
        let swatch = vec![(left, y), (left + 40, y)];
        legend.draw(&PathElement::new(swatch, COLOURS[arm % COLOURS.len()].stroke_width(5)))?;
        legend.draw(&Text::new(
            label(&findings.arms[arm], curve, measure),
            (left + 54, y - FONT_SIZE as i32 / 2 + 3),
            font(),
        ))?;
    }
    root.present()
}

/// The arms in the order of their last values, highest first.
fn ranked(curves: &[(usize, Vec<Point>)]) -> Vec<(usize, &[Point])> {
    let mut ranked: Vec<(usize, &[Point])> = curves.iter().map(|(arm, curve)| (*arm, &curve[..])).collect();
    let last = |curve: &[Point]| curve.last().map_or(f64::NEG_INFINITY, |point| point.1);
    ranked.sort_by(|one, other| last(other.1).total_cmp(&last(one.1)));
    ranked
}

fn label(arm: &ArmFindings, curve: &[Point], measure: Measure) -> String {
    let seeds = match arm.runs.len() {
        1 => "1 seed".to_owned(),
        seeds => format!("{seeds} seeds"),
    };
    match curve.last() {
        Some((_, mean, low, high)) => match measure {
            Measure::Success => format!("{}: {mean:.1} %  ({low:.1} to {high:.1}, {seeds})", arm.name),
            Measure::Reward => format!("{}: {mean:.3}  ({low:.3} to {high:.3}, {seeds})", arm.name),
        },
        None => format!("{}: no run yet", arm.name),
    }
}

/// One point per step that all runs of the arm evaluated.
fn curve(arm: &ArmFindings, measure: Measure) -> Vec<Point> {
    let scale = if measure == Measure::Success { 100.0 } else { 1.0 };
    let mut by_step: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (step, level) in arm.runs.iter().flat_map(|run| &run.curve) {
        by_step.entry(*step).or_default().push(scale * level);
    }
    by_step
        .into_iter()
        .filter(|(_, values)| values.len() == arm.runs.len())
        .map(|(step, values)| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            (step, mean, low, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::findings::tests::{measured, survey};
    use super::*;

    #[test]
    fn a_line_an_arm_with_a_band_over_seeds_and_a_legend_from_best_to_worst() {
        let baseline = [measured(1, 10, 1.0), measured(2, 20, 1.0)];
        let found = survey(&[
            ("base <b>", baseline.to_vec()),
            ("up", vec![measured(1, 30, 1.0)]),
            ("waits", Vec::new()),
        ]);
        let svg = svg(&found).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("up: 75.0 %  (75.0 to 75.0, 1 seed)"), "{svg}");
        assert!(
            svg.contains("37.5 %  (25.0 to 50.0, 2 seeds)") && svg.contains("waits: no run yet"),
            "{svg}"
        );
        assert!(!svg.contains("<b>"), "names are text: {svg}");
        assert!(svg.find("up: 75") < svg.find("base "), "the best stands first");
        assert_eq!(curve(&found.arms[0], Measure::Success), [(0, 10.0, 10.0, 10.0), (4, 37.5, 25.0, 50.0)]);
        for colour in &COLOURS[..2] {
            assert!(svg.contains(&format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2)));
        }
    }

    #[test]
    fn a_step_that_a_run_did_not_evaluate_is_left_out() {
        let mut sparse = measured(2, 20, 1.0);
        sparse.curve.remove(0);
        let found = survey(&[("a", vec![measured(1, 10, 1.0), sparse])]);
        assert_eq!(curve(&found.arms[0], Measure::Success).len(), 1);
    }

    #[test]
    fn rewards_are_no_percentages_and_may_be_below_zero() {
        let mut run = measured(1, 10, 1.0);
        run.curve = vec![(0, -2.0), (4, -0.5)];
        let found = Findings { headline: Measure::Reward, ..survey(&[("a", vec![run])]) };
        let svg = svg(&found).unwrap();
        assert!(svg.contains("a: -0.500  (-0.500 to -0.500, 1 seed)"), "{svg}");
        assert!(svg.contains("held-out reward") && !svg.contains('%'), "{svg}");
    }
}
