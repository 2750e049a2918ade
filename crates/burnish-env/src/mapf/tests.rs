//! Properties of the whole environment: search compared with joint search, verifier with a second simulator, task sets
//! with their configuration.

use super::board::tests::{board, cells};
use super::cbs::search;
use super::propose::Frame;
use super::*;
use crate::Step;
use burnish_core::rng::Stream;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeSet;

const NODES: usize = 4000;
const STATES: usize = 1_000_000;

/// A board by any of the three ways of drawing one.
fn drawn(size: usize, holes: usize, agents: usize, seed: u64) -> Option<Board> {
    let frame = Frame { size, holes, agents };
    let mut stream = Stream::new(seed);
    match stream.below(3) {
        0 => frame.random(&mut stream),
        1 => frame.crossing(&mut stream),
        _ => frame.corridor(&mut stream),
    }
}

fn generator(config: serde_json::Value) -> Mapf {
    Mapf::new(MapfConfig::read(&config).unwrap()).unwrap()
}

mod search_against_joint_search {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1500))]
        #[test]
        fn cost_solvability_and_need_of_a_wait_agree(
            (size, agents) in prop_oneof![(2usize..=5, Just(2usize)), (2usize..=3, Just(3))],
            hole_share in 0.0f64..0.5,
            seed: u64,
        ) {
            let holes = (hole_share * (size * size) as f64) as usize;
            let Some(board) = drawn(size, holes, agents, seed) else { return Ok(()) };
            check(&board)?;
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn they_agree_for_three_agents_on_4x4(holes in 2usize..8, seed: u64) {
            let Some(board) = drawn(4, holes, 3, seed) else { return Ok(()) };
            check(&board)?;
        }
    }

    fn check(board: &Board) -> Result<(), TestCaseError> {
        let best = optimum(board, true, STATES);
        let best_without_wait = optimum(board, false, STATES);
        prop_assert!(best != Optimum::TooLarge && best_without_wait != Optimum::TooLarge);
        match analyse(board, NODES) {
            Err(Outcome::Unsolvable) => prop_assert_eq!(best, Optimum::Unsolvable),
            // The search grows exponentially with the cost added by conflicts; only then may it give up.
            Err(_) => {
                let is_far = matches!(best, Optimum::Cost(cost) if cost > lower_bound(board) + 5);
                prop_assert!(is_far, "{best:?} for {board:?}");
            }
            Ok(solution) => {
                prop_assert_eq!(Optimum::Cost(solution.cost), best);
                prop_assert_eq!(solution.needs_wait, best != best_without_wait);
                let trial = simulate(board, &solution.plan);
                prop_assert_eq!(trial.cost, Some(solution.cost), "{:?}", trial.first_problem);
                let waits = solution.plan.iter().flatten().any(|&step| step == Move::Wait);
                prop_assert_eq!(waits, solution.needs_wait);
            }
        }
        Ok(())
    }

    /// The cost if the agents did not hinder each other.
    fn lower_bound(board: &Board) -> usize {
        let grid = grid::Grid::of(board);
        let [starts, goals] = [board.starts(), board.goals()].map(|cells| grid::indices(cells, board.size()));
        let each = starts.iter().zip(goals).map(|(&start, goal)| grid.distances(goal)[usize::from(start)]);
        each.map(usize::from).sum()
    }

    #[test]
    fn an_agent_that_must_leave_its_goal_again_is_planned_for() {
        // A is already at its goal, in the middle of B's only way, and can only step up.
        let board = board(3, "00 02 20 21 22", "11 10", "11 12");
        let Outcome::Optimal { paths, cost } = solve(&board, NODES) else { panic!("unsolved") };
        assert_eq!(Optimum::Cost(cost), optimum(&board, true, STATES));
        assert_eq!((cost, &paths[0]), (4, &cells("11 01 11")));
    }

    #[test]
    fn an_unsolvable_board_and_a_spent_budget_are_told_apart() {
        let swap_in_a_tube = board(3, "00 01 02 20 21 22", "10 12", "12 10");
        assert_eq!(solve(&swap_in_a_tube, NODES), Outcome::Unsolvable);
        let crossing = board(3, "", "10 01", "12 21");
        assert_eq!(solve(&crossing, 0), Outcome::Budget);
        assert!(matches!(solve(&crossing, NODES), Outcome::Optimal { cost: 5, .. }));
    }

    #[test]
    fn a_corridor_with_a_pocket_needs_a_wait_by_the_exact_test() {
        // One row with a pocket above its middle: A steps aside at once, then must wait for B, which comes from further
        // away.
        let corridor = board(5, &row_walls("12"), "22 24", "24 20");
        for board in [corridor, board(3, "", "10 01", "12 21")] {
            let with = optimum(&board, true, STATES);
            let without = optimum(&board, false, STATES);
            assert!(with != without && with != Optimum::Unsolvable, "{with:?} {without:?}");
            let solution = analyse(&board, NODES).unwrap();
            assert!(solution.needs_wait);
            assert_ne!(search(&board, true, solution.cost, NODES), Outcome::Unsolvable);
            assert_eq!(search(&board, false, solution.cost, NODES), Outcome::Unsolvable);
        }
    }

    /// Holes around row 2 of a 5x5 board, except at `pocket`.
    fn row_walls(pocket: &str) -> String {
        let walls =
            cells("10 11 12 13 14 30 31 32 33 34").into_iter().filter(|cell| cell.to_string() != pocket);
        walls.map(|cell| cell.to_string()).collect::<Vec<_>>().join(" ")
    }
}

mod verifier_against_a_second_simulator {
    use super::*;

    /// The expected flags, computed from each agent's whole walk, in plain coordinates.
    fn second_opinion(board: &Board, plan: &Plan) -> [bool; 5] {
        let side = board.size() as i32;
        let time = plan.iter().map(Vec::len).max().unwrap_or(0);
        let mut off_board = false;
        let walks: Vec<Vec<(i32, i32)>> = (0..board.agents())
            .map(|agent| {
                let mut here = (i32::from(board.starts()[agent].row), i32::from(board.starts()[agent].col));
                let mut walk = vec![here];
                for step in &plan[agent] {
                    let (down, right) = match step.word() {
                        "UP" => (-1, 0),
                        "DOWN" => (1, 0),
                        "LEFT" => (0, -1),
                        "RIGHT" => (0, 1),
                        _ => (0, 0),
                    };
                    let there = (here.0 + down, here.1 + right);
                    if there.0.min(there.1) < 0 || there.0.max(there.1) >= side {
                        off_board = true;
                    } else {
                        here = there;
                    }
                    walk.push(here);
                }
                walk.resize(time + 1, here);
                walk
            })
            .collect();
        let holes: BTreeSet<(i32, i32)> =
            board.holes().iter().map(|cell| (i32::from(cell.row), i32::from(cell.col))).collect();
        let in_hole = walks.iter().flatten().any(|at| holes.contains(at));
        let shared = (0..=time)
            .any(|t| walks.iter().map(|walk| walk[t]).collect::<BTreeSet<_>>().len() < board.agents());
        let swapped = (0..time).any(|t| {
            let arrows: BTreeSet<_> = walks.iter().map(|walk| (walk[t], walk[t + 1])).collect();
            arrows.iter().any(|&(from, to)| from != to && arrows.contains(&(to, from)))
        });
        let home = walks
            .iter()
            .zip(board.goals())
            .all(|(walk, goal)| walk.last() == Some(&(i32::from(goal.row), i32::from(goal.col))));
        [off_board, in_hole, shared, swapped, home]
    }

    /// The optimal plan with a few changes, or a random one.
    fn disturbed(mut plan: Plan, stream: &mut Stream) -> Plan {
        for _ in 0..stream.below(4) {
            let agent = stream.index(plan.len());
            let moves = &mut plan[agent];
            let place = stream.index(moves.len() + 1);
            let step = Move::ALL[stream.index(5)];
            match stream.below(5) {
                0 => moves.insert(place, Move::Wait),
                1 => moves.insert(place, step),
                2 if place < moves.len() => moves[place] = step,
                3 => moves.truncate(place),
                _ => *moves = (0..stream.below(8)).map(|_| Move::ALL[stream.index(5)]).collect(),
            }
        }
        plan
    }

    #[test]
    fn flags_agree_on_disturbed_and_random_plans_and_every_flag_occurs() {
        let mut seen = [[0; 2]; 6];
        for seed in 0..6000 {
            let mut stream = Stream::new(seed);
            let (size, agents) = (2 + stream.index(4), 2 + stream.index(3));
            let holes = stream.index(size * size / 2);
            let Some(board) = drawn(size, holes, agents, seed) else { continue };
            let Ok(solution) = analyse(&board, 200) else { continue };
            let plan = disturbed(solution.plan, &mut stream);
            let wanted = second_opinion(&board, &plan);
            let trial = simulate(&board, &plan);
            let found = [
                trial.has_illegal_moves,
                trial.hole_collision,
                trial.vertex_conflict,
                trial.edge_conflict,
                trial.all_goals_reached,
            ];
            assert_eq!(found, wanted, "seed {seed}: {board:?} {plan:?}");
            assert_eq!(trial.is_valid(), wanted == [false, false, false, false, true], "seed {seed}");
            assert_eq!(trial.cost.is_some(), trial.is_valid());
            assert!(trial.cost.is_none_or(|cost| cost >= solution.cost), "seed {seed}: cheaper than optimal");
            for (seen, flag) in seen.iter_mut().zip(found.into_iter().chain([trial.is_valid()])) {
                seen[usize::from(flag)] += 1;
            }
        }
        assert!(seen.iter().flatten().all(|&count| count > 100), "{seen:?}");
    }

    #[test]
    fn adversarial_plans_get_exactly_the_flags_that_they_deserve() {
        let row = board(3, "", "00 02", "02 00");
        let crossing = board(3, "", "10 01", "12 11");
        let follow = board(3, "", "00 01", "01 02");
        for (name, board, answer, flags) in [
            ("swap", &row, "A: RIGHT RIGHT\nB: WAIT LEFT LEFT", "edge_conflict all_goals_reached"),
            ("meet", &row, "A: RIGHT RIGHT\nB: LEFT LEFT", "vertex_conflict all_goals_reached"),
            ("pass by", &row, "A: RIGHT RIGHT\nB: DOWN LEFT LEFT UP", "all_goals_reached valid optimal"),
            ("detour", &row, "A: RIGHT RIGHT\nB: DOWN DOWN LEFT LEFT UP UP", "all_goals_reached valid"),
            (
                "one wait too many",
                &row,
                "A: WAIT RIGHT RIGHT\nB: DOWN LEFT LEFT UP",
                "all_goals_reached valid",
            ),
            ("follow", &follow, "A: RIGHT\nB: RIGHT", "all_goals_reached valid optimal"),
            ("goal-sitting", &crossing, "A: WAIT RIGHT RIGHT\nB: DOWN", "vertex_conflict all_goals_reached"),
            (
                "through a parked agent",
                &crossing,
                "A: WAIT WAIT WAIT RIGHT RIGHT\nB: DOWN",
                "vertex_conflict all_goals_reached",
            ),
            ("give way first", &crossing, "A: RIGHT RIGHT\nB: WAIT DOWN", "all_goals_reached valid optimal"),
            ("stay home", &row, "A:\nB:", ""),
            ("prose", &row, "I would go right.", "parse_error"),
        ] {
            let Solution { plan, cost, .. } = analyse(board, NODES).unwrap();
            let truth = Truth { board: board.clone(), cost, plan };
            let (verdict, _) = play::judge(&truth, &RewardConfig::default(), answer);
            let set: BTreeSet<&str> =
                verdict.flags.iter().filter(|(_, set)| **set).map(|(flag, _)| flag.as_str()).collect();
            assert_eq!(set, flags.split_whitespace().collect(), "{name}: {:?}", verdict.feedback);
            assert_eq!(verdict.flags.len(), 8);
            let worth = if set.contains("optimal") {
                1.0
            } else if set.contains("valid") {
                0.5
            } else {
                0.0
            };
            assert_eq!(verdict.rewards["plan"], worth, "{name}");
            assert_eq!(verdict.success, set.contains("valid"), "{name}");
            assert_eq!(verdict.error_turn, (worth == 0.0).then_some(0), "{name}");
            assert_eq!(verdict.feedback.is_none(), worth == 1.0, "{name}");
        }
    }
}

mod task_sets {
    use super::*;

    const SEED: u64 = 11;

    fn mixed() -> serde_json::Value {
        json!({"sizes": {
            "3": {"share": 1, "hole_ratio": 0.2, "wait_ratio": 0.25},
            "4": {"share": 0.5, "hole_ratio": 0.3, "wait_ratio": 0.5},
            "5": {"share": 0.5, "hole_ratio": 0.0, "wait_ratio": 0.75},
        }})
    }

    #[test]
    fn the_same_configuration_seed_and_count_give_the_same_bytes() {
        let bytes = |seed| serde_json::to_string(&generator(mixed()).tasks(seed, 60).unwrap()).unwrap();
        assert_eq!(bytes(SEED), bytes(SEED));
        assert_ne!(bytes(SEED), bytes(SEED + 1));
    }

    #[test]
    fn shares_holes_and_waits_are_met_up_to_rounding() {
        let set = generator(mixed()).tasks(SEED, 101).unwrap();
        let count = |size: &str, wait: &str| {
            set.tasks.iter().filter(|task| task.labels["size"] == size && task.labels["wait"] == wait).count()
        };
        // 101 splits into 50.5, 25.25 and 25.25; the remaining one goes to the first.
        assert_eq!([count("3", "no"), count("3", "yes")], [38, 13]);
        assert_eq!([count("4", "no"), count("4", "yes")], [13, 12]);
        assert_eq!([count("5", "no"), count("5", "yes")], [6, 19]);
        for task in &set.tasks {
            let holes = match task.labels["size"].as_str() {
                "3" => 2,
                "4" => 5,
                _ => 0,
            };
            let board = Truth::of(task).unwrap().board;
            assert_eq!(board.holes().len(), holes);
            assert_eq!(task.labels["holes"], holes.to_string());
        }
        assert_eq!(set.cells.iter().map(|cell| cell.made).sum::<usize>(), 101);
        for cell in &set.cells {
            assert_eq!(cell.drawn, cell.made + cell.dropped.values().sum::<usize>(), "{cell:?}");
        }
    }

    #[test]
    fn every_label_is_exact_and_every_demonstration_is_optimal() {
        for agents in [2, 3] {
            let mut config = mixed();
            config["agents"] = json!(agents);
            let generator = generator(config);
            let mut environment = generator.environment();
            for task in generator.tasks(SEED, 40).unwrap().tasks {
                let truth = Truth::of(&task).unwrap();
                if agents == 2 {
                    let best = optimum(&truth.board, true, STATES);
                    assert_eq!(best, Optimum::Cost(truth.cost));
                    let needs_wait = optimum(&truth.board, false, STATES) != best;
                    assert_eq!(task.labels["wait"], generate::yes_no(needs_wait));
                }
                assert_eq!(environment.reset(&task, 0).unwrap(), task.prompt);
                let shown = generator.demonstrate(&task).unwrap();
                assert_eq!(environment.step(&shown).unwrap(), Step::Done);
                let verdict = environment.verify().unwrap();
                assert!(verdict.flags["optimal"], "{} {:?}", shown.content, verdict.feedback);
                assert!(generator.draw(&task, Some(&shown.content)).contains("optimal: cost"));
            }
        }
    }

    #[test]
    fn boards_repeat_only_where_there_are_no_more() {
        let distinct = |config, count| {
            let tasks = generator(config).tasks(SEED, count).unwrap().tasks;
            tasks.iter().map(|task| task.id.clone()).collect::<BTreeSet<_>>().len()
        };
        let roomy = json!({"sizes": {"4": {"hole_ratio": 0.2, "wait_ratio": 0.5}}});
        assert_eq!(distinct(roomy, 300), 300);
        let tiny = json!({"sizes": {"2": {"hole_ratio": 0.25, "wait_ratio": 0}}});
        assert!(distinct(tiny.clone(), 200) < 200);
        let cell = &generator(tiny).tasks(SEED, 200).unwrap().cells[0];
        assert_eq!(cell.drawn, 200 + cell.dropped.values().sum::<usize>(), "{cell:?}");
    }

    #[test]
    fn a_cell_that_yields_nothing_names_its_key_and_the_nearest_value() {
        for (config, key, nearest) in [
            (
                json!({"sizes": {"2": {"hole_ratio": 0, "wait_ratio": 0.5}}}),
                "sizes.2.wait_ratio",
                "0.5: 2000 draws gave no board",
            ),
            (
                json!({"sizes": {"2": {"hole_ratio": 0, "wait_ratio": 0.5}}}),
                "sizes.2.wait_ratio",
                "works is 0",
            ),
            (
                json!({"node_budget": 1, "agents": 5, "sizes": {"3": {"hole_ratio": 0.3, "wait_ratio": 1}}}),
                "node_budget",
                "2000 works",
            ),
            // On two free cells agents could only swap; three in a corner allow them to follow one another.
            (
                json!({"sizes": {"2": {"hole_ratio": 0.5, "wait_ratio": 0}}}),
                "sizes.2.hole_ratio",
                "works is 0.37 (1 holes)",
            ),
        ] {
            match generator(config.clone()).tasks(SEED, 8) {
                Err(EnvError::Config { key: named, problem }) => {
                    assert_eq!(named, key);
                    assert!(problem.contains(nearest), "{problem}");
                }
                other => panic!("{config}: {other:?}"),
            }
        }
    }

    #[test]
    fn every_configuration_within_bounds_builds_boards_of_all_sizes_and_numbers_of_agents() {
        for (size, agents, hole_ratio, wait_ratio) in [
            (2, 4, 0.0, 0.0),
            (3, 5, 0.1, 0.5),
            (6, 5, 0.2, 0.5),
            (8, 3, 0.6, 0.5),
            (10, 2, 0.3, 0.5),
            (10, 5, 0.1, 0.25),
        ] {
            let cell = json!({"hole_ratio": hole_ratio, "wait_ratio": wait_ratio});
            let config = json!({"agents": agents, "sizes": {size.to_string(): cell}, "node_budget": 300});
            let set = generator(config).tasks(SEED, 8).unwrap();
            assert_eq!(set.tasks.len(), 8, "{size} {agents}");
        }
    }
}

mod episodes {
    use super::*;

    #[test]
    fn an_episode_that_failed_takes_nothing_more_and_another_instance_is_another_episode() {
        let generator = generator(json!({}));
        let task = &generator.tasks(1, 1).unwrap().tasks[0];
        let mut first = generator.environment();
        assert!(matches!(first.verify(), Err(EnvError::Failed(_))));
        first.reset(task, 0).unwrap();
        first.step(&Message::assistant("A:\nB:")).unwrap();
        let failed = first.verify().unwrap();
        assert!(!failed.success);
        assert!(matches!(first.step(&Message::assistant("A:\nB:")), Err(EnvError::Failed(_))));

        let mut second = generator.environment();
        second.reset(task, 0).unwrap();
        second.step(&generator.demonstrate(task).unwrap()).unwrap();
        assert!(second.verify().unwrap().success);
        assert_eq!(first.verify().unwrap(), failed);
    }

    #[test]
    fn a_foreign_task_is_refused_and_drawn_as_such() {
        let generator = generator(json!({}));
        let mut task = generator.tasks(1, 1).unwrap().tasks.remove(0);
        task.truth["board"]["size"] = json!(99);
        assert!(matches!(generator.environment().reset(&task, 0), Err(EnvError::Foreign(_))));
        assert!(generator.demonstrate(&task).is_none());
        assert!(generator.draw(&task, None).contains("99"));
    }

    #[test]
    fn the_defaults_are_those_of_the_type() {
        assert_eq!((KIND.defaults)(), play::json(&MapfConfig::default()));
    }
}
