//! TimeQA's real questions: what the rules keep of the gold answers, and the rewards of fixed policies.

use std::path::{Path, PathBuf};

use burnish_core::Message;
use burnish_env::timeqa::{Config, Input, TimeQa};
use burnish_env::{Generator, build};
use burnish_verify::qa::tokens;
use serde_json::json;

const FILE: &str = "human_annotated_test.json.gz";

fn real() -> Option<PathBuf> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/timeqa").join(FILE);
    if !file.is_file() {
        println!("skipped: there is no {}", file.display());
        return None;
    }
    Some(file)
}

fn questions(path: &Path, input: Input, quadruples: usize) -> TimeQa {
    let path = path.display().to_string();
    TimeQa::new(Config { path, input, quadruples, ..Config::default() }).unwrap()
}

fn golds(task: &burnish_core::Task) -> Vec<String> {
    serde_json::from_value(task.truth["golds"].clone()).unwrap()
}

/// The context that a prompt gives.
fn context(task: &burnish_core::Task) -> &str {
    let prompt = task.prompt[0].content.strip_prefix("Context:\n").unwrap();
    prompt.rsplit_once("\n\nQuestion: ").unwrap().0
}

fn holds(text: &str, gold: &str) -> bool {
    let (text, gold) = (tokens(text), tokens(gold));
    !gold.is_empty() && text.windows(gold.len()).any(|window| window == gold)
}

/// For the answerable questions: how many have a gold answer somewhere in the text of their context, and how many have
/// one as the tail of a quadruple; and the mean length of contexts in words.
fn recall(tasks: &[burnish_core::Task]) -> (usize, usize, usize) {
    let (mut in_text, mut as_tail, mut words) = (0, 0, 0);
    for task in tasks {
        let golds = golds(task);
        let context = context(task);
        words += context.split_whitespace().count();
        in_text += usize::from(golds.iter().any(|gold| holds(context, gold)));
        let tails = context.lines().filter_map(|line| line.split("; ").nth(2));
        as_tail += usize::from(tails.map(tokens).any(|tail| golds.iter().any(|gold| tokens(gold) == tail)));
    }
    (in_text, as_tail, words / tasks.len())
}

#[test]
fn how_much_of_the_gold_the_rules_keep() {
    let Some(file) = real() else { return };
    let answerable = |input, count| -> Vec<burnish_core::Task> {
        let tasks = questions(&file, input, count).in_order();
        assert_eq!(tasks.len(), 989);
        tasks.into_iter().filter(|task| task.labels["answerable"] == "yes").collect()
    };
    let mut rows = Vec::new();
    for (name, input, count) in [
        ("context", Input::Context, 20),
        ("filtered", Input::Filtered, 20),
        ("quadruples, all", Input::Quadruples, 1_000),
        ("quadruples, 20", Input::Quadruples, 20),
    ] {
        let tasks = answerable(input, count);
        let (in_text, as_tail, words) = recall(&tasks);
        println!(
            "{name}: gold in the text {in_text} of {}, as a tail {as_tail}; {words} words a context",
            tasks.len()
        );
        rows.push((tasks.len(), in_text, as_tail, words));
    }
    assert!(rows.iter().all(|row| row.0 == 830), "{rows:?}");
    // A gold answer is a span of its page (one ends inside a word), and each step keeps fewer of them in fewer words.
    assert_eq!(rows[0].1, 829);
    assert!(rows[1].1 > 415 && rows[1].3 * 2 < rows[0].3, "{rows:?}");
    assert!(rows[2].2 > 415 && rows[3].2 < rows[2].2 && rows[3].2 > 200, "{rows:?}");
}

#[test]
fn references_are_right_and_always_abstaining_is_right_where_there_is_no_answer() {
    let Some(file) = real() else { return };
    let generator = questions(&file, Input::Filtered, 20);
    let mut environment = generator.environment();
    let (mut abstentions, mut found) = (0, 0);
    for task in generator.in_order() {
        for (answer, count) in
            [(TimeQa::reference(&task), &mut found), ("No Answer".to_owned(), &mut abstentions)]
        {
            environment.reset(&task, 0).unwrap();
            let text = format!("<think>\n?\n</think>\n\n<answer>\n{answer}\n</answer>");
            environment.step(&Message::assistant(text)).unwrap();
            let verdict = environment.verify().unwrap();
            assert!(verdict.rewards["format"] == 0.5);
            *count += usize::from(verdict.success);
        }
    }
    assert_eq!((found, abstentions), (989, 159));
}

#[test]
fn it_demonstrates_nothing_and_says_that_it_is_a_test_set() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.json");
    let page = json!([{
        "index": "/wiki/X#P54", "type": "P54", "link": "/wiki/X", "paras": ["X", "X was at Y in 1912 ."],
        "questions": [
            ["Where was X in 1912?", [{"para": 1, "from": 9, "end": 10, "answer": "Y"}]],
            ["Where was X in 1913?", [{"para": 0, "from": 0, "end": 0, "answer": ""}]],
        ],
    }]);
    std::fs::write(&file, page.to_string()).unwrap();
    let generator = build("timeqa", &json!({"path": file, "input": "quadruples"})).unwrap();
    let set = generator.tasks(1, 3).unwrap();
    let of =
        |answerable: &str| set.tasks.iter().find(|task| task.labels["answerable"] == answerable).unwrap();
    assert!(
        of("yes").prompt[0].content.contains("(X; X was at; Y; 1912)"),
        "{}",
        of("yes").prompt[0].content
    );
    assert_eq!((TimeQa::reference(of("yes")), TimeQa::reference(of("no"))), ("Y".into(), "No Answer".into()));
    assert!(generator.demonstrations().is_none());
    assert!(generator.evaluation_only().unwrap().contains("never for training"));
    assert!(generator.draw(of("no"), Some("<answer>no answer</answer>")).contains("\"answer\": 1.0"));

    std::fs::write(&file, "[{\"paras\": 3}]").unwrap();
    let refused = |config| build("timeqa", &config).err().unwrap().to_string();
    assert!(refused(json!({"path": file})).contains("t.json: is not TimeQA's human_annotated_test.json"));
    assert!(refused(json!({})).starts_with("path: name TimeQA's"));
    assert!(refused(json!({"path": folder.path().join("none")})).contains("can't be read"));
    assert!(refused(json!({"path": "x", "quadruples": 0})).starts_with("quadruples: 0 is out of range"));
}
