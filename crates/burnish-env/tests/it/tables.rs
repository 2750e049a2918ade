//! Tables: gold plans lead to the answers that follow from the prompt, masks follow the order of rows and columns, and
//! whatever is said instead is judged as documented.

use std::collections::{BTreeMap, BTreeSet};

use burnish_core::{Message, Task, Verdict, settings};
use burnish_env::tables::{FORMAT, Op, Order, Plan, STEPS_MAX, Step, Table, Tables, Truth, cells, execute};
use burnish_env::{Demonstrations, Generator};
use proptest::prelude::*;
use serde_json::{Value, json};

fn generator(config: Value) -> Tables {
    Tables::new(settings::read(&config).unwrap()).unwrap()
}

fn judged(generator: &Tables, task: &Task, answer: &str) -> Verdict {
    let mut environment = generator.environment();
    environment.reset(task, 0).unwrap();
    environment.step(&Message::assistant(answer)).unwrap();
    environment.verify().unwrap()
}

/// The table in a prompt by its spans, without the header.
fn table_of(prompt: &str) -> Vec<Vec<&str>> {
    let mut rows: Vec<Vec<&str>> = Vec::new();
    for span in cells(prompt) {
        if span.row == rows.len() {
            rows.push(Vec::new());
        }
        assert_eq!((span.row, span.column), (rows.len() - 1, rows[span.row].len()));
        rows[span.row].push(&prompt[span.bytes]);
    }
    rows
}

/// The answer, from the text of the prompt alone.
fn answer_of_prompt(prompt: &str) -> String {
    let rows = table_of(prompt);
    let lines: Vec<&str> = prompt.lines().collect();
    let header: Vec<&str> = lines[0].trim_matches('|').split('|').map(str::trim).collect();
    let question: Vec<&str> = lines[lines.len() - 2].split(' ').collect();
    let column = |name: &str| header.iter().position(|own| *own == name).unwrap();
    let number = |row: &Vec<&str>, name: &str| -> i64 { row[column(name)].parse().unwrap() };
    let of = |name: &str| rows.iter().find(|row| row[column("name")] == name).unwrap();
    match question[..] {
        ["what", "is", "the", "total", of, "where", by, "is", value] => {
            let with = rows.iter().filter(|row| row[column(by)] == value);
            with.map(|row| number(row, of)).sum::<i64>().to_string()
        }
        ["what", "is", "the", what, "of", who] => of(who)[column(what)].to_owned(),
        ["how", "many", "have", by, value] => {
            rows.iter().filter(|row| row[column(by)] == value).count().to_string()
        }
        ["who", "has", "the", which, what] => {
            let sign = if which == "largest" { 1 } else { -1 };
            let mut sorted: Vec<&Vec<&str>> = rows.iter().collect();
            sorted.sort_by_key(|row| sign * number(row, what));
            assert_ne!(number(sorted[rows.len() - 1], what), number(sorted[rows.len() - 2], what));
            sorted[rows.len() - 1][column("name")].to_owned()
        }
        ["is", "the", what, "of", a, which, "than", "the", _, "of", b] => {
            let (a, b) = (number(of(a), what), number(of(b), what));
            assert_ne!(a, b);
            if (a > b) == (which == "larger") { "yes" } else { "no" }.to_owned()
        }
        _ => panic!("{prompt}"),
    }
}

/// The plan with one bit turned round.
fn flipped(plan: &Plan, bit: usize) -> Plan {
    let mut plan = plan.clone();
    let bits = plan.0.iter_mut().flat_map(|step| step.rows.iter_mut().chain(&mut step.columns));
    let mut bits: Vec<&mut bool> = bits.collect();
    let at = bit % bits.len();
    *bits[at] = !*bits[at];
    plan
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn gold_plans_lead_to_the_answers_that_follow_from_the_prompt(
        least in 2_usize..9, more in 0_usize..5, columns in 3_usize..9, words in 2_usize..9, numbered: bool, seed: u64,
    ) {
        let tables = generator(json!({
            "rows": {"min": least, "max": least + more}, "columns": {"min": 3, "max": columns}, "words": words,
            "numbered": numbered, "rewards": ["answer", "mask_f1", "plan"],
        }));
        for task in tables.tasks(seed, 60).unwrap().tasks {
            let prompt = &task.prompt[0].content;
            let truth = Truth::of(&task).unwrap();
            prop_assert_eq!(&table_of(prompt), &truth.table.rows);
            prop_assert!(truth.table.rows.iter().map(|row| &row[0]).collect::<BTreeSet<_>>().len() == truth.size().0);
            let gold = tables.demonstrate(&task).unwrap().content;
            let plan = Plan::parse(&gold, truth.size().0, truth.size().1).unwrap();
            prop_assert_eq!(&plan, &truth.gold);
            let right = answer_of_prompt(prompt);
            prop_assert_eq!(execute(&plan, &truth.table).unwrap(), &right[..]);
            prop_assert_eq!(&truth.answer, &right);
            let verdict = judged(&tables, &task, &gold);
            prop_assert!(verdict.success && verdict.rewards.values().all(|reward| *reward == 1.0));
            prop_assert_eq!(plan.0.len(), 2);
        }
    }

    #[test]
    fn a_plan_with_a_wrong_bit_is_neither_exact_nor_right(seed: u64, bit: usize) {
        let tables = generator(json!({"rewards": ["answer", "mask_f1", "plan"]}));
        for task in tables.tasks(seed, 30).unwrap().tasks {
            let wrong = flipped(&Truth::of(&task).unwrap().gold, bit).to_string();
            let verdict = judged(&tables, &task, &wrong);
            prop_assert_eq!((verdict.rewards["answer"], verdict.rewards["plan"]), (0.0, 0.0), "{}", wrong);
            prop_assert!(verdict.rewards["mask_f1"] < 1.0 && !verdict.success && !verdict.flags["exact"]);
            prop_assert!(verdict.feedback.is_some());
        }
    }

    #[test]
    fn versions_have_the_masks_of_their_original_in_their_order(
        shuffle in prop::sample::select(vec!["rows", "columns", "both"]), seed: u64,
    ) {
        let tables = generator(json!({"permutations": 4, "shuffle": shuffle}));
        let tasks = tables.tasks(seed, 40).unwrap().tasks;
        for versions in tasks.chunks(4) {
            let original = Truth::of(&versions[0]).unwrap();
            prop_assert_eq!(&original.original, &versions[0].id.0);
            for (number, task) in versions.iter().enumerate() {
                let truth = Truth::of(task).unwrap();
                prop_assert_eq!(&task.labels["permutation"], &number.to_string());
                prop_assert_eq!(&truth.original, &original.original);
                prop_assert_eq!(number > 0, task.id.0 == format!("{}/{number}", original.original));
                prop_assert_eq!(&truth.question, &original.question);
                let Order { rows, columns } = &truth.order;
                let is_moved = |order: &[usize]| !order.is_sorted();
                prop_assert_eq!(is_moved(rows), number > 0 && shuffle != "columns");
                prop_assert_eq!(is_moved(columns), number > 0 && shuffle != "rows");
                let (height, width) = original.size();
                for row in 0..height {
                    for column in 0..width {
                        prop_assert_eq!(
                            truth.table.cell(row, column), original.table.cell(rows[row], columns[column])
                        );
                        for (mask, original) in truth.masks().iter().zip(original.masks()) {
                            let was = original[rows[row] * width + columns[column]];
                            prop_assert_eq!(mask[row * width + column], was);
                        }
                    }
                }
                prop_assert_eq!(&table_of(&task.prompt[0].content), &truth.table.rows);
                prop_assert_eq!(execute(&truth.gold, &truth.table).unwrap(), original.answer.clone());
                prop_assert!(judged(&tables, task, &truth.gold.to_string()).success);
                // Back again.
                let place = |order: &[usize]| {
                    (0..order.len()).map(|was| order.iter().position(|at| *at == was).unwrap()).collect()
                };
                let back = Order { rows: place(rows), columns: place(columns) };
                prop_assert_eq!(truth.permuted(&back).unwrap(), original.clone());
            }
        }
    }

    #[test]
    fn the_text_of_a_plan_is_read_as_the_plan(
        steps in prop::collection::vec(
            (0_usize..9, prop::collection::vec(any::<bool>(), 5), prop::collection::vec(any::<bool>(), 3)),
            1..=STEPS_MAX,
        ),
    ) {
        let step = |(op, rows, columns): (usize, Vec<bool>, Vec<bool>)| Step { op: Op::ALL[op], rows, columns };
        let plan = Plan(steps.into_iter().map(step).collect());
        prop_assert_eq!(Plan::parse(&plan.to_string(), 5, 3).unwrap(), plan.clone());
        prop_assert_eq!(plan.mask_f1(&plan), 1.0);
        prop_assert!(Plan::parse(&plan.to_string(), 5, 4).is_err());
        prop_assert!(Plan::parse(&plan.to_string(), 4, 3).is_err());
        for step in &plan.0 {
            let marked: Vec<(usize, usize)> =
                step.mask().iter().enumerate().filter(|(_, bit)| **bit).map(|(at, _)| (at / 3, at % 3)).collect();
            prop_assert_eq!(step.cells().collect::<Vec<_>>(), marked);
        }
    }

    #[test]
    fn any_text_is_judged(
        text in prop_oneof![
            ".{0,60}",
            prop::collection::vec(prop::sample::select(vec![
                "find", "read", "max", "min", "filter", "count", "sum", "larger", "smaller", "0", "1", ":", ";", "x",
            ]), 0..40).prop_map(|words| words.join(" ")),
        ],
        masks in prop::collection::vec((0_usize..9, any::<u16>(), any::<u8>()), 1..=STEPS_MAX),
        seed: u64,
    ) {
        let tables = generator(json!({"rewards": ["answer", "mask_f1", "plan"]}));
        let task = &tables.tasks(seed, 1).unwrap().tasks[0];
        let (rows, columns) = Truth::of(task).unwrap().size();
        let well_formed = Plan(masks.into_iter().map(|(op, row_bits, column_bits)| Step {
            op: Op::ALL[op],
            rows: (0..rows).map(|at| row_bits >> at & 1 == 1).collect(),
            columns: (0..columns).map(|at| column_bits >> at & 1 == 1).collect(),
        }).collect());
        prop_assert!(!judged(&tables, task, &well_formed.to_string()).flags["parse_error"]);
        let verdict = judged(&tables, task, &text);
        prop_assert!(verdict.is_scored());
        let is_malformed = Plan::parse(&text, rows, columns).is_err();
        prop_assert_eq!(verdict.flags["parse_error"], is_malformed);
        prop_assert!(!is_malformed || verdict.rewards.values().all(|reward| *reward == 0.0));
    }
}

#[test]
fn malformed_plans_are_refused_with_the_reason() {
    for (text, reason) in [
        (" \n", "there is no plan"),
        ("jump 1 0 : 1 0 0", "step 1 begins with `jump`, which is no operation"),
        ("read 1 0 : 1 0 0 ;", "step 2 begins with ``, which is no operation"),
        ("read 1 0 0 : 1 0 0", "step 1 has 3 bits for 2 rows"),
        ("read 1 0 : 1 0 0 ; read 1 0 : 1 0", "step 2 has 2 bits for 3 columns"),
        ("read 1 2 : 1 0 0", "step 1 has `2` where 0 or 1 is expected"),
        ("read 10 : 1 0 0", "step 1 has `10` where 0 or 1 is expected"),
        ("read 1 0 1 0 0", "step 1 has 0 `:`; there is one, between the bits of rows and those of columns"),
        ("read 1 0 : 1 0 0 : 1", "step 1 has 2 `:`"),
        ("Read 1 0 : 1 0 0", "step 1 begins with `Read`"),
        (&["read 1 0 : 1 0 0"; 5].join(" ; "), "the plan has 5 steps; at most 4 are allowed"),
    ] {
        let found = Plan::parse(text, 2, 3).unwrap_err().to_string();
        assert!(found.starts_with(reason), "{text}: {found}");
    }
    assert!(Plan::parse("  read 1  0 :\n1 0 0 ", 2, 3).is_ok());
}

#[test]
fn an_operation_with_a_mask_that_makes_no_sense_has_no_answer() {
    let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
    let table = Table {
        header: row(["name", "age", "city", "cost"]),
        rows: vec![
            row(["ada", "31", "rome", "9"]),
            row(["bob", "25", "oslo", "9"]),
            row(["cyd", "44", "rome", "7"]),
        ],
    };
    let run = |text: &str| match execute(&Plan::parse(text, 3, 4).unwrap(), &table) {
        Ok(answer) => answer,
        Err(error) => error.to_string(),
    };
    for (plan, said) in [
        ("read 0 1 0 : 0 0 1 0", "oslo"),
        ("find 1 0 0 : 1 0 0 0 ; read 1 0 0 : 0 1 0 0", "31"),
        ("filter 1 1 1 : 0 0 1 0 ; sum 1 0 1 : 0 1 0 0", "75"),
        ("read 1 0 0 : 0 1 0 0 ; smaller 0 0 1 : 0 1 0 0", "yes"),
        ("read 1 1 0 : 0 1 0 0", "step 1, read: it looks at one cell, no more and no fewer"),
        ("read 0 0 0 : 1 1 1 1", "step 1, read: it looks at one cell, no more and no fewer"),
        ("find 1 0 0 : 0 1 0 0 ; read 1 0 0 : 0 1 0 0", "step 1, find: it looks at a name"),
        ("find 1 0 0 : 1 0 0 0 ; read 0 1 0 : 0 1 0 0", "step 2, read: it reads in the row that was taken"),
        ("max 1 1 0 : 0 1 0 0 ; read 1 0 0 : 1 0 0 0", "step 1, max: it looks at every row"),
        ("max 1 1 1 : 0 1 0 1 ; read 1 0 0 : 1 0 0 0", "step 1, max: it looks at cells of one column"),
        ("max 1 1 1 : 0 0 1 0 ; read 1 0 0 : 1 0 0 0", "step 1, max: it looks at numbers"),
        ("max 1 1 1 : 0 0 0 1 ; read 1 0 0 : 1 0 0 0", "step 1, max: two rows have the same number"),
        ("min 1 1 1 : 0 0 0 1 ; read 0 0 1 : 1 0 0 0", "cyd"),
        ("max 1 1 1 : 0 1 0 0", "step 1, max: the plan ends here, and this step says nothing"),
        ("count 1 0 1 : 0 0 1 0", "step 1, count: it comes after a filter"),
        (
            "filter 1 1 1 : 0 0 1 0 ; count 1 0 1 : 0 1 0 0",
            "step 2, count: it looks at the column that was filtered",
        ),
        ("filter 1 1 1 : 0 0 1 0 ; count 0 0 0 : 0 0 1 0", "step 2, count: it looks at cells of one column"),
        (
            "filter 1 1 1 : 0 0 1 0 ; sum 1 1 1 : 0 1 0 0",
            "step 2, sum: its rows have different values in the column that was filtered",
        ),
        ("larger 1 0 0 : 0 1 0 0", "step 1, larger: it comes after a read"),
        (
            "read 1 0 0 : 0 1 0 0 ; larger 1 0 0 : 0 1 0 0",
            "step 2, larger: it looks at the column that was read, in another row",
        ),
        ("read 1 0 0 : 0 0 0 1 ; larger 0 1 0 : 0 0 0 1", "step 2, larger: the two numbers are equal"),
        ("read 1 0 0 : 0 0 1 0 ; larger 0 1 0 : 0 0 1 0", "step 2, larger: it looks at numbers"),
    ] {
        assert_eq!(run(plan), said, "{plan}");
    }
    let error = execute(&Plan(vec![]), &table).unwrap_err();
    assert_eq!(error.step, 0);
    let small = Plan::parse("read 1 : 1", 1, 1).unwrap();
    assert!(execute(&small, &table).unwrap_err().to_string().contains("a table of another size"));
}

#[test]
fn masks_are_compared_cell_by_cell_and_step_by_step() {
    let plan = |text: &str| Plan::parse(text, 2, 3).unwrap();
    let gold = plan("filter 1 1 : 0 1 0 ; count 1 0 : 0 1 0");
    for (other, f1) in [
        ("filter 1 1 : 0 1 0 ; count 1 0 : 0 1 0", 1.0),
        // The operations do not matter.
        ("max 1 1 : 0 1 0 ; read 1 0 : 0 1 0", 1.0),
        ("filter 1 0 : 0 1 0 ; count 1 0 : 0 1 0", (2.0 / 3.0 + 1.0) / 2.0),
        ("filter 1 1 : 1 1 1 ; count 1 0 : 0 1 0", (0.5 + 1.0) / 2.0),
        ("filter 1 1 : 0 1 0", 0.5),
        ("filter 1 1 : 0 1 0 ; count 1 0 : 0 1 0 ; read 0 0 : 0 0 0 ; read 1 0 : 1 0 0", 0.5),
        ("filter 0 0 : 0 1 0 ; count 1 0 : 0 0 1", 0.0),
    ] {
        assert!((plan(other).mask_f1(&gold) - f1).abs() < 1e-12, "{other}: {}", plan(other).mask_f1(&gold));
    }
}

#[test]
fn a_right_answer_may_have_another_plan() {
    let tables = generator(json!({"ops": ["lookup"], "rewards": ["answer", "mask_f1", "plan"]}));
    let task = &tables.tasks(3, 1).unwrap().tasks[0];
    let mut short = Truth::of(task).unwrap().gold;
    short.0.remove(0);
    let verdict = judged(&tables, task, &short.to_string());
    assert_eq!((verdict.success, verdict.rewards["plan"], verdict.rewards["mask_f1"]), (true, 0.0, 0.0));
    assert!(!verdict.flags["exact"] && !verdict.flags["no_answer"] && verdict.feedback.is_none());
}

#[test]
fn shares_are_even_and_the_same_seed_gives_the_same_tasks() {
    let tables = generator(json!({}));
    assert_eq!(tables.tasks(5, 60).unwrap(), tables.tasks(5, 60).unwrap());
    assert_ne!(tables.tasks(5, 60).unwrap(), tables.tasks(6, 60).unwrap());
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    let (mut yes, mut tokens) = (0, BTreeMap::new());
    let set = tables.tasks(1, 3000).unwrap();
    for task in &set.tasks {
        *counts.entry((task.labels["op"].clone(), task.labels["rows"].clone())).or_default() += 1;
        yes += usize::from(Truth::of(task).unwrap().answer == "yes");
        let words = tables.demonstrate(task).unwrap().content.split(' ').count();
        tokens.insert((task.labels["rows"].clone(), task.labels["columns"].clone()), words);
        assert!(task.prompt[0].content.split_whitespace().count() < 150);
    }
    assert_eq!((counts.len(), set.cells.len()), (30, 30));
    assert!(counts.values().all(|count| *count == 100), "{counts:?}");
    assert!((200..300).contains(&yes), "{yes}");
    // Two steps: an operation, the bits, a colon; and one semicolon.
    for ((rows, columns), words) in tokens {
        assert_eq!(words, 2 * (rows.parse::<usize>().unwrap() + columns.parse::<usize>().unwrap() + 2) + 1);
    }
    let ids: BTreeSet<_> = set.tasks.iter().map(|task| &task.id).collect();
    assert!(ids.len() > 2990, "{}", ids.len());
    let mut task = tables.tasks(5, 1).unwrap().tasks.remove(0);
    for (key, value) in [
        ("gold", json!([])),
        ("gold", json!([{"op": "read", "rows": [true], "columns": [true]}])),
        ("order", json!({"rows": [0], "columns": [0]})),
        ("table", json!({"header": ["name"], "rows": []})),
        ("more", json!(1)),
    ] {
        let whole = task.truth.clone();
        task.truth[key] = value;
        let error = Truth::of(&task).unwrap_err().to_string();
        assert!(error.contains("is not one of tables"), "{error}");
        task.truth = whole;
    }
    assert!(Truth::of(&task).unwrap().permuted(&Order { rows: vec![0, 0], columns: vec![0] }).is_none());
}

#[test]
fn the_examples_of_the_page_are_right() {
    let page = include_str!("../../../../docs/environments/tables.md");
    let blocks: Vec<&str> = page.split("```").collect();
    let (prompt, plan) = (blocks[1].trim(), blocks[3].trim());
    assert_eq!(prompt.lines().last(), Some(FORMAT));
    let header = ["name", "pet", "age"].map(str::to_owned).to_vec();
    let rows =
        table_of(prompt).iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect();
    let answer = execute(&Plan::parse(plan, 4, 3).unwrap(), &Table { header, rows }).unwrap();
    assert_eq!(answer, answer_of_prompt(prompt));
    assert!(page.contains("answers `ola`") && answer == "ola");
    for (question, answer) in [
        ("what is the age of mia", "12"),
        ("how many have pet cat", "2"),
        ("is the age of gus larger than the age of mia", "yes"),
        ("what is the total age where pet is cat", "78"),
    ] {
        assert!(
            page.contains(&format!("`{question}`")) && page.contains(&format!("| `{answer}` |")),
            "{question}"
        );
        assert_eq!(answer_of_prompt(&prompt.replace("who has the largest age", question)), answer);
    }
}

#[test]
fn the_cells_of_an_answer_are_those_of_its_plan_and_its_text_is_where_it_says() {
    let generator = burnish_env::build("tables", &json!({"permutations": 2})).unwrap();
    let cells = generator.cells().unwrap();
    for task in generator.tasks(5, 40).unwrap().tasks {
        let truth = Truth::of(&task).unwrap();
        let answer = truth.gold.to_string();
        let steps = cells.steps(&task, &answer).unwrap();
        assert_eq!(steps.iter().map(|step| step.own.clone()).collect::<Vec<_>>(), truth.masks());
        for (step, planned) in steps.iter().zip(&truth.gold.0) {
            assert_eq!(step.right.as_ref(), Some(&step.own));
            assert!(answer[step.text.clone()].trim().starts_with(planned.op.name()));
            assert!(!answer[step.text.clone()].contains(';'));
        }
        assert_eq!(cells.outcome(&task, &answer), cells.right_outcome(&task));
        assert_eq!(cells.original(&task), truth.original);
        // A step too many has no right cells, and what is no plan has no steps.
        let longer = format!("{answer} ; {}", truth.gold.0[0].op.name());
        assert_eq!(cells.steps(&task, &longer), None);
        let twice = format!("{answer} ; {answer}");
        assert_eq!(cells.steps(&task, &twice).unwrap()[2].right, None);
        let text = format!("<|im_start|>user\n{}", task.prompt[0].content);
        let found: Vec<&str> = cells.cells(&text).into_iter().map(|bytes| &text[bytes]).collect();
        assert_eq!(found, truth.table.rows.concat());
    }
}
