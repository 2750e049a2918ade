//! Plans, and who demonstrates them.

use super::*;

#[test]
fn every_task_is_solvable_within_its_limit_and_its_demonstrated_episode_earns_success() {
    for config in variants() {
        let generator = generator(config.clone());
        let mut environment = generator.environment();
        for task in tasks(&generator, 60) {
            let steps: usize = task.labels["steps"].parse().unwrap();
            assert!((2..=generator.family().plan_max).contains(&steps), "{steps}");
            let episode = generator.demonstrate_episode(&task).unwrap();
            let opening = environment.reset(&task, 0).unwrap();
            assert_eq!(episode[..1], opening[..]);
            assert_eq!(episode[1], generator.demonstrate(&task).unwrap());
            let answers = episode.iter().filter(|message| message.role == Role::Assistant).count();
            assert_eq!(episode.len(), 2 * answers);
            let is_informed = generator.family().demonstrations == Demonstrator::Informed;
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
            let texts: Vec<&str> = episode.iter().skip(1).step_by(2).map(|m| m.content.as_str()).collect();
            assert!(generator.draw(&task, Some(&texts.join("\n"))).ends_with("done"));
        }
    }
}

/// The fewest answers to success, found by trying every text in every state through the environment alone.
fn fewest_answers(generator: &Household, task: &Task) -> usize {
    let texts: Vec<String> = {
        let truth = Truth::of(task).unwrap();
        all_actions(&truth).into_iter().map(|action| truth.house.word(action)).collect()
    };
    let mut environment = environment(generator);
    // An episode is brought back to a state by giving it the same answers again.
    let mut level: Vec<Vec<&str>> = vec![Vec::new()];
    let mut known = HashSet::new();
    for answers in 1.. {
        let mut next = Vec::new();
        for before in &level {
            for text in &texts {
                environment.reset(task, 0).unwrap();
                let said: Vec<&str> = before.iter().copied().chain([text.as_str()]).collect();
                for text in &said {
                    environment.step(&Message::assistant(*text)).unwrap();
                }
                if environment.verify().unwrap().success {
                    return answers;
                }
                if known.insert(format!("{:?}", world(&environment))) {
                    next.push(said);
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
