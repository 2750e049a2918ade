//! Customers of tau-bench's shop: what they may want is what its tools can do.

use std::path::Path;

use burnish_core::FunctionCall;
use serde_json::{Value, json};

use super::tests::play;
use super::*;
use crate::clarify::shop::tests::{real, shop, takes};
use crate::clarify::shop::{Customer, Customers};

fn generator(path: &Path, tasks: bool, more: &ClarifyConfig) -> Result<ClarifyTasks, EnvError> {
    let shop = Some(Shop { path: path.display().to_string(), tasks });
    ClarifyTasks::new(ClarifyConfig { shop, ..more.clone() })
}

/// Everything is known to the customer, and reported.
fn open() -> ClarifyConfig {
    ClarifyConfig { rewards: Component::ALL.to_vec(), questions: 6, unknown: 0.0, ..ClarifyConfig::default() }
}

/// Every call for one item that could be thought of: of any tool, on any order, with any variant and any way to pay.
fn thinkable(customer: &Customer) -> Vec<FunctionCall> {
    let mut calls = Vec::new();
    let mut push =
        |name: &str, arguments: Value| calls.push(FunctionCall { name: name.to_owned(), arguments });
    for order in &customer.orders {
        for reason in ["no longer needed", "ordered by mistake"] {
            push("cancel_pending_order", json!({"order_id": order.id, "reason": reason}));
        }
        let all = || customer.products.values().flatten();
        for (_, item) in &order.items {
            for payment in &customer.payments {
                let ids = json!([item.id]);
                push(
                    "return_delivered_order_items",
                    json!({"order_id": order.id, "item_ids": ids, "payment_method_id": payment.id}),
                );
                for new in all().map(|new| &new.id).chain([&item.id]) {
                    for tool in ["exchange_delivered_order_items", "modify_pending_order_items"] {
                        push(
                            tool,
                            json!({"order_id": order.id, "item_ids": ids, "new_item_ids": [new], "payment_method_id": payment.id}),
                        );
                    }
                }
            }
        }
    }
    calls
}

/// The goals are exactly the calls that the tools take, each with its own words; returns how many there are.
fn check_goals(customer: &Customer, takes: &dyn Fn(&FunctionCall) -> bool) -> usize {
    let goals = tau::goals(customer);
    let mut reached: Vec<Goal> = Vec::new();
    for call in thinkable(customer) {
        let goal = tau::reached(customer, &call);
        assert_eq!(goal.is_some(), takes(&call), "{call:?} {goal:?}");
        reached.extend(goal.filter(|goal| !reached.contains(goal)));
    }
    assert_eq!(reached.len(), goals.len());
    assert!(goals.iter().all(|(goal, weight)| reached.contains(goal) && *weight > 0.0));
    // Each thing that can be done with an order is as likely as each other.
    let mut ways: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for (goal, weight) in &goals {
        *ways.entry((&goal.order, &goal.intent)).or_default() += weight;
    }
    assert!(ways.values().all(|weight| (weight - 1.0).abs() < 1e-9), "{ways:?}");
    goals.len()
}

#[test]
fn goals_are_the_calls_that_the_tools_take() {
    let shop = shop(false);
    let path = shop.path().display().to_string();
    let customers = Customers::read(&path).unwrap();
    assert_eq!((customers.untasked.len(), customers.gold.len()), (1, 0));
    let ann = &customers.untasked[0];
    // Of the pending order: 2 reasons, and a red cup becomes blue or, not by gift card, gold. Of the
    // delivered one: either item comes back to PayPal or the gift card; a cup becomes red, blue or gold, the alarm its like.
    assert_eq!(check_goals(ann, &takes(&path)), 2 + (3 + 2) + 2 * 2 + (3 + 3 + 2) + 3);

    let lines = [
        "#W1 pending by credit_card_1: Cup (1); Cup (5)",
        "#W2 delivered by paypal_1: Cup (1); Cup (5)",
        "Cup: red; blue; gold",
        "Alarm: white",
        "pay credit_card_1; gift_card_1; paypal_1",
    ];
    assert_eq!(tau::text(ann, true).lines().collect::<Vec<_>>(), lines);
}

#[test]
fn a_task_is_what_a_gold_call_wants_at_its_time() {
    let shop = shop(true);
    let customers = Customers::read(&shop.path().display().to_string()).unwrap();
    assert!(customers.untasked.is_empty());
    let problem = generator(shop.path(), false, &open()).unwrap_err().to_string();
    assert!(
        problem.starts_with("shop.path") && problem.contains("no customer whom no task serves"),
        "{problem}"
    );

    let generator = generator(shop.path(), true, &open()).unwrap();
    assert!(generator.evaluation_only().unwrap().contains("never for training"));
    assert!(!generator.files().is_empty());
    let tasks = generator.tasks(1, 2).unwrap().tasks;
    let truths: Vec<Truth> = tasks.iter().map(|task| Truth::of(task).unwrap()).collect();
    // Two items at once are no goal, and what is refused because it was done is none either.
    let calls: Vec<(Option<&str>, String)> =
        truths.iter().map(|it| (it.call.as_deref(), it.goal())).collect();
    assert_eq!(
        calls,
        [
            (Some("8.0"), "cancel; #W1; ordered by mistake".to_owned()),
            (Some("8.1"), "exchange; #W2; Cup (1); gold; paypal_1".to_owned()),
        ]
    );
    // The order that was cancelled is open no more.
    let orders = |truth: &Truth| match &truth.records {
        Records::Tau(customer) => customer.orders.iter().map(|order| order.id.clone()).collect::<Vec<_>>(),
        Records::Made(_) => Vec::new(),
    };
    assert_eq!(
        (orders(&truths[0]), orders(&truths[1])),
        (vec!["#W1".into(), "#W2".into()], vec!["#W2".to_owned()])
    );
}

#[test]
fn a_customer_of_tau_bench_is_asked_like_any_other() {
    let shop = shop(false);
    let config = ClarifyConfig { prompt: PromptStyle::Short, ..open() };
    let generator = generator(shop.path(), false, &config).unwrap();
    let tasks = generator.tasks(5, 60).unwrap().tasks;
    let mut reasons = 0;
    for task in &tasks {
        let truth = Truth::of(task).unwrap();
        let reason = truth.goal.reason.clone();
        let (verdict, heard) = play(&generator, task, &["ask reason", "ask shoe"]);
        assert_eq!(heard, [reason.as_deref().unwrap_or("none")]);
        assert!(verdict.flags["malformed"]);
        reasons += usize::from(reason.is_some());
        let all: Vec<String> = Slot::ALL.into_iter().map(|slot| format!("ask {}", slot.name())).collect();
        let (verdict, _) = play(&generator, task, &all);
        assert!(verdict.success && verdict.flags["certain"]);
        let exact = -truth.belief(1.0).log_prob(&truth.goal);
        assert!((verdict.rewards["information"] - exact).abs() < 1e-9);
        // What a clarifier reads has no options; what a reader reads has.
        let read = generator.goals().unwrap().wanted(task, &[]).unwrap();
        assert_eq!(read.goal, truth.goal());
        let has_gold = |text: &str| text.lines().any(|line| line == "Cup: red; blue; gold");
        assert!(has_gold(&read.known) && !has_gold(&task.prompt[0].content), "{}", read.known);
        assert!(task.prompt[0].content.contains("Cup: 3 options"));
    }
    assert!(reasons > 5 && reasons < 40, "{reasons}");
}

#[test]
fn goals_of_the_real_shop_are_the_calls_that_its_tools_take_and_its_tasks_are_among_them() {
    let Some(folder) = real() else { return };
    let path = folder.display().to_string();
    let customers = Customers::read(&path).unwrap();
    let takes = takes(&path);
    let counts: Vec<usize> =
        customers.untasked.iter().step_by(20).map(|customer| check_goals(customer, &takes)).collect();
    let goals = counts.iter().sum::<usize>() / counts.len();

    // Every gold call for one item, or for a whole order, is a goal.
    let single = |call: &FunctionCall| {
        let count = call.arguments.get("item_ids").and_then(Value::as_array).map(Vec::len);
        match call.name.as_str() {
            "cancel_pending_order" => true,
            "return_delivered_order_items"
            | "exchange_delivered_order_items"
            | "modify_pending_order_items" => count == Some(1),
            _ => false,
        }
    };
    let reached = customers.gold.iter().filter(|gold| {
        let goal = tau::reached(&gold.customer, &gold.call);
        assert_eq!(goal.is_some(), single(&gold.call), "{}: {:?}", gold.id, gold.call);
        goal.is_some()
    });
    let reached = reached.count();
    println!(
        "{} customers without a task, {goals} goals on average; {reached} of {} gold calls",
        customers.untasked.len(),
        customers.gold.len()
    );

    // An informed clarifier finds out what each of them wants.
    let of_tasks = generator(&folder, true, &open()).unwrap();
    for task in of_tasks.tasks(1, reached).unwrap().tasks {
        let (verdict, _) = play(&of_tasks, &task, &asked_by(&of_tasks, &task));
        assert!(verdict.success && verdict.flags["certain"], "{}", of_tasks.draw(&task, None));
    }

    // With the default's few questions, of which some can't be answered: how often the agent is right, and what was asked.
    let few = |demonstrations: Asker| ClarifyConfig {
        demonstrations,
        ..ClarifyConfig { rewards: Component::ALL.to_vec(), ..ClarifyConfig::default() }
    };
    let mean = |demonstrations: Option<Asker>| {
        let of_tasks = generator(&folder, true, &few(demonstrations.unwrap_or(Asker::Random))).unwrap();
        let tasks = of_tasks.tasks(1, 4 * reached).unwrap().tasks;
        let mut sums = [0.0; 2];
        for task in &tasks {
            let asked = demonstrations.map_or(vec!["act".to_owned()], |_| asked_by(&of_tasks, task));
            let (verdict, _) = play(&of_tasks, task, &asked);
            sums[0] += verdict.rewards["success"] / tasks.len() as f64;
            sums[1] -= verdict.rewards["questions"] / tasks.len() as f64;
        }
        sums
    };
    let (none, random, informed) = (mean(None), mean(Some(Asker::Random)), mean(Some(Asker::Informed)));
    println!(
        "success and questions: never asking {none:.3?}, at random {random:.3?}, informed {informed:.3?}"
    );
    assert!(none[0] < random[0] && random[0] < informed[0]);
}

/// What a demonstrating clarifier says.
fn asked_by(generator: &ClarifyTasks, task: &Task) -> Vec<String> {
    let episode = generator.demonstrate_episode(task).unwrap();
    episode[task.prompt.len()..].iter().step_by(2).map(|message| message.content.clone()).collect()
}
