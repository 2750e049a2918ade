//! Makes tasks: shares by largest remainder, houses by trial, plans by search.

use burnish_core::rng::{Address, Purpose, Stream};

use super::config::{CONTAINERS, HouseholdConfig, OBJECTS, ROOMS, SURFACES};
use super::goal::{Goal, TaskType};
use super::play::Truth;
use super::solve::plan;
use super::world::{House, Place, PlaceKind, Thing, Warmth, World};
use crate::settings::config_error;
use crate::shares::largest_remainder;
use crate::{CellReport, EnvError};

/// Candidates drawn for one task before its type is considered impossible.
const DRAWS_MAX: usize = 2000;

const TOO_LONG: &str = "plan too long";
const NO_TARGET: &str = "no place to put it";

/// A task with the length of its shortest plan.
pub(crate) struct Instance {
    pub(crate) truth: Truth,
    pub(crate) steps: usize,
}

/// Makes `count` instances in random order, and reports on every type.
pub(crate) fn instances(
    config: &HouseholdConfig,
    seed: u64,
    count: usize,
) -> Result<(Vec<Instance>, Vec<CellReport>), EnvError> {
    let (types, shares) = config.types();
    let mut made = Vec::with_capacity(count);
    let mut reports = Vec::new();
    for (kind, quota) in types.into_iter().zip(largest_remainder(&shares, count)) {
        let mut report = CellReport::new(format!("type={}", kind.name()));
        for slot in 0..quota {
            made.push(instance(config, kind, seed, slot, &mut report)?);
        }
        reports.push(report);
    }
    Stream::new(Address::new(seed, Purpose::Shuffle).seed()).shuffle(&mut made);
    Ok((made, reports))
}

fn instance(
    config: &HouseholdConfig,
    kind: TaskType,
    seed: u64,
    slot: usize,
    report: &mut CellReport,
) -> Result<Instance, EnvError> {
    let place = Address { stage: kind as u64, task: slot as u64, ..Address::new(seed, Purpose::Task) };
    let mut stream = Stream::new(place.seed());
    let mut shortest: Option<usize> = None;
    let made = report.draw(DRAWS_MAX, || {
        let truth = draw(config, kind, &mut stream).ok_or(NO_TARGET)?;
        let plan = plan(&truth.house, &truth.start, &truth.goal).ok_or("unsolvable")?;
        let steps = plan.len();
        if steps > config.plan_max {
            shortest = Some(shortest.map_or(steps, |least| least.min(steps)));
            return Err(TOO_LONG);
        }
        Ok(Instance { truth, steps })
    });
    made.ok_or_else(|| impossible(config, kind, shortest))
}

/// The error for a type without instances: names the key to blame and the nearest value that would be accepted.
fn impossible(config: &HouseholdConfig, kind: TaskType, shortest: Option<usize>) -> EnvError {
    let none = format!("no task of the type `{}` in {DRAWS_MAX} draws", kind.name());
    match shortest {
        Some(steps) => config_error("plan_max", &format!("{}: {none}; nearest: {steps}", config.plan_max)),
        None => {
            let nearest = config.surfaces + 1;
            let problem = format!(
                "{}: {none}: every object lies where it would have to be put; nearest: {nearest}",
                config.surfaces
            );
            config_error("surfaces", &problem)
        }
    }
}

/// Draws a house, the places of all objects, and a goal of the type that is not met yet; `None` if no place is left for
/// the objects.
fn draw(config: &HouseholdConfig, kind: TaskType, stream: &mut Stream) -> Option<Truth> {
    let house = house(config, stream);
    let of = |fits: fn(PlaceKind) -> bool| -> Vec<usize> {
        (0..house.places.len()).filter(|&at| fits(house.places[at].kind)).collect()
    };
    let (closed, surfaces) = (of(PlaceKind::has_door), of(|kind| kind == PlaceKind::Surface));
    let things: Vec<Thing> = (0..house.objects.len())
        .map(|_| {
            let choice = if stream.uniform() < config.hidden { &closed } else { &surfaces };
            let place = Some(choice[stream.index(choice.len())]);
            Thing { place, is_clean: false, warmth: Warmth::Plain, is_examined: false }
        })
        .collect();
    let mut objects: Vec<usize> = (0..house.objects.len()).collect();
    stream.shuffle(&mut objects);
    objects.truncate(if kind == TaskType::Two { 2 } else { 1 });
    let place = match kind {
        TaskType::Examine => None,
        _ => {
            let is_elsewhere = |at: usize| objects.iter().all(|&it| things[it].place != Some(at));
            let mut targets = of(|kind| matches!(kind, PlaceKind::Surface | PlaceKind::Container));
            targets.retain(|&at| is_elsewhere(at));
            Some(*targets.get(stream.index(targets.len()))?)
        }
    };
    let start = World {
        room: stream.index(house.rooms.len()),
        at: None,
        is_open: house.places.iter().map(|place| !place.kind.has_door()).collect(),
        things,
    };
    Some(Truth { house, start, goal: Goal { kind, objects, place } })
}

/// Draws names, and the room of each place; rooms differ by at most one in their number of places.
fn house(config: &HouseholdConfig, stream: &mut Stream) -> House {
    let mut names = |from: &[&'static str], count: usize| {
        let mut names = from.to_vec();
        stream.shuffle(&mut names);
        names.truncate(count);
        names
    };
    let mut kinds = vec![
        ("sink", PlaceKind::Sink),
        ("stove", PlaceKind::Stove),
        ("fridge", PlaceKind::Fridge),
        ("lamp", PlaceKind::Lamp),
    ];
    kinds.extend(names(&SURFACES, config.surfaces).into_iter().map(|name| (name, PlaceKind::Surface)));
    kinds.extend(names(&CONTAINERS, config.containers).into_iter().map(|name| (name, PlaceKind::Container)));
    let objects = names(&OBJECTS, config.objects);
    stream.shuffle(&mut kinds);
    let place = |(at, (name, kind)): (usize, (&str, PlaceKind))| Place {
        name: name.to_owned(),
        room: at % config.rooms,
        kind,
    };
    House {
        rooms: ROOMS[..config.rooms].iter().map(|room| (*room).to_owned()).collect(),
        places: kinds.into_iter().enumerate().map(place).collect(),
        objects: objects.into_iter().map(str::to_owned).collect(),
    }
}

/// Is an object that the task is about in a closed place at first?
pub(crate) fn is_hidden(Truth { house, start, goal }: &Truth) -> bool {
    let hidden = |it: &usize| start.things[*it].place.is_some_and(|at| house.places[at].kind.has_door());
    goal.objects.iter().any(hidden)
}
