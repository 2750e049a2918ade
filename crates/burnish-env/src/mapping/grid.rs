//! A grid whose actions move in directions that have to be found out, with walls and pits that are not seen.

use std::collections::{BTreeMap, BTreeSet};

use burnish_core::rng::Stream;
use serde::{Deserialize, Serialize};

use super::config::GridConfig;
use super::site::{Ending, Fact, Facts, Site};

/// Names of actions and of directions, in the order of [`STEPS`] where actions mean what they always mean.
pub(super) const ACTIONS: [&str; 4] = ["a", "b", "c", "d"];
const DIRECTIONS: [&str; 4] = ["up", "down", "left", "right"];
const STEPS: [(i32, i32); 4] = [(0, -1), (0, 1), (-1, 0), (1, 0)];

/// What a step on a field costs a sensible agent that does not know it, where one that it knows costs 1.
const UNKNOWN_COST: u32 = 3;

type Field = (u16, u16);

/// What a way to a field costs, and the field and the action by which it comes there.
type Reached<'a> = (u32, Option<(Field, &'a String)>);

/// A game on a grid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Grid {
    size: u16,
    /// For each action, the index of its direction.
    moves: [usize; 4],
    walls: BTreeSet<Field>,
    pits: BTreeSet<Field>,
    start: Field,
    goal: Field,
}

impl Grid {
    /// Draws a game that can be won; `None` if this draw can't.
    pub(super) fn draw(config: &GridConfig, permuted: bool, stream: &mut Stream) -> Option<Grid> {
        let size = config.size;
        let mut fields: Vec<Field> = (0..size).flat_map(|y| (0..size).map(move |x| (x, y))).collect();
        stream.shuffle(&mut fields);
        let mut fields = fields.into_iter();
        let (start, goal) = (fields.next()?, fields.next()?);
        let walls = fields.by_ref().take(config.walls).collect();
        let pits = fields.by_ref().take(config.pits).collect();
        let mut moves = [0, 1, 2, 3];
        if permuted {
            stream.shuffle(&mut moves);
        }
        let grid = Grid { size, moves, walls, pits, start, goal };
        let way = grid.way(&grid.truth(), start)?;
        (way.len() >= config.distance).then_some(grid)
    }

    fn step(&self, (x, y): Field, direction: usize) -> Option<Field> {
        let (dx, dy) = STEPS.get(direction)?;
        let inside = |at: i32| u16::try_from(at).ok().filter(|at| *at < self.size);
        Some((inside(i32::from(x) + dx)?, inside(i32::from(y) + dy)?))
    }

    /// The actions of a cheapest way to the goal, over fields that are not known to be walls or pits and with actions whose
    /// direction is known.
    fn way(&self, known: &Facts, from: Field) -> Option<Vec<String>> {
        let moves: Vec<(&String, usize)> = known
            .iter()
            .filter_map(|fact| match fact {
                Fact::Moves(action, direction) => {
                    Some((action, DIRECTIONS.iter().position(|name| name == direction)?))
                }
                _ => None,
            })
            .collect();
        let mut best: BTreeMap<Field, Reached<'_>> = BTreeMap::from([(from, (0, None))]);
        let mut open = BTreeSet::from([(0, from)]);
        while let Some((cost, at)) = open.pop_first() {
            if at == self.goal {
                let mut actions = Vec::new();
                let mut place = at;
                while let Some((before, action)) = best.get(&place).and_then(|(_, came)| *came) {
                    actions.push(action.clone());
                    place = before;
                }
                actions.reverse();
                return Some(actions);
            }
            for (action, direction) in &moves {
                let Some(next) = self.step(at, *direction) else { continue };
                if known.contains(&Fact::Wall(next.0, next.1)) || known.contains(&Fact::Pit(next.0, next.1)) {
                    continue;
                }
                let is_known = next == self.goal || known.contains(&Fact::Free(next.0, next.1));
                let total = cost + if is_known { 1 } else { UNKNOWN_COST };
                if best.get(&next).is_none_or(|(least, _)| total < *least) {
                    best.insert(next, (total, Some((at, action))));
                    open.insert((total, next));
                }
            }
        }
        None
    }
}

/// The direction that an action is known to move in.
fn direction_of(known: &Facts, action: &str) -> Option<usize> {
    known.iter().find_map(|fact| match fact {
        Fact::Moves(name, direction) if name == action => DIRECTIONS.iter().position(|it| it == direction),
        _ => None,
    })
}

impl Site for Grid {
    type State = Field;

    fn start(&self) -> Field {
        self.start
    }

    fn told(&self) -> String {
        format!("size {}\ngoal {} {}", self.size, self.goal.0, self.goal.1)
    }

    fn actions(&self, _: &Field) -> Vec<String> {
        ACTIONS.map(str::to_owned).to_vec()
    }

    fn after(&self, state: &Field, action: &str) -> Option<Field> {
        let at = ACTIONS.iter().position(|name| *name == action)?;
        self.step(*state, self.moves[at]).filter(|next| !self.walls.contains(next))
    }

    fn see(&self, state: &Field) -> String {
        format!("at {} {}", state.0, state.1)
    }

    fn ending(&self, state: &Field) -> Option<Ending> {
        match state {
            state if *state == self.goal => Some(Ending::Reached),
            state if self.pits.contains(state) => Some(Ending::Lost),
            _ => None,
        }
    }

    fn noticed(&self, state: &Field) -> Vec<Fact> {
        let (x, y) = *state;
        vec![if self.pits.contains(state) { Fact::Pit(x, y) } else { Fact::Free(x, y) }]
    }

    fn learned(&self, known: &Facts, before: &Field, action: &str, after: Option<&Field>) -> Vec<Fact> {
        let Some(after) = after else {
            // Who knows where the action leads knows what it ran into.
            let blocked = direction_of(known, action).and_then(|direction| self.step(*before, direction));
            return blocked.map(|(x, y)| Fact::Wall(x, y)).into_iter().collect();
        };
        let moved = (0..4).find(|direction| self.step(*before, *direction) == Some(*after));
        moved.map(|at| Fact::Moves(action.to_owned(), DIRECTIONS[at].to_owned())).into_iter().collect()
    }

    fn truth(&self) -> Facts {
        let fields = (0..self.size).flat_map(|y| (0..self.size).map(move |x| (x, y)));
        let fields = fields.map(|(x, y)| match (x, y) {
            field if self.walls.contains(&field) => Fact::Wall(x, y),
            field if self.pits.contains(&field) => Fact::Pit(x, y),
            _ => Fact::Free(x, y),
        });
        let moves = ACTIONS.iter().zip(self.moves);
        let moves = moves.map(|(name, at)| Fact::Moves((*name).to_owned(), DIRECTIONS[at].to_owned()));
        fields.chain(moves).collect()
    }

    fn next(&self, known: &Facts, state: &Field) -> Option<String> {
        let way = self.way(known, *state).and_then(|way| way.into_iter().next());
        way.or_else(|| {
            let unknown = ACTIONS.iter().find(|action| direction_of(known, action).is_none());
            unknown.map(|action| (*action).to_owned())
        })
    }
}
