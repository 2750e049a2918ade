//! Games of every kind, explored and played by programs.

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

#[test]
fn without_steps_of_exploring_all_explorers_are_react() {
    for game in GAMES {
        let with = |explorer: Explorer| {
            let config = MappingConfig { explorer, explore_max: 0, ..config(game) };
            tasks(&config, 5, 8).1.iter().map(|task| play(&config, task).1).collect::<Vec<_>>()
        };
        let react = with(Explorer::Curious);
        assert!(react[0][0].lines().all(|line| !line.starts_with("rules") && !line.starts_with("layout")));
        assert_eq!(react, with(Explorer::Random));
        assert_eq!(react, with(Explorer::Policy));
    }
}

#[test]
fn exploring_leaves_no_trace_in_the_game() {
    for game in GAMES {
        let config = MappingConfig { explorer: Explorer::Policy, explore_max: 9, ..config(game) };
        for task in tasks(&config, 6, 20).1 {
            let truth = Truth::of(&task).unwrap();
            let (_, said) = play(&config, &task);
            let (_, start) = truth.told();
            // What is seen as the game begins is what was seen at first.
            let begins = said.iter().skip(1).find(|text| {
                text.lines().any(|line| {
                    line.starts_with("rules") || line.starts_with("layout") || line.starts_with("affordances")
                })
            });
            if let Some(text) = begins {
                assert_eq!(text.lines().last(), start.lines().last());
            }
        }
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
fn a_section_that_is_left_out_is_neither_shown_nor_known() {
    let all = config(GameKind::Grid);
    let without = MappingConfig { sections: vec![Section::Rules, Section::Affordances], ..all.clone() };
    let (_, with_all) = tasks(&all, 8, 10);
    let (_, with_two) = tasks(&without, 8, 10);
    for (one, other) in with_all.iter().zip(&with_two) {
        let kept = |task: &Task| -> Vec<String> {
            task.prompt[0]
                .content
                .lines()
                .filter(|line| !line.starts_with("layout"))
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(one.id, other.id);
        assert!(one.prompt[0].content.contains("\nlayout ") && !other.prompt[0].content.contains("layout"));
        assert_eq!(kept(one), kept(other));
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
        let global = explored.global(9).unwrap();
        let said = lines(&global, &MappingConfig { sections: vec![Section::Rules], ..explored.clone() });
        assert!(said.first().is_some_and(|said| said.starts_with(line)), "{game:?} {said:?}");
        let permuted = MappingConfig { permuted: true, global: 12, ..explored };
        assert_eq!(permuted.global(9).unwrap(), Facts::new(), "{game:?}");
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

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
