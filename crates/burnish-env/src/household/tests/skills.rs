//! Advice for a teacher.

use super::*;

/// The type whose order a skill gives, by its words.
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
        let skill = plain.family().skill(&task).unwrap();
        assert_eq!(type_of(&skill), task.labels["type"], "{skill}");
        assert!(!task.prompt[0].content.contains(&skill) && !task.labels.contains_key("skill"));
        let Truth { house, start, goal } = Truth::of(&task).unwrap();
        let places = goal.objects.iter().map(|&it| {
            let at = start.things[it].place.unwrap();
            format!("; {} is {}", house.objects[it], goal::at(&house, at))
        });
        let wanted: String = std::iter::once(skill).chain(places).collect();
        assert_eq!(located.family().skill(&task).unwrap(), wanted);
    }
}

#[test]
fn a_share_of_the_skills_names_a_wrong_order_and_the_label_says_which() {
    let generator = generator(json!({"skill_errors": 0.3}));
    let (mut wrong, mut named) = (0, BTreeSet::new());
    let tasks = tasks(&generator, 1500);
    for task in &tasks {
        let order = type_of(&generator.family().skill(task).unwrap());
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
        let skill = shows.family().skill(&task).unwrap();
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
        let is_wrong =
            |task: &&Task| type_of(&generator.family().skill(task).unwrap()) != task.labels["type"];
        assert_eq!(tasks.iter().filter(is_wrong).count(), wanted);
    }
}
