//! The texts that the policy reads.

use super::config::PromptStyle;
use super::goal::Goal;
use super::world::{House, Warmth, World};

/// The observation after an impossible action.
pub(crate) const NOTHING: &str = "nothing happens";

const RULES: &str = "You are in a house. Answer with one action and nothing else:\n\
    look; go PLACE (in this room); go ROOM; open PLACE; take OBJECT; put OBJECT PLACE; clean OBJECT (at the sink); \
    heat OBJECT (at the stove); cool OBJECT (at the fridge); examine OBJECT (at the lamp).\n\
    You must be at a place to use it, and can hold one object. Closed places hide what is in them.\n";

/// The prompt: the rooms, with what is in sight from where the agent stands (or everything, if `reveal`), and the goal.
/// Every place is named, so that only objects must be found.
pub(crate) fn prompt(house: &House, world: &World, goal: &Goal, reveal: bool, style: PromptStyle) -> String {
    let mut lines = vec![room(house, world, world.room, true, reveal)];
    let others = (0..house.rooms.len()).filter(|&other| other != world.room);
    lines.extend(others.map(|other| room(house, world, other, reveal, reveal)));
    lines.push(format!("goal: {}", goal.text(house)));
    let rules = match style {
        PromptStyle::Short => "",
        PromptStyle::Full => RULES,
    };
    format!("{rules}{}", lines.join("\n"))
}

/// The observation: the place where the agent stands, or else the room; and what it holds. It depends on the world
/// alone, so that equal observations stand for (nearly) equal states.
pub(crate) fn observation(house: &House, world: &World, reveal: bool) -> String {
    let seen = match world.at {
        Some(at) => format!("at {}", place(house, world, at, true, reveal)),
        None => room(house, world, world.room, true, reveal),
    };
    with_hand(house, world, seen)
}

/// The observation after [`super::world::Action::Look`]: the room, and what the agent holds.
pub(crate) fn look(house: &House, world: &World, reveal: bool) -> String {
    with_hand(house, world, room(house, world, world.room, true, reveal))
}

fn with_hand(house: &House, world: &World, seen: String) -> String {
    match world.held() {
        Some(it) => format!("{seen}; you hold {}", object(house, world, it)),
        None => seen,
    }
}

fn room(house: &House, world: &World, at: usize, in_sight: bool, reveal: bool) -> String {
    let places = (0..house.places.len()).filter(|&it| house.places[it].room == at);
    let places: Vec<String> = places.map(|it| place(house, world, it, in_sight, reveal)).collect();
    format!("{}. {}", house.rooms[at], places.join("; "))
}

/// `table: apple clean cup`, `shelf: nothing`, `drawer closed`, `sink`; only the name if it is not in sight.
fn place(house: &House, world: &World, at: usize, in_sight: bool, reveal: bool) -> String {
    let it = &house.places[at];
    if !it.kind.can_store() || !in_sight {
        return it.name.clone();
    }
    let is_open = world.is_open[at];
    let closed = if is_open { "" } else { " closed" };
    if !is_open && !reveal {
        return format!("{}{closed}", it.name);
    }
    let contents: Vec<String> = world.contents(at).map(|it| object(house, world, it)).collect();
    let contents = if contents.is_empty() { "nothing".to_owned() } else { contents.join(" ") };
    format!("{}{closed}: {contents}", it.name)
}

fn object(house: &House, world: &World, at: usize) -> String {
    let thing = &world.things[at];
    let clean = if thing.is_clean { "clean " } else { "" };
    let warmth = match thing.warmth {
        Warmth::Plain => "",
        Warmth::Hot => "hot ",
        Warmth::Cold => "cold ",
    };
    format!("{clean}{warmth}{}", house.objects[at])
}
