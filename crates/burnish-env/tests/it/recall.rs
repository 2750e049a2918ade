//! Recall: what is asked for stands once, where it was asked to stand, in a prompt of the length that was asked for.

use std::collections::BTreeMap;
use std::path::Path;

use burnish_core::{Message, Task, Verdict, settings};
use burnish_env::recall::{Recall, RecallTask, Truth};
use burnish_env::{Demonstrations, EnvError, Generator, Step};
use proptest::prelude::*;
use serde_json::{Value, json};

const SHAKESPEARE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/tinyshakespeare/input.txt");

fn generator(config: &Value) -> Recall {
    Recall::new(settings::read(config).unwrap()).unwrap()
}

fn refused(config: &Value) -> String {
    settings::read(config).map_err(EnvError::from).and_then(Recall::new).err().unwrap().to_string()
}

fn judged(generator: &Recall, task: &Task, answer: &str) -> Verdict {
    let mut environment = generator.environment();
    environment.reset(task, 0).unwrap();
    environment.step(&Message::assistant(answer)).unwrap();
    environment.verify().unwrap()
}

fn prompt(task: &Task) -> &str {
    &task.prompt[0].content
}

/// The text of a prompt, without what stands around it: the question is its last line, and in the full wording an
/// instruction stands before it.
fn context<'t>(task: &'t Task, style: &str) -> &'t str {
    let (text, _) = prompt(task).rsplit_once('\n').unwrap();
    match (style, task.labels["task"].as_str()) {
        ("short", _) => text.strip_prefix("> ").unwrap(),
        (_, "vt") => text.split_once("\n\n").unwrap().1,
        _ => text.split_once('\n').unwrap().1,
    }
}

/// Most bytes that a prompt may lack of its length: a needle, a sentence of noise or a word.
fn slack(task: &Task) -> usize {
    match task.labels["task"].as_str() {
        "niah_multikey_2" | "niah_multikey_3" => 150,
        "niah_single_1" | "vt" => 26,
        _ => 12,
    }
}

fn configs() -> impl Strategy<Value = (Value, &'static str)> {
    let sizes = (2usize..=4, 1usize..=3, 1usize..=3, 3usize..=9, 4usize..=32, 1usize..=3);
    (sizes, any::<bool>(), 0.0f64..=1.0, 900usize..3000).prop_map(|(sizes, is_short, depth, length)| {
        let (keys, values, queries, digits, uuid_digits, chains) = sizes;
        let style = if is_short { "short" } else { "full" };
        let config = json!({
            "lengths": [length], "depths": [depth], "prompt": style,
            "needles": {"keys": keys, "values": values, "queries": queries},
            "numbers": {"digits": digits}, "uuids": {"digits": uuid_digits},
            "variables": {"chains": chains, "hops": keys, "letters": 5},
        });
        (config, style)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn what_is_asked_stands_once_at_its_depth_in_a_text_of_its_length((config, style) in configs(), seed: u64) {
        let generator = generator(&config);
        let length = config["lengths"][0].as_u64().unwrap() as usize;
        for task in generator.tasks(seed, 18).unwrap().tasks {
            let text = prompt(&task);
            prop_assert!(text.len() <= length && text.len() + slack(&task) >= length, "{} {text}", text.len());
            let truth = Truth::of(&task).unwrap();
            let context = context(&task, style);
            for needle in &truth.needles {
                prop_assert_eq!(context.matches(needle.as_str()).count(), 1, "{}\n{}", needle, text);
            }
            let is_chain = task.labels["task"] == "vt";
            for reference in &truth.references {
                // A variable is also named where it is passed on.
                let times = text.matches(reference.as_str()).count();
                prop_assert!(times == 1 || is_chain && times == 2, "{reference}: {times}\n{text}");
            }
            let places: Vec<usize> = truth.needles.iter().map(|needle| context.find(needle.as_str()).unwrap()).collect();
            if task.labels["depth"] == "spread" {
                prop_assert!(truth.references.len() > 1);
                prop_assert!(!is_chain || places.is_sorted(), "{text}");
                continue;
            }
            // Half a sentence, or a line of noise, or a needle, to either side.
            let depth = config["depths"][0].as_f64().unwrap();
            let others = (context.len() - truth.needles[0].len()) as f64;
            prop_assert!((places[0] as f64 - depth * others).abs() <= 76.0, "{} {depth}\n{text}", places[0]);
        }
    }

    #[test]
    fn demonstrations_are_right_and_other_answers_are_not((config, _) in configs(), seed: u64) {
        let generator = generator(&config);
        let tasks = generator.tasks(seed, 18).unwrap().tasks;
        for (task, other) in tasks.iter().zip(tasks.iter().cycle().skip(1)) {
            let answer = generator.demonstrate(task).unwrap().content;
            let right = judged(&generator, task, &answer);
            prop_assert!(right.success && right.flags["exact"] && right.rewards["recall"] == 1.0, "{answer}");
            let among_others = judged(&generator, task, &format!("Well: {answer}, I think."));
            prop_assert!(among_others.success && !among_others.flags["exact"]);
            let truth = Truth::of(task).unwrap();
            let first = judged(&generator, task, &truth.references[0]);
            prop_assert_eq!(first.rewards["recall"], 1.0 / truth.references.len() as f64);
            let silent = judged(&generator, task, " ");
            prop_assert!(!silent.success && silent.rewards["recall"] == 0.0 && silent.flags["parse_error"]);
            let of_other = judged(&generator, task, &Truth::of(other).unwrap().references[0]);
            prop_assert!(task.id == other.id || !of_other.success || truth.references.len() == 1 && answer.len() < 5);
        }
    }

    #[test]
    fn tasks_take_turns_and_the_same_seed_gives_the_same_bytes(seed: u64, count in 1usize..80) {
        let generator = generator(&json!({"lengths": [600, 900], "depths": [0.0, 0.5, 1.0], "prompt": "short"}));
        let set = generator.tasks(seed, count).unwrap();
        prop_assert_eq!(&set, &generator.tasks(seed, count).unwrap());
        prop_assert_eq!(&set.tasks[..], &generator.tasks(seed, 80).unwrap().tasks[..count]);
        let mut of_task: BTreeMap<&str, usize> = BTreeMap::new();
        for task in &set.tasks {
            *of_task.entry(&task.labels["task"]).or_default() += 1;
        }
        let counts: Vec<usize> = RecallTask::ALL.iter().map(|task| of_task.get(task.name()).copied().unwrap_or(0)).collect();
        prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
        prop_assert_eq!(set.cells.iter().map(|cell| cell.made).sum::<usize>(), count);
    }
}

#[test]
fn lengths_and_depths_of_a_task_are_equally_often() {
    let config = json!({"tasks": ["niah_single_2"], "lengths": [600, 900], "depths": [0.0, 0.5, 1.0]});
    let tasks = generator(&config).tasks(1, 60).unwrap().tasks;
    let mut cells: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for task in &tasks {
        *cells.entry((&task.labels["length"], &task.labels["depth"])).or_default() += 1;
    }
    assert_eq!(cells.len(), 6);
    assert!(cells.values().all(|count| *count == 10), "{cells:?}");
    assert_ne!(generator(&config).tasks(2, 60).unwrap().tasks, tasks);
}

#[test]
fn the_full_wording_is_rulers() {
    let one = |task: &str| {
        let config = json!({"tasks": [task], "lengths": [1500], "depths": [0.0]});
        let generator = generator(&config);
        let task = generator.tasks(4, 1).unwrap().tasks.remove(0);
        let answer = generator.demonstrate(&task).unwrap().content;
        (prompt(&task).to_owned(), answer)
    };
    let (text, answer) = one("niah_single_1");
    let key = text.split("magic number for ").nth(1).unwrap().split(' ').next().unwrap();
    let noise = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";
    let begins = format!(
        "A special magic number is hidden within the following text. Make sure to memorize it. I will quiz you about the \
         number afterwards.\nOne of the special magic numbers for {key} is: {answer}.\n{noise}\n{noise}\n"
    );
    let ends = format!(
        "\nWhat is the special magic number for {key} mentioned in the provided text? The special magic number for {key} \
         mentioned in the provided text is"
    );
    assert!(text.starts_with(&begins) && text.ends_with(&ends), "{text}");
    let (text, answer) = one("niah_multiquery");
    assert!(text.starts_with("Some special magic numbers are hidden within"), "{text}");
    assert!(
        text.contains("\nWhat are all the special magic numbers for ") && text.contains(", and "),
        "{text}"
    );
    assert!(text.ends_with(" mentioned in the provided text are"), "{text}");
    assert_eq!(answer.split(", ").count(), 4);
    let (text, _) = one("niah_multikey_3");
    assert!(text.starts_with("A special magic uuid is hidden"), "{text}");
    assert!(
        text.lines().skip(1).take(8).all(|line| line.starts_with("One of the special magic uuids for ")),
        "{text}"
    );
    let (text, answer) = one("vt");
    assert!(text.starts_with(
        "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n"
    ));
    let names: Vec<&str> = answer.split(", ").collect();
    assert!(text.contains(&format!("\nVAR {} = VAR {}\n", names[1], names[0])), "{text}");
    let (_, question) = text.rsplit_once('\n').unwrap();
    let value = text.split(&format!("VAR {} = ", names[0])).nth(1).unwrap().split('\n').next().unwrap();
    assert_eq!(
        question,
        format!(
            "Question: Find all variables that are assigned the value {value} in the text above. Answer: According to the \
             chain(s) of variable assignment in the text above, 5 variables are assigned the value {value}, they are:"
        )
    );
}

#[test]
fn small_sizes_make_short_prompts() {
    let config = json!({
        "tasks": ["niah_single_1", "niah_multikey_1"], "lengths": [128], "depths": [0.0, 0.5, 1.0], "prompt": "short",
        "needles": {"keys": 3}, "words": {"adjectives": 0, "nouns": 12}, "numbers": {"digits": 2}, "vocabulary": 4,
    });
    let generator = generator(&config);
    for task in generator.tasks(0, 30).unwrap().tasks {
        let answer = generator.demonstrate(&task).unwrap().content;
        assert!(answer.len() == 2 && prompt(&task).len() <= 128, "{}", prompt(&task));
        assert!(
            generator.draw(&task, Some(&answer)).ends_with("recall 1.00: all references are in the answer.")
        );
    }
}

#[test]
fn later_turns_ask_for_other_needles_of_the_same_text() {
    for style in ["short", "full"] {
        let config = json!({
            "tasks": ["niah_multikey_1"], "lengths": [900], "prompt": style, "numbers": {"digits": 3},
            "needles": {"keys": 5, "turns": 3},
        });
        let generator = generator(&config);
        let mut orders = BTreeMap::new();
        for task in generator.tasks(6, 40).unwrap().tasks {
            let truth = Truth::of(&task).unwrap();
            assert_eq!((truth.needles.len(), truth.later.len(), &*task.labels["depth"]), (3, 2, "spread"));
            let place = |needle: &String| prompt(&task).find(needle.as_str()).unwrap();
            let places: Vec<usize> = truth.needles.iter().map(place).collect();
            *orders.entry(places.is_sorted()).or_insert(0) += 1;

            // The environment asks what the demonstration shows, and whatever was answered, asks on.
            let episode = generator.demonstrate_episode(&task).unwrap();
            let [opening, answers @ ..] = &episode[..] else { panic!("no messages") };
            assert_eq!((std::slice::from_ref(opening), answers.len()), (&task.prompt[..], 5));
            for wrong in [None, Some(0), Some(1), Some(2)] {
                let mut environment = generator.environment();
                environment.reset(&task, 0).unwrap();
                for (turn, exchange) in answers.chunks(2).enumerate() {
                    let said = if wrong == Some(turn) { "none" } else { &exchange[0].content };
                    let step = environment.step(&Message::assistant(said)).unwrap();
                    match exchange.get(1) {
                        Some(question) => assert_eq!(step, Step::Continue(vec![question.clone()])),
                        None => assert_eq!(step, Step::Done),
                    }
                }
                let verdict = environment.verify().unwrap();
                assert_eq!((verdict.success, verdict.error_turn), (wrong.is_none(), wrong));
                let right = if wrong.is_none() { 1.0 } else { 2.0 / 3.0 };
                assert_eq!((verdict.rewards["recall"], verdict.flags["exact"]), (right, wrong.is_none()));
            }
            for (later, needle) in truth.later.iter().zip(&truth.needles[1..]) {
                assert!(needle.contains(&later.references[0]) && !later.question.starts_with('\n'));
            }
        }
        // Of 40 texts about one in six has them in the order of the questions.
        assert!(orders[&false] > 20, "{orders:?}");
    }
}

#[test]
fn a_file_gives_the_text_and_a_bad_one_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("text.txt");
    let config =
        json!({"tasks": ["niah_single_2"], "lengths": [700], "path": path, "numbers": {"digits": 2}});
    let missing = refused(&config);
    assert!(missing.contains("text.txt") && missing.contains("can't be read"), "{missing}");
    std::fs::write(&path, " \n ").unwrap();
    assert!(refused(&config).contains("has no words"), "{}", refused(&config));
    std::fs::write(&path, b"A\xff").unwrap();
    assert!(refused(&config).contains("is not UTF-8 at byte 1"), "{}", refused(&config));
    std::fs::write(&path, "It was in 1984.  We saw\nit twice! And then?").unwrap();
    let generator = generator(&config);
    assert_eq!(generator.files(), std::slice::from_ref(&path));
    for task in generator.tasks(0, 40).unwrap().tasks {
        let text = prompt(&task);
        assert!(text.contains("We saw it twice!") || text.contains("It was in 1984."), "{text}");
        // A number of the text is not hidden in it.
        assert!(!["19", "98", "84"].contains(&Truth::of(&task).unwrap().references[0].as_str()));
    }
    std::fs::write(&path, (10..100).map(|number| format!("{number} ")).collect::<String>()).unwrap();
    let full = Recall::new(settings::read(&config).unwrap()).unwrap().tasks(0, 1).unwrap_err().to_string();
    assert!(full.starts_with("tasks: no instance of the cell `task=niah_single_2 length=700"), "{full}");
}

#[test]
fn a_book_can_be_the_haystack() {
    if !Path::new(SHAKESPEARE).is_file() {
        println!("skipped: no shared/data/tinyshakespeare");
        return;
    }
    let generator = generator(&json!({"lengths": [2000, 60000], "path": SHAKESPEARE}));
    for task in generator.tasks(3, 40).unwrap().tasks {
        let length: usize = task.labels["length"].parse().unwrap();
        let text = prompt(&task);
        assert!(text.len() <= length && text.len() + 150 >= length, "{} of {length}", text.len());
        let truth = Truth::of(&task).unwrap();
        assert!(truth.needles.iter().all(|needle| text.matches(needle.as_str()).count() == 1));
        assert!(judged(&generator, &task, &generator.demonstrate(&task).unwrap().content).success);
    }
}

#[test]
fn foreign_tasks_are_refused() {
    let generator = generator(&json!({}));
    let mut task = generator.tasks(1, 1).unwrap().tasks.remove(0);
    let mut environment = generator.environment();
    assert!(matches!(environment.verify(), Err(EnvError::Failed(_))));
    for foreign in [json!({"value": 3}), json!({"references": [], "needles": []})] {
        task.truth = foreign;
        assert!(matches!(environment.reset(&task, 0), Err(EnvError::Foreign(_))));
        assert!(generator.demonstrate(&task).is_none());
        assert!(generator.draw(&task, None).contains("is not one of recall"));
    }
}
