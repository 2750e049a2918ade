//! The goal of a task, and how far the world is from it.

use serde::{Deserialize, Serialize};

use super::world::{House, PlaceKind, Warmth, World};

/// The six types of task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskType {
    Pick,
    Clean,
    Heat,
    Cool,
    Examine,
    Two,
}

impl TaskType {
    /// In the order of the configuration's keys.
    pub(crate) const ALL: [TaskType; 6] =
        [TaskType::Pick, TaskType::Clean, TaskType::Heat, TaskType::Cool, TaskType::Examine, TaskType::Two];

    /// Its key in the configuration and its label.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TaskType::Pick => "pick",
            TaskType::Clean => "clean",
            TaskType::Heat => "heat",
            TaskType::Cool => "cool",
            TaskType::Examine => "examine",
            TaskType::Two => "two",
        }
    }

    /// The appliance that it needs.
    pub(crate) fn appliance(self) -> Option<PlaceKind> {
        match self {
            TaskType::Clean => Some(PlaceKind::Sink),
            TaskType::Heat => Some(PlaceKind::Stove),
            TaskType::Cool => Some(PlaceKind::Fridge),
            TaskType::Examine => Some(PlaceKind::Lamp),
            TaskType::Pick | TaskType::Two => None,
        }
    }
}

/// The goal. Numbers are indices into the house.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Goal {
    #[serde(rename = "type")]
    pub(crate) kind: TaskType,
    /// One object; two for [`TaskType::Two`].
    pub(crate) objects: Vec<usize>,
    /// Where to put them; `None` for [`TaskType::Examine`].
    pub(crate) place: Option<usize>,
}

impl Goal {
    /// Is it a valid goal in this house?
    pub(crate) fn fits(&self, house: &House) -> bool {
        let wanted = if self.kind == TaskType::Two { 2 } else { 1 };
        self.objects.len() == wanted
            && self.objects.iter().all(|&it| it < house.objects.len())
            && (self.place.is_none() == (self.kind == TaskType::Examine))
            && self.place.is_none_or(|to| house.places.get(to).is_some_and(|place| place.kind.can_store()))
    }

    /// Is it done?
    pub(crate) fn is_reached(&self, world: &World) -> bool {
        self.objects.iter().all(|&it| {
            let thing = &world.things[it];
            let is_placed = self.place.is_some() && thing.place == self.place;
            match self.kind {
                TaskType::Pick | TaskType::Two => is_placed,
                TaskType::Clean => is_placed && thing.is_clean,
                TaskType::Heat => is_placed && thing.warmth == Warmth::Hot,
                TaskType::Cool => is_placed && thing.warmth == Warmth::Cold,
                TaskType::Examine => thing.is_examined,
            }
        })
    }

    /// The sub-goals in order, each with whether the world meets it now. Holding an object is one of them, so the
    /// caller must remember which were ever met.
    pub(crate) fn sub_goals(&self, house: &House, world: &World) -> Vec<(String, bool)> {
        let mut all = Vec::new();
        for &it in &self.objects {
            let (name, thing) = (&house.objects[it], &world.things[it]);
            all.push((format!("take {name}"), thing.place.is_none()));
            match self.kind {
                TaskType::Pick | TaskType::Two => {}
                TaskType::Clean => all.push((format!("clean {name}"), thing.is_clean)),
                TaskType::Heat => all.push((format!("heat {name}"), thing.warmth == Warmth::Hot)),
                TaskType::Cool => all.push((format!("cool {name}"), thing.warmth == Warmth::Cold)),
                TaskType::Examine => all.push((format!("examine {name}"), thing.is_examined)),
            }
            if let Some(to) = self.place {
                let alone = Goal { objects: vec![it], ..self.clone() };
                all.push((format!("put {name} {}", house.places[to].name), alone.is_reached(world)));
            }
        }
        all
    }

    /// The text of the goal.
    pub(crate) fn text(&self, house: &House) -> String {
        let names: Vec<&str> = self.objects.iter().map(|&it| house.objects[it].as_str()).collect();
        let adjective = match self.kind {
            TaskType::Clean => "clean ",
            TaskType::Heat => "hot ",
            TaskType::Cool => "cold ",
            TaskType::Pick | TaskType::Examine | TaskType::Two => "",
        };
        let what = format!("{adjective}{}", names.join(" and "));
        match self.place {
            Some(to) => format!("put {what} {}", at(house, to)),
            None => format!("examine {what} under lamp"),
        }
    }
}

/// `on table`, `in drawer`.
pub(crate) fn at(house: &House, place: usize) -> String {
    let place = &house.places[place];
    format!("{} {}", if place.kind.has_door() { "in" } else { "on" }, place.name)
}
