//! Episodes beside the game itself, played by its rules alone: without exploring, after it, and with parts of the map.

use super::*;

/// What `$do` gives for the site of a game, whichever game it is.
macro_rules! of_site {
    ($game:expr, $site:ident => $do:expr) => {
        match $game {
            Game::Grid($site) => $do,
            Game::Craft($site) => $do,
            Game::Household($site) => $do,
        }
    };
}

/// Steps of exploring, which ends no sooner because it is dull.
const EXPLORE_MAX: usize = 14;

/// A configuration in which nothing but `explore_max` ends exploring, and in which there is time for every way to the goal.
fn exploring(game: GameKind, explorer: Explorer, explore_max: usize) -> MappingConfig {
    MappingConfig { explorer, explore_max, converged: 0.0, steps_max: 40, ..config(game) }
}

/// An action that does nothing, and then `count` in all that do something, or as many as there are until the game ends.
fn wandered(game: &Game, seed: u64, count: usize) -> Vec<String> {
    fn of<S: Site>(site: &S, seed: u64, count: usize) -> Vec<String> {
        let (mut stream, mut state) = (Stream::new(seed), site.start());
        let mut actions = vec!["jump".to_owned()];
        while actions.len() < count && site.ending(&state).is_none() {
            let possible = site.actions(&state);
            let action = possible[stream.index(possible.len())].clone();
            state = site.after(&state, &action).unwrap_or(state);
            actions.push(action);
        }
        actions
    }
    of_site!(game, site => of(site, seed, count))
}

/// `count` actions of somebody who explores: walks from the start, one after the other.
fn explored(game: &Game, seed: u64, count: usize) -> Vec<String> {
    let mut actions = Vec::new();
    for walk in 0.. {
        if actions.len() == count {
            break;
        }
        actions.extend(wandered(game, seed + walk, count - actions.len()));
    }
    actions
}

/// The actions of somebody who knows everything.
fn way(game: &Game) -> Vec<String> {
    fn of<S: Site>(site: &S) -> Vec<String> {
        let (known, mut state, mut actions) = (site.truth(), site.start(), Vec::new());
        while site.ending(&state).is_none() {
            let action = site.next(&known, &state).unwrap();
            state = site.after(&state, &action).unwrap();
            actions.push(action);
        }
        actions
    }
    of_site!(game, site => of(site))
}

/// The first sight of a game, and what is seen after each action until it ends: by its rules alone.
fn plain(game: &Game, actions: &[String]) -> Vec<String> {
    fn of<S: Site>(site: &S, actions: &[String]) -> Vec<String> {
        let mut state = site.start();
        let mut seen = vec![site.see(&state)];
        for action in actions {
            let after = site.after(&state, action);
            let happened = after.is_some();
            state = after.unwrap_or(state);
            if site.ending(&state).is_some() {
                break;
            }
            seen.push(if happened { site.see(&state) } else { play::NOTHING.to_owned() });
        }
        seen
    }
    of_site!(game, site => of(site, actions))
}

/// Plays actions until the episode is over: what is said after each of them, and the verdict.
fn heard(mapping: &Mapping, task: &Task, actions: &[String]) -> (Vec<String>, Verdict) {
    let mut environment = mapping.environment();
    environment.reset(task, 0).unwrap();
    let mut said = Vec::new();
    for action in actions {
        match environment.step(&Message::assistant(action)).unwrap() {
            Step::Continue(messages) => said.extend(messages.into_iter().map(|message| message.content)),
            _ => break,
        }
    }
    (said, environment.verify().unwrap())
}

/// Whether a line is one of a map.
fn is_of_map(line: &str) -> bool {
    Section::ALL.iter().any(|section| line.starts_with(&format!("{} ", section.name())))
}

fn without_map(text: &str) -> String {
    text.lines().filter(|line| !is_of_map(line)).collect::<Vec<_>>().join("\n")
}

/// All that a task shows before the first action.
fn prompt(task: &Task) -> String {
    task.prompt.iter().map(|message| message.content.as_str()).collect::<Vec<_>>().join("\n")
}

#[test]
fn without_exploring_every_explorer_plays_the_game_itself_and_has_no_map() {
    for game in GAMES {
        for style in [PromptStyle::Short, PromptStyle::Full] {
            let with = |explorer: Explorer| {
                tasks(&MappingConfig { prompt: style, ..exploring(game, explorer, 0) }, 5, 8)
            };
            let first = with(Explorer::Curious).1;
            for explorer in [Explorer::Curious, Explorer::Random, Explorer::Policy] {
                let (mapping, made) = with(explorer);
                // Tasks are the same to the last letter, and so are the rules that precede them.
                assert_eq!(made, first, "{game:?} {explorer:?}");
                for (seed, task) in (0..).zip(&made) {
                    let truth = Truth::of(task).unwrap();
                    let (told, sight) = truth.told();
                    assert_eq!(task.prompt.last().unwrap().content, format!("{told}\n{sight}"));
                    assert!(!prompt(task).lines().any(is_of_map), "{}", prompt(task));
                    for actions in [way(&truth.game), wandered(&truth.game, seed, 20)] {
                        let (said, verdict) = heard(&mapping, task, &actions);
                        let seen = plain(&truth.game, &actions);
                        assert_eq!((&sight, &said[..]), (&seen[0], &seen[1..]), "{game:?} {explorer:?}");
                        assert!(!said.iter().any(|said| said.lines().any(is_of_map)));
                        assert_eq!(
                            (verdict.metrics["explored"], verdict.flags["reached_exploring"]),
                            (0.0, false)
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_goal_that_is_reached_while_exploring_does_not_count() {
    for game in GAMES {
        let (mapping, made) = tasks(&exploring(game, Explorer::Policy, 40), 11, 6);
        for task in &made {
            let truth = Truth::of(task).unwrap();
            let (found, sight) = (way(&truth.game), truth.told().1);
            let of_verdict = |actions: &[String]| {
                let (_, verdict) = heard(&mapping, task, actions);
                let Verdict { rewards, flags, metrics, .. } = &verdict;
                let steps = [metrics["explored"] as usize, metrics["acted"] as usize];
                (verdict.success, rewards["success"], flags["reached_exploring"], steps)
            };
            let (said, _) = heard(&mapping, task, &found);
            let last = said.last().unwrap();
            assert!(last.ends_with(&format!("\ngoal reached; again\n{sight}")), "{game:?}: {last}");
            let (steps, done) = (found.len(), [DONE.to_owned()]);
            // While it still explores, when the game has begun, and when it goes there again, which counts.
            assert_eq!(of_verdict(&found), (false, 0.0, true, [steps, 0]), "{game:?}");
            let begun = [&found[..], &done].concat();
            assert_eq!(of_verdict(&begun), (false, 0.0, true, [steps, 0]), "{game:?}");
            let again = [&begun[..], &found].concat();
            assert_eq!(of_verdict(&again), (true, 1.0, true, [steps, steps]), "{game:?}");
            // Whoever reaches it in the game alone has not reached it before.
            let alone = [&done[..], &found].concat();
            assert_eq!(of_verdict(&alone), (true, 1.0, false, [0, steps]), "{game:?}");
        }
    }
}

#[test]
fn a_goal_that_a_program_reaches_while_exploring_does_not_count_either() {
    let (mapping, made) = tasks(&exploring(GameKind::Grid, Explorer::Curious, 60), 12, 12);
    let mut reached = 0;
    for task in &made {
        let (_, verdict) = heard(&mapping, task, &[]);
        let has_reached = Truth::of(task).unwrap().explored.reached;
        assert_eq!(verdict.flags["reached_exploring"], has_reached);
        assert!(!verdict.success && verdict.rewards["success"] == 0.0);
        reached += usize::from(has_reached);
    }
    assert!(reached > 0);
}

#[test]
fn a_section_that_is_left_out_is_all_that_is_missing() {
    // What is shown by the prompt or, if the policy explores, when the game begins.
    let shown = |config: &MappingConfig| -> Vec<String> {
        let (mapping, made) = tasks(config, 8, 10);
        let shown = |(seed, task): (u64, &Task)| {
            if config.explorer != Explorer::Policy {
                return prompt(task);
            }
            let mut actions = explored(&Truth::of(task).unwrap().game, seed, 25);
            actions.push(DONE.to_owned());
            heard(&mapping, task, &actions).0.pop().unwrap()
        };
        (0..).zip(&made).map(shown).collect()
    };
    for game in GAMES {
        for explorer in [Explorer::Curious, Explorer::Policy] {
            let all = exploring(game, explorer, 30);
            let with_all = shown(&all);
            for left_out in Section::ALL {
                let sections = Section::ALL.into_iter().filter(|section| *section != left_out).collect();
                let with_two = shown(&MappingConfig { sections, ..all.clone() });
                let is_left_out = |line: &&str| line.starts_with(&format!("{} ", left_out.name()));
                let mut missing = 0;
                for (one, other) in with_all.iter().zip(&with_two) {
                    let kept: Vec<&str> = one.lines().filter(|line| !is_left_out(line)).collect();
                    assert_eq!(kept, other.lines().collect::<Vec<_>>(), "{game:?} {explorer:?} {left_out:?}");
                    missing += one.lines().count() - kept.len();
                }
                // Nothing is missing only where a game has no such section.
                let has_it = match game {
                    GameKind::Grid => true,
                    GameKind::Craft => left_out == Section::Rules,
                    GameKind::Household => left_out == Section::Layout,
                };
                assert_eq!(missing > 0, has_it, "{game:?} {explorer:?} {left_out:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever a policy or a program did while it explored, the game begins as it would have without, and goes on so.
    #[test]
    fn after_any_exploring_the_game_is_that_of_somebody_who_has_not_explored(
        seed in 0_u64..1000, which in 0_usize..3, steps in 0..=EXPLORE_MAX,
    ) {
        let game = GAMES[which];
        let (plainly, unexplored) = tasks(&exploring(game, Explorer::Curious, 0), seed, 1);
        let truth = Truth::of(&unexplored[0]).unwrap();
        for fixed in [way(&truth.game), wandered(&truth.game, seed + 500, 20)] {
            let seen = plain(&truth.game, &fixed);
            let (said, without) = heard(&plainly, &unexplored[0], &fixed);
            prop_assert_eq!(&said[..], &seen[1..]);
            let result = |verdict: &Verdict| {
                let flags = ["lost", "invalid", "out_of_steps"].map(|flag| verdict.flags[flag]);
                (verdict.success, verdict.rewards.clone(), flags, verdict.metrics["acted"])
            };
            for explorer in [Explorer::Curious, Explorer::Random] {
                let (mapping, made) = tasks(&exploring(game, explorer, EXPLORE_MAX), seed, 1);
                prop_assert_eq!(without_map(&prompt(&made[0])), prompt(&unexplored[0]));
                let (said, verdict) = heard(&mapping, &made[0], &fixed);
                prop_assert_eq!(&said[..], &seen[1..]);
                prop_assert_eq!(result(&verdict), result(&without));
                prop_assert_eq!(verdict.metrics["explored"], EXPLORE_MAX as f64);
            }
            let (mapping, made) = tasks(&exploring(game, Explorer::Policy, EXPLORE_MAX), seed, 1);
            prop_assert_eq!(prompt(&made[0]), prompt(&unexplored[0]));
            let mut actions = explored(&truth.game, seed, steps);
            // The last step of exploring begins the game by itself.
            actions.extend((steps < EXPLORE_MAX).then(|| DONE.to_owned()));
            let begun = actions.len();
            actions.extend(fixed);
            let (said, verdict) = heard(&mapping, &made[0], &actions);
            let opening = without_map(&said[begun - 1]);
            prop_assert_eq!(opening.lines().last(), Some(seen[0].as_str()));
            prop_assert!(steps == EXPLORE_MAX || opening == seen[0], "{}", opening);
            prop_assert_eq!(&said[begun..], &seen[1..]);
            prop_assert_eq!(result(&verdict), result(&without));
            prop_assert_eq!(verdict.metrics["explored"], steps as f64);
        }
    }
}
