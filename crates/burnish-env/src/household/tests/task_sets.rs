//! Which tasks are made, and which configurations are refused.

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
    // 41 splits into 16.4, 12.3, 8.2 and 4.1; the remaining one goes to the first.
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
        assert!(generator.demonstrate_episode(&task).is_none() && generator.family().skill(&task).is_none());
        assert!(generator.draw(&task, None).contains("not one of household"));
    }
}
