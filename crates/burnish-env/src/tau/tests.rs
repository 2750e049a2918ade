//! Properties of tasks and episodes, on a small folder of the benchmark's form.

use std::path::Path;

use burnish_core::{FunctionCall, Repeating, ToolCall};
use serde_json::json;
use tempfile::TempDir;

use super::world::World;
use super::*;
use crate::rollout::{Overlong, RolloutSpec, SeedPlace, Spawn, play};
use crate::scripted::Scripted;
use crate::{Question, Step};
use burnish_core::Sampling;

/// Ann has one delivered order of a red cup for 10; a blue one costs 12.5.
fn database() -> Value {
    let variant = |id: &str, color: &str, price: f64| json!({"item_id": id, "options": {"color": color}, "available": true, "price": price});
    let address = json!({"address1": "1", "address2": "", "city": "Bern", "country": "CH", "state": "BE", "zip": "30000"});
    json!({
        "products": {"100": {"name": "Cup", "product_id": "100",
            "variants": {"1": variant("1", "red", 10.0), "2": variant("2", "blue", 12.5)}}},
        "users": {"ann_lee_1": {"user_id": "ann_lee_1", "name": {"first_name": "Ann", "last_name": "Lee"}, "address": address,
            "email": "ann@example.com", "payment_methods": {"paypal_1": {"source": "paypal", "id": "paypal_1"}}, "orders": ["#W1"]}},
        "orders": {"#W1": {"order_id": "#W1", "user_id": "ann_lee_1", "address": address, "status": "delivered",
            "items": [{"name": "Cup", "product_id": "100", "item_id": "1", "price": 10.0, "options": {"color": "red"}}],
            "fulfillments": [], "payment_history":
                [{"transaction_type": "payment", "amount": 10.0, "payment_method_id": "paypal_1"}]}},
    })
}

fn exchange() -> Value {
    json!({"order_id": "#W1", "item_ids": ["1"], "new_item_ids": ["2"], "payment_method_id": "paypal_1"})
}

fn row(id: &str, actions: Value, told: &[&str], basis: &[&str], assertions: &[&str]) -> Value {
    json!({
        "id": id, "description": {}, "initial_state": null,
        "user_scenario": {"persona": null, "instructions": {"domain": "retail", "task_instructions": "You are in a hurry.",
            "reason_for_call": "You want to exchange your cup in order #W1 for a blue one. You also want to know what it costs.",
            "known_info": "You are Ann Lee in zip code 30000.", "unknown_info": "You do not remember your email address."}},
        "evaluation_criteria": {"actions": actions, "communicate_info": told, "nl_assertions": assertions, "reward_basis": basis},
    })
}

fn action(name: &str, arguments: Value) -> Value {
    json!({"action_id": "0", "name": name, "arguments": arguments, "info": null})
}

fn rows() -> Vec<Value> {
    let gold = json!([
        action("get_order_details", json!({"order_id": "#W1"})),
        action("exchange_delivered_order_items", exchange()),
    ]);
    vec![
        row("0", gold.clone(), &["2.5"], &["DB", "COMMUNICATE"], &[]),
        row("1", json!([]), &[], &["DB", "NL_ASSERTION"], &["Agent is kind."]),
        row("2", gold.clone(), &["2.5"], &["DB", "ACTION"], &[]),
        row(
            "3",
            json!([action("get_order_details", json!({"order_id": "#W1"}))]),
            &["12.5"],
            &["DB", "NL_ASSERTION"],
            &["x"],
        ),
    ]
}

/// A folder with a domain retail, with these tasks and this database.
fn folder(rows: &[Value], database: &Value) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let retail = folder.path().join("retail");
    std::fs::create_dir(&retail).unwrap();
    std::fs::write(retail.join("db.json"), database.to_string()).unwrap();
    std::fs::write(retail.join("tasks.json"), Value::from(rows).to_string()).unwrap();
    std::fs::write(retail.join("policy.md"), "# Be good.\n").unwrap();
    std::fs::write(retail.join("split_tasks.json"), json!({"test": ["2", "0"], "odd": ["7"]}).to_string())
        .unwrap();
    folder
}

/// Ann's shop, with a task that exchanges one of her cups and then wants two things at once, which is refused; or with one that
/// serves nobody.
pub(crate) fn shop(serves_ann: bool) -> TempDir {
    let swap = |items: &[&str], new: &[&str]| json!({"order_id": "#W2", "item_ids": items, "new_item_ids": new, "payment_method_id": "paypal_1"});
    let all = json!([
        action("find_user_id_by_email", json!({"email": "ann.lee@example.com"})),
        action(
            "return_delivered_order_items",
            json!({"order_id": "#W2", "item_ids": ["1", "5"], "payment_method_id": "paypal_1"})
        ),
    ]);
    let one = json!([
        action("cancel_pending_order", json!({"order_id": "#W1", "reason": "ordered by mistake"})),
        action("exchange_delivered_order_items", swap(&["1"], &["4"])),
        action("exchange_delivered_order_items", swap(&["1"], &["2"])),
    ]);
    let database = World::Retail(Box::new(retail::tests::shop())).whole();
    match serves_ann {
        true => folder(&[row("7", all, &[], &["DB"], &[]), row("8", one, &[], &["DB"], &[])], &database),
        false => folder(&[row("9", json!([]), &[], &["DB"], &[])], &database),
    }
}

fn generator(folder: &Path, more: Value) -> Result<Tau, EnvError> {
    let mut config = json!({"path": folder.display().to_string(), "domain": ["retail"]});
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    Tau::new(settings::read(&config)?)
}

fn small(more: Value) -> (TempDir, Tau) {
    let folder = folder(&rows(), &database());
    let generator = generator(folder.path(), more).unwrap();
    (folder, generator)
}

fn problem(rows: &[Value], database: &Value, more: Value) -> String {
    generator(folder(rows, database).path(), more).unwrap_err().to_string()
}

#[test]
fn a_task_reads_like_this() {
    let (_folder, generator) = small(json!({}));
    let task = &generator.in_order().unwrap()[0];
    assert_eq!(task.id.0, "tau/tau2/retail/0");
    assert_eq!(
        task.prompt,
        [
            Message::system("# Be good."),
            Message::user("I want to exchange my cup in order #W1 for a blue one.")
        ]
    );
    let labels =
        ["set", "domain", "changes", "tells", "unjudged_assertions"].map(|name| task.labels[name].as_str());
    assert_eq!(labels, ["tau2", "retail", "yes", "yes", "no"]);
    let said: Vec<String> = generator.demonstrate_episode(task).unwrap()[2..]
        .iter()
        .map(|it| {
            it.tool_calls
                .first()
                .map_or_else(|| it.content.chars().take(40).collect(), |call| call.function.name.clone())
        })
        .collect();
    let wanted = [
        "get_order_details",
        "{\"order_id\": \"#W1\", \"user_id\": \"ann_lee_",
        "exchange_delivered_order_items",
        "{\"order_id\": \"#W1\", \"user_id\": \"ann_lee_",
        "That is done. You should know: 2.5.",
        "I also want to know what it costs.",
        "That is done.",
    ];
    assert_eq!(said, wanted);
    let drawn = generator.draw(task, None);
    assert!(drawn.contains("tell: 2.5") && drawn.contains("exchange_delivered_order_items"), "{drawn}");
}

#[test]
fn tasks_are_drawn_without_repetition_and_splits_are_kept() {
    let (folder, all) = small(json!({}));
    let ids = |generator: &Tau, seed: u64, count: usize| -> Vec<String> {
        let tasks = generator.tasks(seed, count).unwrap().tasks;
        tasks.iter().map(|task| task.id.0.rsplit('/').next().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&all, 7, 4), ["0", "1", "2", "3"], "all are in the order of the file");
    for seed in 0..20 {
        let mut drawn = ids(&all, seed, 3);
        assert_eq!(drawn, ids(&all, seed, 3));
        drawn.sort();
        drawn.dedup();
        assert_eq!(drawn.len(), 3);
    }
    assert!((0..20).any(|seed| ids(&all, seed, 3) != ids(&all, 0, 3)));
    let split = generator(folder.path(), json!({"split": "test"})).unwrap();
    assert_eq!(ids(&split, 0, 2), ["0", "2"]);
    for (split, wanted) in
        [("tests", "did you mean `test`?; there are odd, test"), ("odd", "odd: there is no task `7`")]
    {
        let error = generator(folder.path(), json!({"split": split})).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

/// An episode in which the policy does these things: a call, or something said.
fn played(generator: &Tau, at: usize, steps: &[Result<(&str, Value), &str>]) -> burnish_core::Verdict {
    let task = &generator.in_order().unwrap()[at];
    let mut environment = generator.environment();
    environment.reset(task, 0).unwrap();
    for step in steps {
        match step {
            Ok((name, arguments)) => {
                let function = FunctionCall { name: (*name).to_owned(), arguments: arguments.clone() };
                let said = environment.call(&function, "").unwrap();
                let answer =
                    Message { tool_calls: vec![ToolCall { id: None, function }], ..Message::assistant("") };
                environment.called(&answer, &[Message::new(burnish_core::Role::Tool, said)]);
            }
            Err(said) => {
                if environment.step(&Message::assistant(*said)).unwrap() == Step::Done {
                    break;
                }
            }
        }
    }
    environment.verify().unwrap()
}

#[test]
fn the_verdict_is_the_product_of_what_the_basis_names() {
    let (_folder, generator) = small(json!({}));
    let swap = || Ok(("exchange_delivered_order_items", exchange()));
    let look = || Ok(("get_order_details", json!({"order_id": "#W1"})));
    let (told, end) = (Err("It costs $2.50 more."), [Err("Done."), Err("Done."), Err("Done.")]);
    for (at, steps, rewards, success) in [
        // db, communicate, action
        (0, vec![swap(), told.clone()], [1.0, 1.0, 0.0], true),
        (0, vec![swap()], [1.0, 0.0, 0.0], false),
        (0, vec![told.clone()], [0.0, 1.0, 0.0], false),
        (0, vec![look(), swap(), told.clone()], [1.0, 1.0, 1.0], true),
        (1, vec![], [1.0, 1.0, 1.0], true),
        (1, vec![swap()], [0.0, 1.0, 1.0], false),
        // What is said does not count here, but the calls do.
        (2, vec![look(), swap()], [1.0, 0.0, 1.0], true),
        (2, vec![swap(), told.clone()], [1.0, 1.0, 0.0], false),
        // Here what should be said stands in for assertions.
        (3, vec![], [1.0, 0.0, 0.0], false),
        (3, vec![Err("It costs 12.50.")], [1.0, 1.0, 0.0], true),
    ] {
        let verdict = played(&generator, at, &[&steps[..], &end[..]].concat());
        assert_eq!(
            ["db", "communicate", "action"].map(|name| verdict.rewards[name]),
            rewards,
            "{at} {steps:?}"
        );
        assert_eq!(
            (verdict.success, verdict.rewards["score"]),
            (success, f64::from(u8::from(success))),
            "{at} {steps:?}"
        );
        assert_eq!(verdict.feedback.is_none(), success);
        assert_eq!(verdict.flags["unjudged_assertions"], at % 2 == 1);
    }
    assert_eq!(generator.floor(), 1);
}

#[test]
fn an_episode_that_does_not_come_to_its_end_has_failed() {
    let (folder, all) = small(json!({}));
    let verdict = played(&all, 1, &[Err("What is your name?")]);
    assert!(!verdict.success && verdict.flags["unfinished"] && verdict.rewards["db"] == 1.0);
    let verdict = played(
        &all,
        1,
        &[Ok(("get_order_details", json!({"order_id": "W1"}))), Err("No."), Err("No."), Err("No.")],
    );
    assert!(verdict.success && verdict.flags["refused"] && verdict.flags["untouched"]);
    assert_eq!(
        ["calls", "writes", "messages", "asked"].map(|name| verdict.metrics[name]),
        [1.0, 0.0, 2.0, 0.0]
    );
    let short = generator(folder.path(), json!({"turns": 2})).unwrap();
    let verdict = played(&short, 1, &[Err("What is your name?"), Err("And your zip code?"), Err("No.")]);
    assert!(!verdict.success && verdict.flags["left"] && !verdict.flags["unfinished"]);
    assert_eq!(verdict.metrics["asked"], 2.0);
    let handed = Ok(("transfer_to_human_agents", json!({"summary": "x"})));
    let verdict = played(&all, 1, &[handed, Err("Goodbye?")]);
    assert!(verdict.success && verdict.flags["transferred"] && verdict.metrics["messages"] == 1.0);
}

#[test]
fn somebody_else_can_play_the_user() {
    let (_folder, generator) = small(json!({"user": "policy"}));
    let task = &generator.in_order().unwrap()[1];
    let mut environment = generator.environment();
    assert_eq!(environment.reset(task, 0).unwrap()[1], Message::user(user::HELLO));
    let Step::Ask(Question { who, messages }) =
        environment.step(&Message::assistant("<think>?</think>How can I help?")).unwrap()
    else {
        panic!("nobody was asked")
    };
    assert_eq!((who.as_str(), &messages.last().unwrap().content), ("user", &"How can I help?".to_owned()));
    assert!(messages[0].content.contains("a blue one"));
    assert!(environment.step(&Message::assistant("Hello?")).is_err(), "the user has not answered yet");
    let heard = environment.hear(&Message::assistant("A blue cup, please.")).unwrap();
    assert_eq!(heard, Step::Continue(vec![Message::user("A blue cup, please.")]));
    let Step::Ask(Question { messages, .. }) = environment.step(&Message::assistant("No.")).unwrap() else {
        panic!("nobody was asked")
    };
    assert_eq!(messages[messages.len() - 2], Message::assistant("A blue cup, please."));
    assert_eq!(environment.hear(&Message::assistant("Bye. ###STOP###")).unwrap(), Step::Done);
    assert!(environment.verify().unwrap().success);
    assert!(environment.hear(&Message::assistant("Hello?")).is_err());
}

/// Through the player, which checks calls by their schemas and keeps a record.
#[test]
fn a_demonstrated_episode_is_played_like_any_other() {
    let (_folder, generator) = small(json!({}));
    for task in generator.in_order().unwrap() {
        let messages = generator.demonstrate_episode(&task).unwrap();
        let mut answers: Vec<Message> =
            messages.iter().filter(|it| it.role == burnish_core::Role::Assistant).cloned().collect();
        let place = SeedPlace { run: 3, stage: 0, step: 1, task_offset: 0 };
        let spawns = Spawn::of_tasks(std::slice::from_ref(&task), 1, &Sampling::at(1.0, 16), place);
        let spec = RolloutSpec {
            generator: &generator,
            partners: None,
            spawns: &spawns,
            turns_max: 20,
            overlong: Overlong::Refuse,
        };
        let episode = play(&mut Scripted::new(|_| (answers.remove(0), Vec::new())), &spec).unwrap().remove(0);
        assert!(episode.verdict.success, "{}: {:?}", task.id, episode.verdict);
        assert_eq!(episode.record.calls.failed, 0);
    }
}

#[test]
fn every_tool_has_a_schema_and_says_what_repeating_it_means() {
    for domain in [Domain::Airline, Domain::Retail] {
        for set in [Set::Tau, Set::Tau2] {
            for spec in world::specs(domain, set) {
                assert!(jsonschema::validator_for(&spec.parameters).is_ok(), "{}", spec.name);
                let described = spec.parameters["properties"]
                    .as_object()
                    .unwrap()
                    .values()
                    .all(|it| it["type"].is_string());
                assert!(described, "{}: {}", spec.name, spec.parameters);
                let repeating = world::repeating(domain, set, &spec.name).unwrap();
                assert_eq!(
                    repeating == Repeating::Rebuilt,
                    world::writes(domain, &spec.name),
                    "{}",
                    spec.name
                );
            }
            assert_eq!(world::repeating(domain, set, "open"), None);
        }
    }
    assert!(
        world::writes(Domain::Retail, "cancel_pending_order") && !world::writes(Domain::Retail, "calculate")
    );
}

#[test]
fn a_wrong_folder_is_an_error_that_says_what_is_wrong_where() {
    let without = |pointer: &str, key: &str| {
        let mut database = database();
        database.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove(key);
        database
    };
    let with = |pointer: &str, value: Value| {
        let mut database = database();
        *database.pointer_mut(pointer).unwrap() = value;
        database
    };
    let criteria = |key: &str, value: Value| {
        let mut row = rows().remove(0);
        row["evaluation_criteria"][key] = value;
        vec![row]
    };
    let mut started = rows().remove(0);
    started["initial_state"] = json!({"x": 1});
    let user = action("get_order_details", json!({}));
    let mut of_user = user.clone();
    of_user["requestor"] = "user".into();
    for (rows, database, wanted) in [
        (rows(), without("", "users"), "db.json: has no table `users`"),
        (rows(), without("/orders/#W1", "status"), "orders.#W1: missing field `status`"),
        (rows(), with("/orders/#W1/user_id", "bob".into()), "orders.#W1: there is no user `bob`"),
        (rows(), with("/orders/#W1/order_id", "#W2".into()), "orders.#W1: its own id is `#W2`"),
        (
            rows(),
            with("/users/ann_lee_1/payment_methods/paypal_1/source", "cash".into()),
            "users.ann_lee_1: unknown variant `cash`",
        ),
        (rows(), with("/products/100/variants/1/price", "x".into()), "products.100: invalid type"),
        (criteria("reward_basis", json!(["LUCK"])), database(), "task 0: unknown variant `LUCK`"),
        (
            criteria("actions", json!([action("fly", json!({}))])),
            database(),
            "task 0: there is no tool `fly`",
        ),
        (
            criteria("actions", json!([of_user])),
            database(),
            "task 0: an action's `requestor` must be \"assistant\"",
        ),
        (criteria("env_assertions", json!([1])), database(), "task 0: `env_assertions` must be empty"),
        (criteria("more", json!([1])), database(), "task 0: unknown field `more`"),
        (vec![started], database(), "task 0: `initial_state` must be null"),
        (vec![], database(), "path: "),
    ] {
        let problem = problem(&rows, &database, json!({}));
        assert!(problem.contains(wanted), "{problem}; wanted {wanted}");
    }
    for (more, wanted) in [
        (json!({"domain": ["airline"]}), "has no tasks of the domain airline: neither airline/tasks.json"),
        (json!({"set": "tau"}), "has no retail/wiki.md (or retail/wiki.md.gz), which holds the policy"),
        (json!({"path": "/no/such"}), "path: `/no/such` is not a folder"),
    ] {
        let problem = problem(&rows(), &database(), more);
        assert!(problem.contains(wanted), "{problem}; wanted {wanted}");
    }
}

#[test]
fn a_task_of_another_domain_is_foreign() {
    let (_folder, generator) = small(json!({}));
    let mut task = generator.in_order().unwrap().remove(0);
    task.truth["domain"] = "airline".into();
    let error = generator.environment().reset(&task, 0).unwrap_err().to_string();
    assert!(
        error.contains("is of the domain airline of tau2, but `domain` and the folder are retail of tau2"),
        "{error}"
    );
    task.truth = json!({});
    assert!(matches!(generator.environment().reset(&task, 0), Err(EnvError::Foreign(_))));
    assert!(generator.environment().step(&Message::assistant("")).is_err());
}
