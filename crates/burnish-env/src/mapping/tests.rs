//! Games of every kind, explored and played by programs.

mod played;

use super::explore::Walk;
use super::*;
use crate::Step;
use burnish_core::Verdict;
use proptest::prelude::*;

fn config(game: GameKind) -> MappingConfig {
    MappingConfig { game, prompt: PromptStyle::Short, ..MappingConfig::default() }
}

const GAMES: [GameKind; 3] = [GameKind::Grid, GameKind::Craft, GameKind::Household];

fn tasks(config: &MappingConfig, seed: u64, count: usize) -> (Mapping, Vec<Task>) {
    let mapping = Mapping::new(config.clone()).unwrap();
    let set = mapping.tasks(seed, count).unwrap();
    (mapping, set.tasks)
}

/// A sensible agent plays: the verdict, and everything that was said.
fn play(config: &MappingConfig, task: &Task) -> (Verdict, Vec<String>) {
    let mut session = play::begin(&Truth::of(task).unwrap(), config);
    let mut said: Vec<String> = task.prompt.iter().map(|message| message.content.clone()).collect();
    while let Some(action) = session.next() {
        said.push(action.clone());
        match session.act(&action) {
            Some(text) => said.push(text),
            None => break,
        }
    }
    (session.verdict(), said)
}

fn rate(config: &MappingConfig, seed: u64, count: usize) -> f64 {
    let (_, tasks) = tasks(config, seed, count);
    let won = tasks.iter().filter(|task| play(config, task).0.success).count();
    won as f64 / count as f64
}

#[test]
fn everything_on_a_map_is_true_and_exploring_ends_in_time() {
    for game in GAMES {
        for explorer in [Explorer::Curious, Explorer::Random] {
            for explore_max in [0, 1, 7, 40] {
                let config = MappingConfig { explorer, explore_max, ..config(game) };
                for task in tasks(&config, 3, 12).1 {
                    let (verdict, _) = play(&config, &task);
                    assert_eq!(verdict.metrics["map_precision"], 1.0, "{game:?}");
                    assert!(verdict.metrics["explored"] <= explore_max as f64);
                    assert!(verdict.metrics["acted"] <= config.steps_max as f64);
                    let sum = verdict.metrics["explored"] + verdict.metrics["acted"];
                    assert_eq!(verdict.metrics["steps"], sum);
                }
            }
        }
    }
}

#[test]
fn more_exploring_finds_more_and_stops_when_it_is_dull() {
    for game in GAMES {
        let recall = |explore_max: usize| {
            let config = MappingConfig { explore_max, converged: 0.0, ..config(game) };
            let (_, tasks) = tasks(&config, 4, 20);
            tasks.iter().map(|task| play(&config, task).0.metrics["map_recall"]).sum::<f64>() / 20.0
        };
        let found = [0, 5, 20, 80].map(recall);
        assert!(found.is_sorted() && found[3] > found[0] + 0.2, "{game:?} {found:?}");
        let dull = MappingConfig { explore_max: 200, converged: 0.9, ..config(game) };
        let explored = |config: &MappingConfig| {
            let (_, tasks) = tasks(config, 4, 20);
            tasks.iter().map(|task| Truth::of(task).unwrap().explored.steps).sum::<usize>()
        };
        assert!(explored(&dull) < 200 * 20, "{game:?}");
    }
}

/// Pits end games and mixtures use things up: what a map saves cannot be had by more steps of the game.
#[test]
fn a_map_is_worth_more_than_the_same_number_of_further_steps() {
    for (game, gain) in [(GameKind::Grid, 0.1), (GameKind::Craft, 0.2)] {
        let budget = 60;
        let mapped = MappingConfig { explore_max: budget, converged: 0.0, ..config(game) };
        let react = MappingConfig { explore_max: 0, steps_max: mapped.steps_max + budget, ..config(game) };
        let (with, without) = (rate(&mapped, 7, 100), rate(&react, 7, 100));
        assert!(with > without + gain, "{game:?}: {with} against {without}");
    }
}

#[test]
fn what_is_true_in_all_games_is_known_before_exploring_and_only_where_there_is_such_a_thing() {
    for (game, line) in [(GameKind::Grid, "rules a up; b down; c left; d right"), (GameKind::Craft, "rules ")]
    {
        let fixed = MappingConfig { permuted: false, explore_max: 0, global: 4, ..config(game) };
        // Without steps nothing is found in training games either.
        assert!(!tasks(&fixed, 9, 1).1[0].prompt[0].content.contains("rules"));
        let explored =
            MappingConfig { explore_max: 60, converged: 0.0, sections: Vec::new(), ..fixed.clone() };
        let global = explored.global().unwrap();
        let said = lines(&global, &MappingConfig { sections: vec![Section::Rules], ..explored.clone() });
        assert!(said.first().is_some_and(|said| said.starts_with(line)), "{game:?} {said:?}");
        let permuted = MappingConfig { permuted: true, global: 12, ..explored };
        assert_eq!(permuted.global().unwrap(), Facts::new(), "{game:?}");
    }
}

#[test]
fn what_is_true_in_all_games_is_the_same_for_every_seed_of_tasks_and_of_none_of_their_games() {
    for game in [GameKind::Grid, GameKind::Craft] {
        // So few steps in one game find what that game makes easy, which is another thing in another game.
        let few =
            MappingConfig { permuted: false, explore_max: 5, converged: 0.0, global: 1, ..config(game) };
        let known = |seed: u64| -> Vec<Facts> {
            tasks(&few, seed, 3).1.iter().map(|task| Truth::of(task).unwrap().global).collect()
        };
        let first = known(0).swap_remove(0);
        assert!(!first.is_empty(), "{game:?}");
        for seed in 0..8 {
            assert_eq!(known(seed), vec![first.clone(); 3], "{game:?} {seed}");
        }
    }
    for game in GAMES {
        let config = MappingConfig { global: 6, ..config(game) };
        let explored: Vec<Game> = (0..6).map(|index| config.global_game(index).unwrap().0).collect();
        for seed in 0..4 {
            for task in tasks(&config, seed, 12).1 {
                assert!(!explored.contains(&Truth::of(&task).unwrap().game), "{game:?} {seed}");
            }
        }
    }
}

#[test]
fn a_policy_that_explores_gets_its_own_map() {
    let config = MappingConfig { explorer: Explorer::Policy, explore_max: 6, ..config(GameKind::Grid) };
    let (mapping, tasks) = tasks(&config, 10, 1);
    let mut environment = mapping.environment();
    environment.reset(&tasks[0], 0).unwrap();
    let said = |step: Step| match step {
        Step::Continue(messages) => messages[0].content.clone(),
        other => panic!("{other:?}"),
    };
    let first = said(environment.step(&Message::assistant("jump")).unwrap());
    assert_eq!(first, play::NOTHING);
    let moved = said(environment.step(&Message::assistant("a")).unwrap());
    let then = said(environment.step(&Message::assistant("done")).unwrap());
    assert!(then.contains("layout free "), "{then}");
    assert_eq!(then.contains("rules a "), moved != play::NOTHING, "{moved}: {then}");
    let verdict = environment.verify().unwrap();
    assert_eq!((verdict.metrics["explored"], verdict.metrics["acted"]), (2.0, 0.0));
    assert!(verdict.flags["out_of_steps"] && !verdict.success);
}

#[test]
fn contradictions_are_named() {
    let problem = |config: MappingConfig| Mapping::new(config).unwrap_err().to_string();
    let base = MappingConfig::default();
    let full = MappingConfig { grid: GridConfig { size: 2, walls: 2, pits: 1, distance: 1 }, ..base.clone() };
    assert!(problem(full).starts_with("grid.pits: 2 walls and 1 pits do not fit into 2 times 2 fields"));
    let nothing =
        MappingConfig { craft: CraftConfig { base: 4, things: 4, spare: 0, mixtures: 2 }, ..base.clone() };
    assert!(problem(nothing).starts_with("craft.things: 4 leaves nothing to make"));
    let far = MappingConfig { grid: GridConfig { size: 3, walls: 0, pits: 0, distance: 9 }, ..base };
    let error = Mapping::new(far).unwrap().tasks(0, 1).unwrap_err().to_string();
    assert!(error.starts_with("grid.distance: no such game in 5000 draws"), "{error}");
}

/// Walks at random through a game, and again from its start where it ends.
fn assert_a_walk_forgets_nothing_and_counts_visits<S: Site>(site: &S, config: &MappingConfig, seed: u64) {
    let mut stream = Stream::new(seed);
    let mut walk = Walk::new(site, Facts::new());
    let mut visited = vec![walk.state.clone()];
    for _ in 0..30 {
        let possible = site.actions(&walk.state);
        let action = possible[stream.index(possible.len())].clone();
        let (known, worth) = (walk.known.clone(), walk.curiosity());
        walk.act(site, config, &action);
        assert!(walk.known.is_superset(&known), "{action}");
        visited.push(walk.state.clone());
        let visits = visited.iter().filter(|state| **state == walk.state).count() as f64;
        let found = walk.curiosity() - worth;
        assert!((found - 1.0 / visits.sqrt()).abs() < 1e-9, "{action}: {found} at visit {visits}");
        if site.ending(&walk.state).is_some() {
            let known = walk.known.clone();
            walk.restart(site);
            assert_eq!(walk.known, known);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever is done in whichever game, what is known only grows, and with no worth of facts a step is worth one over the root
    /// of how often its state was there.
    #[test]
    fn what_is_known_only_grows_and_visits_are_counted(seed in 0_u64..1000, which in 0_usize..3) {
        let curiosity = Curiosity { facts: 0.0, states: 1.0 };
        let config = MappingConfig { curiosity, ..config(GAMES[which]) };
        match &Truth::of(&tasks(&config, seed, 1).1[0]).unwrap().game {
            Game::Grid(site) => assert_a_walk_forgets_nothing_and_counts_visits(site, &config, seed),
            Game::Craft(site) => assert_a_walk_forgets_nothing_and_counts_visits(site, &config, seed),
            Game::Household(site) => assert_a_walk_forgets_nothing_and_counts_visits(site, &config, seed),
        }
    }

    /// A program that explores for one step more takes the same steps before, and so knows all that it knew.
    #[test]
    fn a_step_more_of_exploring_loses_nothing(seed in 0_u64..1000, which in 0_usize..3, random in any::<bool>()) {
        let explorer = if random { Explorer::Random } else { Explorer::Curious };
        let explored = |explore_max: usize| {
            let config = MappingConfig { explorer, explore_max, converged: 0.0, ..config(GAMES[which]) };
            Truth::of(&tasks(&config, seed, 1).1[0]).unwrap().explored
        };
        let mut before = explored(0);
        prop_assert!(before.map.is_empty());
        for steps in 1..14 {
            let after = explored(steps);
            prop_assert_eq!(after.steps, steps);
            prop_assert!(after.map.is_superset(&before.map), "{:?} then {:?}", before.map, after.map);
            before = after;
        }
    }

    /// The same seed gives the same tasks, and a demonstration reaches the goal when it is played.
    #[test]
    fn demonstrations_reach_the_goal(seed in 0_u64..1000, which in 0_usize..3, own in any::<bool>()) {
        let explorer = if own { Explorer::Policy } else { Explorer::Curious };
        let config = MappingConfig { explorer, explore_max: 12, ..config(GAMES[which]) };
        let (mapping, made) = tasks(&config, seed, 2);
        prop_assert_eq!(&made, &tasks(&config, seed, 2).1);
        for task in &made {
            let Some(episode) = mapping.demonstrate_episode(task) else { continue };
            let mut environment = mapping.environment();
            environment.reset(task, 0).unwrap();
            let actions = episode[task.prompt.len()..].iter().filter(|it| it.role == burnish_core::Role::Assistant);
            for action in actions {
                environment.step(action).unwrap();
            }
            prop_assert!(environment.verify().unwrap().success);
        }
    }
}
