//! Real tables with proxy masks: what of WikiTableQuestions and TabFact is left, and what is refused.

use std::path::{Path, PathBuf};

use burnish_core::{Message, Task, Verdict, settings};
use burnish_env::tables::{Tables, Truth, cells};
use burnish_env::{Demonstrations, Generator, build};
use serde_json::{Value, json};

fn real(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    if !folder.is_dir() {
        println!("skipped: there is no {}", folder.display());
        return None;
    }
    Some(folder)
}

fn tables(config: Value) -> Tables {
    Tables::new(settings::read(&config).unwrap()).unwrap()
}

fn judged(generator: &Tables, task: &Task, answer: &str) -> Verdict {
    let mut environment = generator.environment();
    environment.reset(task, 0).unwrap();
    environment.step(&Message::assistant(answer)).unwrap();
    environment.verify().unwrap()
}

/// What holds for every task of a real set; the number of tasks, and the mean shares of cells that are marked and that
/// the plan looks at.
fn checked(generator: &Tables) -> (usize, f64, f64) {
    let (mut marked, mut looked) = (0.0, 0.0);
    let tasks = generator.family().in_order().unwrap();
    for task in &tasks {
        let truth = Truth::of(task).unwrap();
        let (rows, columns) = truth.size();
        assert!(truth.is_proxy() && truth.table.len() <= 64 && task.labels["op"] == "proxy");
        let prompt = &task.prompt[0].content;
        let spans = cells(prompt);
        assert_eq!(spans.len(), rows * columns, "{prompt}");
        for span in spans {
            assert_eq!(truth.table.cell(span.row, span.column), Some(&prompt[span.bytes]));
        }
        let proxy = truth.proxy.as_ref().unwrap();
        assert!(
            proxy.iter().all(|(row, column)| truth.gold.0[0].rows[*row] && truth.gold.0[0].columns[*column])
        );
        marked += proxy.len() as f64 / truth.table.len() as f64;
        looked += truth.gold.0[0].cells().count() as f64 / truth.table.len() as f64;
        let verdict = judged(generator, task, &generator.demonstrate(task).unwrap().content);
        assert!(verdict.success && verdict.flags["proxy_exact"] && verdict.rewards["proxy_mask_f1"] == 1.0);
    }
    (tasks.len(), marked / tasks.len() as f64, looked / tasks.len() as f64)
}

#[test]
fn what_is_left_of_wikitablequestions() {
    let Some(folder) = real("wikitablequestions") else { return };
    for (file, asked) in [("random-split-1-dev.tsv", 2831), ("pristine-unseen-tables.tsv", 4344)] {
        let generator = tables(json!({"source": folder, "file": file, "rewards": ["mask_f1", "plan"]}));
        let (count, marked, looked) = checked(&generator);
        let set = generator.tasks(1, 10).unwrap();
        println!("{:?}\n{marked:.3} of cells are marked, plans look at {looked:.3}", set.cells);
        assert_eq!((set.cells[0].drawn, set.cells[0].made), (asked, count));
        assert_eq!(set.cells[0].dropped.values().sum::<usize>() + count, asked);
        assert!(count > 500 && marked < looked, "{count}");
        assert_eq!(generator.evaluation_only().is_some(), file.starts_with("pristine"));
    }
}

#[test]
fn what_is_left_of_tabfact() {
    let Some(folder) = real("tabfact") else { return };
    let generator = tables(json!({"source": folder, "rewards": ["plan"]}));
    let count = generator.tasks(1, 1).unwrap().cells[0].made;
    let set = generator.tasks(1, 40).unwrap();
    println!("{:?}", set.cells);
    assert!(count > 5000, "{count}");
    assert!(generator.evaluation_only().is_some());
    assert!(set.tasks.iter().all(|task| task.labels.contains_key("entailed")));
}

#[test]
fn real_tables_are_read_from_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let refused = |config: Value| build("tables", &config).err().unwrap().to_string();
    let config = |file: &str| json!({"source": folder.path(), "file": file, "rewards": ["mask_f1"]});
    let missing = json!({"source": path("none"), "rewards": ["plan"]});
    assert!(refused(missing).starts_with("source: there is no directory"));
    assert!(refused(config("")).contains("has no tables.jsonl.gz or tables.jsonl"));

    let csv = "\"Team\",\"Points\"\n\"Wolfe Tones\",\"1\"\n\"Crettyard | B\",\"\"\n";
    let ragged = "\"a\",\"b\"\n\"c\"\n";
    let wiki: Vec<String> = [("t.csv", csv), ("r.csv", ragged)]
        .map(|(table, csv)| json!({"table": table, "csv": csv}).to_string())
        .to_vec();
    std::fs::write(path("tables.jsonl"), wiki.join("\n")).unwrap();
    assert!(refused(config("")).contains("has neither random-split-1-dev.tsv nor test_examples.json"));
    assert!(refused(config("q.csv")).starts_with("file: q.csv is neither"));
    assert!(refused(config("q.tsv")).starts_with("file: there is no"));

    let lines = [
        "id\tutterance\tcontext\ttargetValue",
        "nt-1\twho won before crettyard b?\tt.csv\tWolfe Tones|x",
        "nt-2\twho lost?\tt.csv\tnobody",
        "nt-3\twho is c?\tr.csv\tc",
    ];
    std::fs::write(path("q.tsv"), lines.join("\n")).unwrap();
    let generator = tables(json!({
        "source": folder.path(), "file": "q.tsv", "rewards": ["mask_f1", "plan"], "permutations": 2,
    }));
    let set = generator.tasks(1, 2).unwrap();
    let truth = Truth::of(&set.tasks[0]).unwrap();
    assert_eq!(truth.table.rows, [["Wolfe Tones", "1"], ["Crettyard / B", "-"]]);
    assert_eq!(truth.gold.to_string(), "read 1 1 : 1 0");
    assert_eq!(
        (&truth.answer[..], &truth.original[..]),
        ("Wolfe Tones, x", "tables/wikitablequestions/nt-1")
    );
    assert_eq!(set.tasks[1].id.0, "tables/wikitablequestions/nt-1/1");
    assert_eq!(Truth::of(&set.tasks[1]).unwrap().proxy.unwrap(), [(0, 0), (1, 0)]);
    assert_eq!(set.cells[0].dropped.values().copied().collect::<Vec<_>>(), [1, 1]);
    let verdict = judged(&generator, &set.tasks[0], "read 1 0 : 1 0");
    assert!(!verdict.success && (verdict.rewards["proxy_mask_f1"] - 2.0 / 3.0).abs() < 1e-12);
    assert!(verdict.feedback.unwrap().contains("proxy"));
    assert_eq!(judged(&generator, &set.tasks[0], "").rewards["proxy_mask_f1"], 0.0);
    assert!(generator.draw(&set.tasks[0], None).contains("proxy, not a human standard"));
    assert_eq!(generator.files(), [path("tables.jsonl"), path("q.tsv")]);
    assert_eq!(generator.components().unwrap(), ["proxy_mask_f1", "proxy_plan"]);

    let few = json!({"source": folder.path(), "file": "q.tsv", "rewards": ["plan"], "cells_max": 1});
    assert!(refused(few).contains("has no question about a table of at most 1 cells"));
    std::fs::write(path("q.tsv"), "id\nnt-1\twho?\tnone.csv\tx").unwrap();
    assert!(refused(config("q.tsv")).contains("nt-1 is about none.csv"));

    let hashes = json!({"table": "a", "csv": "team#points\r\nwolfe tones#1\r\ncrettyard#2\r\n"});
    std::fs::write(path("tables.jsonl"), hashes.to_string()).unwrap();
    let statements = json!({"a": [["wolfe tones have 2 points", "x be y"], [0, 1], "title"]});
    std::fs::write(path("s.json"), statements.to_string()).unwrap();
    let generator = tables(config("s.json"));
    let tasks = generator.family().in_order().unwrap();
    assert_eq!((tasks.len(), &tasks[0].id.0[..]), (1, "tables/tabfact/a/0"));
    assert_eq!((&tasks[0].labels["entailed"][..], &tasks[0].labels["dataset"][..]), ("no", "tabfact"));
    assert_eq!(Truth::of(&tasks[0]).unwrap().proxy.unwrap(), [(0, 0), (1, 1)]);
    assert!(generator.evaluation_only().is_none());
    assert_eq!(generator.tasks(3, 5).unwrap().tasks.len(), 5);
}
