//! What must hold of every task and every episode.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use burnish_core::rng::Stream;
use burnish_core::{Message, Role, Task};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::play::Truth;
use super::world::{Action, World};
use super::*;
use crate::Step;

const SEED: u64 = 5;

fn generator(config: Value) -> Household {
    Household::new(settings::read(&config).unwrap()).unwrap()
}

fn tasks(generator: &Household, count: usize) -> Vec<Task> {
    generator.tasks(SEED, count).unwrap().tasks
}

/// Worlds that differ in size, in what is told, and in who demonstrates.
fn variants() -> Vec<Value> {
    let roomy =
        json!({"rooms": 3, "surfaces": 3, "containers": 3, "objects": 6, "plan_max": 14, "steps_max": 30});
    let with = |base: &Value, key: &str, value: Value| {
        let mut config = base.clone();
        config[key] = value;
        config
    };
    vec![
        json!({}),
        json!({"demonstrations": "explorer", "steps_max": 20}),
        json!({"hidden": 1.0, "containers": 0, "prompt": "full"}),
        with(&roomy, "observable", json!(true)),
        with(&roomy, "demonstrations", json!("explorer")),
        with(&with(&roomy, "demonstrations", json!("explorer")), "observable", json!(true)),
        roomy,
    ]
}

/// Every action that can be written, possible or not.
fn all_actions(truth: &Truth) -> Vec<Action> {
    let (rooms, places, objects) =
        (0..truth.house.rooms.len(), 0..truth.house.places.len(), 0..truth.house.objects.len());
    let mut all = vec![Action::Look];
    all.extend(rooms.map(Action::Enter));
    all.extend(places.clone().map(Action::Go));
    all.extend(places.clone().map(Action::Open));
    for it in objects {
        let alone = [Action::Take, Action::Clean, Action::Heat, Action::Cool, Action::Examine];
        all.extend(alone.map(|action| action(it)));
        all.extend(places.clone().map(|to| Action::Put(it, to)));
    }
    all
}

mod plans {
    use super::*;

    #[test]
    fn every_task_is_solvable_within_its_limit_and_its_demonstrated_episode_earns_success() {
        for config in variants() {
            let generator = generator(config.clone());
            let mut environment = generator.environment();
            for task in tasks(&generator, 60) {
                let steps: usize = task.labels["steps"].parse().unwrap();
                assert!((2..=generator.config.plan_max).contains(&steps), "{steps}");
                let episode = generator.demonstrate_episode(&task).unwrap();
                let opening = environment.reset(&task, 0).unwrap();
                assert_eq!(episode[..1], opening[..]);
                assert_eq!(episode[1], generator.demonstrate(&task).unwrap());
                let answers = episode.iter().filter(|message| message.role == Role::Assistant).count();
                assert_eq!(episode.len(), 2 * answers);
                let is_informed = generator.config.demonstrations == Demonstrator::Informed;
                assert!(if is_informed { answers == steps } else { answers >= steps }, "{answers} {steps}");
                for (turn, pair) in episode[1..].chunks(2).enumerate() {
                    let step = environment.step(&pair[0]).unwrap();
                    match pair.get(1) {
                        Some(seen) => assert_eq!(step, Step::Continue(vec![seen.clone()])),
                        None => assert_eq!((step, turn + 1), (Step::Done, answers)),
                    }
                }
                let verdict = environment.verify().unwrap();
                assert!(verdict.success && verdict.rewards == BTreeMap::from([("success".into(), 1.0)]));
                assert_eq!(verdict.flags.values().filter(|flag| **flag).count(), 0);
                assert!(verdict.feedback.is_none() && verdict.error_turn.is_none());
                let texts: Vec<&str> =
                    episode.iter().skip(1).step_by(2).map(|m| m.content.as_str()).collect();
                assert!(generator.draw(&task, Some(&texts.join("\n"))).ends_with("done"));
            }
        }
    }

    /// The fewest answers to success, by trying every text in every state through the environment alone.
    fn fewest_answers(generator: &Household, task: &Task) -> usize {
        let texts: Vec<String> = {
            let truth = Truth::of(task).unwrap();
            all_actions(&truth).into_iter().map(|action| truth.house.word(action)).collect()
        };
        let mut environment = generator.environment();
        environment.reset(task, 0).unwrap();
        let mut level = vec![environment.snapshot()];
        let mut known = HashSet::from([level[0]["world"].to_string()]);
        for answers in 1.. {
            let mut next = Vec::new();
            for state in &level {
                for text in &texts {
                    environment.restore(state).unwrap();
                    environment.step(&Message::assistant(text.as_str())).unwrap();
                    if environment.verify().unwrap().success {
                        return answers;
                    }
                    let snapshot = environment.snapshot();
                    if known.insert(snapshot["world"].to_string()) {
                        next.push(snapshot);
                    }
                }
            }
            level = next;
        }
        unreachable!()
    }

    #[test]
    fn plans_are_as_short_as_trying_every_text_finds() {
        for rooms in [1, 2] {
            let config = json!({"rooms": rooms, "surfaces": 1, "containers": 1, "objects": 1,
                "types": {"two": 0}, "plan_max": 20, "steps_max": 40});
            let generator = generator(config);
            let mut lengths = BTreeSet::new();
            for task in tasks(&generator, 15) {
                let steps: usize = task.labels["steps"].parse().unwrap();
                assert_eq!(fewest_answers(&generator, &task), steps, "{}", generator.draw(&task, None));
                lengths.insert(steps);
            }
            assert!(lengths.len() > 2, "{lengths:?}");
        }
    }

    #[test]
    fn plans_for_two_objects_are_as_short_as_a_search_that_leaves_nothing_out_finds() {
        let types = json!({"pick": 0, "clean": 0, "heat": 0, "cool": 0, "examine": 0});
        let config = json!({"surfaces": 2, "containers": 1, "objects": 2, "types": types, "plan_max": 10});
        let generator = generator(config);
        for task in tasks(&generator, 6) {
            let truth = Truth::of(&task).unwrap();
            let actions = all_actions(&truth);
            let mut level = vec![truth.start.clone()];
            let mut known: HashSet<World> = HashSet::from([truth.start.clone()]);
            let mut steps = 0;
            while !level.iter().any(|world| truth.goal.is_reached(world)) {
                let mut next = Vec::new();
                for world in &level {
                    let after = actions.iter().filter_map(|action| world.after(&truth.house, *action));
                    next.extend(after.filter(|world| known.insert(world.clone())));
                }
                level = next;
                steps += 1;
            }
            assert_eq!(task.labels["steps"], steps.to_string(), "{}", generator.draw(&task, None));
        }
    }

    #[test]
    fn an_explorer_acts_alike_until_it_sees_a_difference() {
        let config = json!({"rooms": 2, "surfaces": 2, "containers": 3, "objects": 4, "hidden": 0.8,
            "plan_max": 14, "steps_max": 40, "demonstrations": "explorer"});
        let generator = generator(config);
        let (mut pairs, mut apart, mut informed_apart) = (0, 0, 0);
        for task in tasks(&generator, 100) {
            let truth = Truth::of(&task).unwrap();
            // The same house with an object moved from one closed place to another.
            let closed = |at: usize| truth.house.places[at].kind.has_door() && truth.goal.place != Some(at);
            let it = truth.goal.objects[0];
            let Some(from) = truth.start.things[it].place.filter(|at| closed(*at)) else { continue };
            let Some(to) = (0..truth.house.places.len()).find(|at| closed(*at) && *at != from) else {
                continue;
            };
            let mut other = truth.clone();
            other.start.things[it].place = Some(to);
            let twin = Task { truth: settings::to_value(&other).unwrap(), ..task.clone() };
            pairs += 1;
            let episodes = [&task, &twin].map(|task| generator.demonstrate_episode(task).unwrap());
            let at = (0..).find(|&at| episodes[0].get(at) != episodes[1].get(at)).unwrap();
            assert_eq!(episodes[0][at].role, Role::User, "{:?}", episodes[0]);
            apart += usize::from(at > 2);
            let plans = [&truth, &other].map(|truth| solve::plan(&truth.house, &truth.start, &truth.goal));
            informed_apart += usize::from(plans[0] != plans[1]);
        }
        assert!(pairs > 30 && apart > 5 && informed_apart == pairs, "{pairs} {apart} {informed_apart}");
    }
}

mod task_sets {
    use super::*;

    #[test]
    fn the_same_configuration_seed_and_count_give_the_same_bytes() {
        let generator = generator(json!({"skill_errors": 0.5}));
        let bytes = |seed| serde_json::to_string(&generator.tasks(seed, 60).unwrap()).unwrap();
        assert_eq!(bytes(SEED), bytes(SEED));
        assert_ne!(bytes(SEED), bytes(SEED + 1));
        let ids: BTreeSet<_> = tasks(&generator, 300).into_iter().map(|task| task.id).collect();
        assert!(ids.len() > 295, "{}", ids.len());
    }

    #[test]
    fn shares_of_types_are_exact() {
        let types = json!({"pick": 0.4, "clean": 0.3, "heat": 0.2, "cool": 0, "examine": 0.1, "two": 0});
        let set = generator(json!({"types": types})).tasks(SEED, 41).unwrap();
        let count = |name: &str| set.tasks.iter().filter(|task| task.labels["type"] == name).count();
        // 41 splits into 16.4, 12.3, 8.2 and 4.1; the one that is left goes to the first.
        assert_eq!(["pick", "clean", "heat", "cool", "examine", "two"].map(count), [17, 12, 8, 0, 4, 0]);
        assert_eq!(set.cells.len(), 4);
        for cell in &set.cells {
            assert_eq!(cell.made, count(cell.cell.strip_prefix("type=").unwrap()));
            assert_eq!(cell.drawn, cell.made + cell.dropped.values().sum::<usize>(), "{cell:?}");
        }
    }

    #[test]
    fn tasks_that_would_take_too_long_are_counted_and_impossible_types_name_the_key() {
        let two = generator(json!({"plan_max": 8})).tasks(SEED, 60).unwrap();
        assert!(two.cells[5].dropped["plan too long"] > 0, "{:?}", two.cells[5]);
        let error = |config| generator(config).tasks(SEED, 6).unwrap_err().to_string();
        let short = error(json!({"plan_max": 3}));
        assert_eq!(short, "plan_max: 3: no task of the type `pick` in 2000 draws; nearest: 4");
        let full = error(json!({"surfaces": 1, "containers": 0, "hidden": 0}));
        assert!(full.starts_with("surfaces: 1: no task of the type `pick`"), "{full}");
        assert!(full.ends_with("nearest: 2"), "{full}");
    }

    #[test]
    fn what_is_out_of_sight_is_told_only_where_all_is() {
        for (observable, wanted) in [(false, 0), (true, 1)] {
            let config = json!({"rooms": 2, "hidden": 0.7, "observable": observable, "plan_max": 12});
            let generator = generator(config);
            let mut hidden = 0;
            for task in tasks(&generator, 60) {
                let truth = Truth::of(&task).unwrap();
                let (house, start) = (&truth.house, &truth.start);
                let (rooms, goal) = task.prompt[0].content.rsplit_once('\n').unwrap();
                assert_eq!(goal, format!("goal: {}", truth.goal.text(house)));
                let words: Vec<&str> = rooms.split(|c: char| !c.is_alphabetic()).collect();
                for place in &house.places {
                    assert!(words.contains(&place.name.as_str()), "{rooms}");
                }
                for (it, name) in house.objects.iter().enumerate() {
                    let at = start.things[it].place.unwrap();
                    let in_sight = house.places[at].room == start.room && start.is_open[at];
                    hidden += usize::from(!in_sight);
                    let told = words.iter().filter(|word| *word == name).count();
                    assert_eq!(told, if in_sight { 1 } else { wanted }, "{name}: {rooms}");
                }
            }
            assert!(hidden > 60, "{hidden}");
        }
    }

    #[test]
    fn a_foreign_task_is_refused_and_drawn_as_such() {
        let generator = generator(json!({}));
        let good = tasks(&generator, 1).remove(0);
        for (key, value) in [
            ("/start/things/0/place", json!(99)),
            ("/start/room", json!(1)),
            ("/goal/objects", json!([])),
            ("/goal/objects/0", json!(3)),
            ("/house/places/0/room", json!(1)),
            ("/start/is_open", json!([true])),
            ("/goal", json!(1)),
        ] {
            let mut task = good.clone();
            *task.truth.pointer_mut(key).unwrap() = value;
            let error = generator.environment().reset(&task, 0).unwrap_err();
            assert!(matches!(error, EnvError::Foreign(_)), "{key}: {error}");
            assert!(error.to_string().contains(&task.id.0));
            assert!(generator.demonstrate_episode(&task).is_none() && generator.skill(&task).is_none());
            assert!(generator.draw(&task, None).contains("not one of household"));
        }
    }
}

mod skills {
    use super::*;

    /// Which type's order a skill names, by its words.
    fn type_of(skill: &str) -> &'static str {
        let verbs: Vec<&str> = skill
            .split([',', ';'])
            .filter_map(|part| part.split_whitespace().next())
            .filter(|word| ["find", "take", "clean", "heat", "cool", "examine", "put"].contains(word))
            .collect();
        match verbs[..] {
            ["find", "take", "put"] => "pick",
            ["find", "take", "clean", "put"] => "clean",
            ["find", "take", "heat", "put"] => "heat",
            ["find", "take", "cool", "put"] => "cool",
            ["find", "take", "examine"] => "examine",
            ["find", "take", "put", "find", "take", "put"] => "two",
            _ => panic!("{skill}"),
        }
    }

    #[test]
    fn a_skill_names_the_order_of_the_type_and_where_the_object_is_if_asked_to() {
        let plain = generator(json!({}));
        let located = generator(json!({"skill_detail": "location"}));
        for task in tasks(&plain, 120) {
            let skill = plain.skill(&task).unwrap();
            assert_eq!(type_of(&skill), task.labels["type"], "{skill}");
            assert!(!task.prompt[0].content.contains(&skill) && !task.labels.contains_key("skill"));
            let Truth { house, start, goal } = Truth::of(&task).unwrap();
            let places = goal.objects.iter().map(|&it| {
                let at = start.things[it].place.unwrap();
                format!("; {} is {}", house.objects[it], goal::at(&house, at))
            });
            let wanted: String = std::iter::once(skill).chain(places).collect();
            assert_eq!(located.skill(&task).unwrap(), wanted);
        }
    }

    #[test]
    fn a_share_of_the_skills_names_a_wrong_order_and_the_label_says_which() {
        let generator = generator(json!({"skill_errors": 0.3}));
        let (mut wrong, mut named) = (0, BTreeSet::new());
        let tasks = tasks(&generator, 1500);
        for task in &tasks {
            let order = type_of(&generator.skill(task).unwrap());
            let is_wrong = order != task.labels["type"];
            assert_eq!(task.labels["skill"], if is_wrong { "wrong" } else { "right" });
            wrong += usize::from(is_wrong);
            if is_wrong {
                named.insert((task.labels["type"].clone(), order));
            }
        }
        // Four standard deviations of a share of 1500 are 0.047.
        let share = wrong as f64 / tasks.len() as f64;
        assert!((share - 0.3).abs() < 0.047, "{share}");
        assert_eq!(named.len(), 30, "every type is taken for every other: {named:?}");
    }

    #[test]
    fn a_share_of_the_prompts_shows_the_skill_and_is_a_task_of_its_own() {
        let plain = tasks(&generator(json!({"skill_errors": 0.3})), 400);
        let shows = generator(json!({"skill_errors": 0.3, "skill_shown": 0.5}));
        let mut shown = 0;
        for (plain, task) in plain.iter().zip(tasks(&shows, 400)) {
            assert_eq!((&plain.truth, &plain.labels), (&task.truth, &task.labels));
            let skill = shows.skill(&task).unwrap();
            assert_eq!(type_of(&skill) == task.labels["type"], task.labels["skill"] == "right");
            let (bare, text) = (&plain.prompt[0].content, &task.prompt[0].content);
            if *text == format!("{bare}\n{skill}") {
                shown += 1;
                assert_ne!(plain.id, task.id);
            } else {
                assert_eq!(*plain, task);
            }
        }
        // Four standard deviations of half of 400 are 40.
        assert!((160..=240).contains(&shown), "{shown}");
    }

    #[test]
    fn wrong_skills_are_all_or_none_at_the_ends() {
        for (errors, wanted) in [(0.0, 0), (1.0, 60)] {
            let generator = generator(json!({"skill_errors": errors, "objects": 1, "types": {"two": 0}}));
            let tasks = tasks(&generator, 60);
            let is_wrong = |task: &&Task| type_of(&generator.skill(task).unwrap()) != task.labels["type"];
            assert_eq!(tasks.iter().filter(is_wrong).count(), wanted);
        }
    }
}

mod episodes {
    use super::*;

    fn play(generator: &Household, task: &Task, answers: &[&str]) -> (Vec<String>, burnish_core::Verdict) {
        let mut environment = generator.environment();
        environment.reset(task, 0).unwrap();
        let seen =
            answers.iter().map(|answer| match environment.step(&Message::assistant(*answer)).unwrap() {
                Step::Continue(messages) => messages[0].content.clone(),
                Step::Done => "done".to_owned(),
            });
        (seen.collect(), environment.verify().unwrap())
    }

    /// Bread in a closed drawer and an egg on the table; the goal is a clean one on the table.
    fn kitchen(generator: &Household) -> Task {
        let place = |name: &str, kind: &str| json!({"name": name, "room": 0, "kind": kind});
        let thing =
            |at: usize| json!({"place": at, "is_clean": false, "warmth": "plain", "is_examined": false});
        let truth = json!({
            "house": {
                "rooms": ["kitchen"],
                "places": [place("sink", "sink"), place("drawer", "container"), place("table", "surface"),
                    place("stove", "stove"), place("fridge", "fridge"), place("lamp", "lamp")],
                "objects": ["bread", "egg"],
            },
            "start": {
                "room": 0, "at": null, "is_open": [true, false, true, true, false, true],
                "things": [thing(1), thing(2)],
            },
            "goal": {"type": "clean", "objects": [0], "place": 2},
        });
        let truth: Truth = serde_json::from_value(truth).unwrap();
        generator.task(&generate::Instance { truth, steps: 7 }).unwrap()
    }

    #[test]
    fn an_episode_reads_like_this() {
        let generator = generator(json!({}));
        let task = kitchen(&generator);
        let prompt = "kitchen. sink; drawer closed; table: egg; stove; fridge closed; lamp\n\
            goal: put clean bread on table";
        assert_eq!(task.prompt, [Message::user(prompt)]);
        let said = [
            "Go  Drawer",
            "open drawer",
            "<think>?</think>take bread",
            "go sink",
            "clean bread",
            "look",
            "take egg",
            "go table",
            "put bread table",
        ];
        let (seen, verdict) = play(&generator, &task, &said);
        let wanted = [
            "at drawer closed",
            "at drawer: bread",
            "at drawer: nothing; you hold bread",
            "at sink; you hold bread",
            "at sink; you hold clean bread",
            "kitchen. sink; drawer: nothing; table: egg; stove; fridge closed; lamp; you hold clean bread",
            "nothing happens",
            "at table: egg; you hold clean bread",
            "done",
        ];
        assert_eq!(seen, wanted);
        assert!(verdict.success && verdict.flags["invalid"] && verdict.error_turn.is_none());
        let plan = generator.demonstrate_episode(&task).unwrap();
        let plan: Vec<&str> =
            plan.iter().skip(1).step_by(2).map(|message| message.content.as_str()).collect();
        assert_eq!(
            plan,
            [
                "go drawer",
                "open drawer",
                "take bread",
                "go sink",
                "clean bread",
                "go table",
                "put bread table"
            ]
        );
        let skill = "find bread, take it, clean it at sink, put it on table";
        assert_eq!(generator.skill(&task).unwrap(), skill);
    }

    #[test]
    fn rewards_are_those_that_are_asked_for_and_a_failure_says_what_is_missing() {
        let config = |invalid: &str| {
            generator(json!({"progress": true, "invalid": invalid, "plan_max": 8, "steps_max": 8}))
        };
        let task = kitchen(&config("off"));
        let said = [
            "dance",
            "go drawer",
            "open drawer",
            "take bread",
            "put bread table",
            "go table",
            "put bread table",
            "heat bread",
        ];
        let (seen, verdict) = play(&config("count"), &task, &said);
        assert_eq!(seen.iter().filter(|seen| *seen == "nothing happens").count(), 2);
        assert_eq!(seen[7], "done", "the last step that is allowed ends the episode");
        assert!(!verdict.success && verdict.flags["invalid"] && verdict.flags["out_of_steps"]);
        // Taken, but not cleaned, and so not put there clean.
        let rewards: BTreeMap<String, f64> =
            [("success", 0.0), ("progress", 1.0 / 3.0), ("invalid", 3.0)].map(|(k, v)| (k.into(), v)).into();
        assert_eq!(verdict.rewards, rewards);
        assert_eq!(verdict.feedback.as_deref(), Some("Not done: clean bread."));
        assert_eq!(verdict.error_turn, Some(0));
        let share = play(&config("share"), &task, &said).1.rewards["invalid"];
        assert!((share - 3.0 / 8.0).abs() < 1e-12, "{share}");
        let early = play(&config("off"), &task, &said[1..3]).1;
        assert!(!early.rewards.contains_key("invalid") && early.rewards["progress"] == 0.0);
        assert!(!early.flags["invalid"] && !early.flags["out_of_steps"] && early.error_turn.is_none());
    }

    #[test]
    fn an_episode_is_started_first_and_takes_nothing_after_its_end() {
        let generator = generator(json!({"plan_max": 8, "steps_max": 8}));
        let task = kitchen(&generator);
        let mut environment = generator.environment();
        assert!(matches!(environment.verify(), Err(EnvError::Failed(_))));
        assert!(matches!(environment.step(&Message::assistant("look")), Err(EnvError::Failed(_))));
        environment.reset(&task, 0).unwrap();
        assert!(!environment.verify().unwrap().success, "judged where a rollout is cut short");
        for _ in 0..7 {
            assert!(matches!(environment.step(&Message::assistant("look")), Ok(Step::Continue(_))));
        }
        assert_eq!(environment.step(&Message::assistant("look")).unwrap(), Step::Done);
        assert!(matches!(environment.step(&Message::assistant("look")), Err(EnvError::Failed(_))));
        for wrong in [json!({"truth": 1}), json!(7)] {
            assert!(matches!(environment.restore(&wrong), Err(EnvError::Foreign(_))));
        }
        let mut snapshot = environment.snapshot();
        snapshot["world"]["at"] = json!(40);
        assert!(matches!(environment.restore(&snapshot), Err(EnvError::Foreign(_))));
    }

    /// An answer: mostly what can be written, sometimes what can't.
    fn answer(truth: &Truth, stream: &mut Stream) -> String {
        let actions = all_actions(truth);
        match stream.below(12) {
            0 => "go nowhere".to_owned(),
            1 => "apple".to_owned(),
            _ => truth.house.word(actions[stream.index(actions.len())]),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn an_invalid_action_changes_nothing_and_a_restored_episode_goes_on_as_the_first(
            seed in any::<u64>(), variant in 0usize..7, cut in 0usize..30,
        ) {
            let mut config = variants()[variant].clone();
            config["steps_max"] = json!(60);
            config["progress"] = json!(true);
            config["invalid"] = json!("count");
            let generator = generator(config);
            let task = generator.tasks(seed, 1).unwrap().tasks.remove(0);
            let truth = Truth::of(&task).unwrap();
            let mut stream = Stream::new(seed);
            let (mut first, mut second) = (generator.environment(), generator.environment());
            first.reset(&task, 0).unwrap();
            let mut invalid = 0.0;
            for turn in 0..60 {
                let before = first.snapshot();
                if turn == cut {
                    second.restore(&before).unwrap();
                }
                let text = answer(&truth, &mut stream);
                let step = first.step(&Message::assistant(text.as_str())).unwrap();
                if turn >= cut {
                    prop_assert_eq!(&second.step(&Message::assistant(text.as_str())).unwrap(), &step);
                    prop_assert_eq!(second.snapshot(), first.snapshot());
                }
                let after = first.snapshot();
                let is_same = before["world"] == after["world"];
                let verdict = first.verify().unwrap();
                if verdict.rewards["invalid"] > invalid {
                    prop_assert!(is_same, "{}", text);
                    invalid += 1.0;
                    let nothing = Step::Continue(vec![Message::user(text::NOTHING)]);
                    prop_assert!(step == nothing || step == Step::Done);
                } else {
                    prop_assert!(is_same == (text == "look"), "{}", text);
                }
                prop_assert_eq!(verdict.rewards["invalid"], invalid);
                if step == Step::Done {
                    break;
                }
            }
        }
    }
}
