//! Makes task sets: shares by largest remainder, boards by trial, labels by search.

use super::board::Board;
use super::cbs::{Outcome, Solution, analyse};
use super::config::{MapfConfig, hole_ratio_for};
use super::propose::Frame;
use crate::settings::config_error;
use crate::shares::largest_remainder;
use crate::{CellReport, EnvError};
use burnish_core::rng::{Address, Purpose, Stream};
use std::collections::{BTreeMap, BTreeSet};

/// Candidates drawn for one board before the configuration's cell is considered impossible.
pub const DRAWS_MAX: usize = 2000;
/// Suitable candidates that are skipped because the set already has them, before one is taken twice.
const REPEATS_MAX: usize = 20;

/// Reason for dropping a candidate whose search took too long.
const OVER_BUDGET: &str = "node budget";
/// Reason for dropping a candidate that the set already has.
const REPEATED: &str = "repeated";

/// A board with its labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Instance {
    pub(super) board: Board,
    pub(super) solution: Solution,
}

/// One cell of the configuration.
#[derive(Debug, Clone, Copy)]
struct Cell {
    frame: Frame,
    needs_wait: bool,
}

/// Makes `count` instances in random order, and reports on every cell of the configuration.
pub(super) fn instances(
    config: &MapfConfig,
    seed: u64,
    count: usize,
) -> Result<(Vec<Instance>, Vec<CellReport>), EnvError> {
    let mut made = Vec::with_capacity(count);
    let mut reports = Vec::new();
    for (cell, quota) in cells(config, count) {
        let (found, report) = fill(config, cell, seed, quota)?;
        made.extend(found);
        reports.push(report);
    }
    Stream::new(Address::new(seed, Purpose::Shuffle).seed()).shuffle(&mut made);
    Ok((made, reports))
}

/// The cells of the configuration that get some of `count` instances, with their numbers.
fn cells(config: &MapfConfig, count: usize) -> Vec<(Cell, usize)> {
    let shares: Vec<f64> = config.sizes.values().map(|size| size.share).collect();
    let mut cells = Vec::new();
    for ((&size, cell), quota) in config.sizes.iter().zip(largest_remainder(&shares, count)) {
        let frame = Frame { size, holes: cell.holes(size), agents: config.agents };
        let waits = largest_remainder(&[1.0 - cell.wait_ratio, cell.wait_ratio], quota);
        cells.push((Cell { frame, needs_wait: false }, waits[0]));
        cells.push((Cell { frame, needs_wait: true }, waits[1]));
    }
    cells.retain(|(_, quota)| *quota > 0);
    cells
}

/// Makes the instances of one cell. They do not depend on the other cells.
fn fill(
    config: &MapfConfig,
    cell: Cell,
    seed: u64,
    quota: usize,
) -> Result<(Vec<Instance>, CellReport), EnvError> {
    let mut report = CellReport::new(cell.to_string());
    let mut seen = BTreeSet::new();
    let mut made = Vec::with_capacity(quota);
    for slot in 0..quota {
        let found = fill_slot(cell, config.node_budget, seed, slot, &mut seen, &mut report);
        // A cell that has yielded boards before is rare but possible, so one of its boards is used again.
        let Some(instance) = found.or_else(|| made.get(slot / 2).cloned()) else {
            return Err(impossible(config, cell, seed, &report));
        };
        made.push(instance);
        report.made += 1;
    }
    Ok((made, report))
}

/// Draws until a candidate suits the cell and is new. If nothing new comes up, a repeated one is taken.
fn fill_slot(
    cell: Cell,
    node_budget: usize,
    seed: u64,
    slot: usize,
    seen: &mut BTreeSet<Board>,
    report: &mut CellReport,
) -> Option<Instance> {
    let mut repeats = Vec::new();
    for draw in 0..DRAWS_MAX {
        report.drawn += 1;
        match candidate(cell, node_budget, seed, slot, draw) {
            Ok(instance) if seen.insert(instance.board.clone()) => {
                drop_for(report, REPEATED, repeats.len());
                return Some(instance);
            }
            Ok(instance) => repeats.push(instance),
            Err(reason) => drop_for(report, reason, 1),
        }
        if repeats.len() == REPEATS_MAX {
            break;
        }
    }
    let taken = repeats.pop();
    drop_for(report, REPEATED, repeats.len());
    taken
}

fn drop_for(report: &mut CellReport, reason: &str, count: usize) {
    if count > 0 {
        *report.dropped.entry(reason.to_owned()).or_default() += count;
    }
}

/// Draws one board and labels it, or says why it does not suit the cell.
fn candidate(
    cell: Cell,
    node_budget: usize,
    seed: u64,
    slot: usize,
    draw: usize,
) -> Result<Instance, &'static str> {
    let place = Address {
        stage: cell.frame.size as u64,
        turn: u64::from(cell.needs_wait),
        task: slot as u64,
        step: draw as u64,
        ..Address::new(seed, Purpose::Task)
    };
    let mut stream = Stream::new(place.seed());
    let board = if cell.needs_wait {
        match draw % 4 {
            0 => cell.frame.corridor(&mut stream),
            3 => cell.frame.random(&mut stream),
            _ => cell.frame.crossing(&mut stream),
        }
    } else {
        cell.frame.random(&mut stream)
    };
    let board = board.ok_or("construction failed")?;
    match analyse(&board, node_budget) {
        Err(Outcome::Budget) => Err(OVER_BUDGET),
        Err(_) => Err("unsolvable"),
        Ok(solution) if solution.needs_wait == cell.needs_wait => Ok(Instance { board, solution }),
        Ok(solution) if solution.needs_wait => Err("needs a wait"),
        Ok(_) => Err("needs no wait"),
    }
}

/// Does the cell yield any board?
fn is_possible(config: &MapfConfig, cell: Cell, seed: u64) -> bool {
    (0..DRAWS_MAX).any(|draw| candidate(cell, config.node_budget, seed, 0, draw).is_ok())
}

/// The error for a cell that yields nothing: finds out which key is to blame and which value would be accepted.
fn impossible(config: &MapfConfig, cell: Cell, seed: u64, report: &CellReport) -> EnvError {
    let Frame { size, holes, agents } = cell.frame;
    let dropped = counts(&report.dropped);
    let found_none = format!("{DRAWS_MAX} draws gave no board ({cell}; dropped: {dropped})");
    let ratios = &config.sizes[&size];
    let default_budget = MapfConfig::default().node_budget;
    if report.dropped.contains_key(OVER_BUDGET) && config.node_budget < default_budget {
        let roomy = MapfConfig { node_budget: default_budget, ..config.clone() };
        if is_possible(&roomy, cell, seed) {
            let problem = format!("{}: {found_none}; {default_budget} works", config.node_budget);
            return config_error("node_budget", &problem);
        }
    }
    if is_possible(config, Cell { needs_wait: !cell.needs_wait, ..cell }, seed) {
        let nearest = u8::from(!cell.needs_wait);
        let problem =
            format!("{}: {found_none}; the nearest value that works is {nearest}", ratios.wait_ratio);
        return config_error(&format!("sizes.{size}.wait_ratio"), &problem);
    }
    let mut others: Vec<usize> = (0..=size * size - agents).filter(|&other| other != holes).collect();
    others.sort_by_key(|other| other.abs_diff(holes));
    let with = |holes| Cell { frame: Frame { holes, ..cell.frame }, ..cell };
    match others.into_iter().find(|&other| is_possible(config, with(other), seed)) {
        Some(other) => {
            let nearest = hole_ratio_for(other, size);
            let problem = format!(
                "{}: {found_none}; the nearest value that works is {nearest} ({other} holes)",
                ratios.hole_ratio
            );
            config_error(&format!("sizes.{size}.hole_ratio"), &problem)
        }
        None => {
            let problem =
                format!("{agents}: {found_none}, nor with any other number of holes; ask for fewer");
            config_error("agents", &problem)
        }
    }
}

fn counts(dropped: &BTreeMap<String, usize>) -> String {
    dropped.iter().map(|(reason, count)| format!("{reason} {count}")).collect::<Vec<_>>().join(", ")
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Frame { size, holes, agents } = self.frame;
        write!(f, "size={size} agents={agents} holes={holes} wait={}", yes_no(self.needs_wait))
    }
}

pub(super) fn yes_no(it: bool) -> &'static str {
    if it { "yes" } else { "no" }
}
