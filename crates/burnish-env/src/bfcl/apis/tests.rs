//! What holds for every API, whatever is called.
#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Api, DOCUMENTS, Given, Scenario, made};

/// Methods that change a state, of which some calls in random order are drawn.
const CHANGING: [&str; 38] = [
    "mkdir",
    "touch",
    "echo",
    "mv",
    "cp",
    "rm",
    "rmdir",
    "cd",
    "message_login",
    "send_message",
    "delete_message",
    "add_contact",
    "create_ticket",
    "close_ticket",
    "resolve_ticket",
    "edit_ticket",
    "ticket_login",
    "logout",
    "trading_login",
    "place_order",
    "cancel_order",
    "fund_account",
    "withdraw_funds",
    "add_to_watchlist",
    "remove_stock_from_watchlist",
    "authenticate_travel",
    "register_credit_card",
    "set_budget_limit",
    "authenticate_twitter",
    "post_tweet",
    "retweet",
    "comment",
    "mention",
    "follow_user",
    "unfollow_user",
    "startEngine",
    "lockDoors",
    "pressBrakePedal",
];

/// Methods that only look.
const LOOKING: [&str; 27] = [
    "pwd",
    "ls",
    "find",
    "du",
    "cat",
    "wc",
    "sort",
    "grep",
    "tail",
    "diff",
    "list_users",
    "view_messages_sent",
    "get_message_stats",
    "get_ticket",
    "get_user_tickets",
    "get_stock_info",
    "get_order_details",
    "get_account_info",
    "get_watchlist",
    "get_order_history",
    "get_booking_history",
    "get_all_credit_cards",
    "list_all_airports",
    "get_tweet",
    "search_tweets",
    "check_tire_pressure",
    "displayCarStatus",
];

/// Arguments for every method: those that it does not have are not looked at here.
fn arguments(text: &str, other: &str, number: i64) -> Map<String, Value> {
    let texts = [
        "dir_name",
        "file_name",
        "file_name1",
        "source",
        "folder",
        "user_id",
        "receiver_id",
        "user_name",
        "title",
        "resolution",
        "username",
        "symbol",
        "stock",
        "name",
        "path",
        "order_type",
        "access_token",
        "card_number",
        "username_to_follow",
        "username_to_unfollow",
        "ignitionMode",
        "mode",
        "option",
        "keyword",
        "content",
        "pattern",
    ];
    let others = [
        "destination",
        "file_name2",
        "message",
        "description",
        "password",
        "expiration_date",
        "cardholder_name",
        "client_id",
        "client_secret",
        "refresh_token",
        "grant_type",
        "user_first_name",
        "user_last_name",
        "comment_content",
    ];
    let numbers = [
        "ticket_id",
        "order_id",
        "tweet_id",
        "price",
        "amount",
        "priority",
        "lines",
        "budget_limit",
        "card_verification_number",
        "pedalPosition",
    ];
    let mut all = Map::new();
    all.extend(texts.map(|key| (key.to_owned(), json!(text))));
    all.extend(others.map(|key| (key.to_owned(), json!(other))));
    all.extend(numbers.map(|key| (key.to_owned(), json!(number))));
    all.insert("updates".to_owned(), json!({ "status": other }));
    all.insert("unlock".to_owned(), json!(number > 0));
    all.insert("door".to_owned(), json!(["driver", "rear_left"]));
    all.insert("mentioned_usernames".to_owned(), json!([text]));
    all
}

fn every() -> Vec<Box<dyn Api>> {
    let root = json!({ "w": { "type": "directory", "contents": {
        "a": { "type": "directory", "contents": { "b": { "type": "file", "content": "x\ny" } } },
        "b": { "type": "file", "content": "one two" } } } });
    let fields =
        json!({ "root": root, "authenticated": true, "current_user": "USR001", "market_status": "Open" });
    let scenario = Scenario { fields: fields.as_object().unwrap() };
    DOCUMENTS.iter().map(|(class, _)| made(class, &scenario).unwrap()).collect()
}

/// What the APIs return to a call: what one of them does.
fn call(apis: &mut [Box<dyn Api>], method: &str, arguments: &Map<String, Value>) -> Result<Value, String> {
    let given = Given { arguments };
    apis.iter_mut().find_map(|api| api.call(method, &given)).unwrap()
}

fn states(apis: &[Box<dyn Api>]) -> Vec<Value> {
    apis.iter().map(|api| api.state()).collect()
}

proptest! {
    #[test]
    fn calls_repeat_on_copies_and_looking_changes_nothing(
        steps in prop::collection::vec((0..CHANGING.len(), "[abw.]|USR002|USR003|AAPL|START|driver", "[abc]|Buy", -1..4i64), 0..40),
        look in 0..LOOKING.len(),
    ) {
        let mut apis = every();
        let start = states(&apis);
        let mut copies: Vec<Box<dyn Api>> = apis.iter().map(|api| api.copy()).collect();
        let run = |apis: &mut Vec<Box<dyn Api>>| -> Vec<Result<Value, String>> {
            steps.iter().map(|(at, text, other, number)| call(apis, CHANGING[*at], &arguments(text, other, *number))).collect()
        };
        let first = run(&mut apis);
        // What was done to the one is not done to the other.
        prop_assert_eq!(states(&copies), start);
        prop_assert_eq!(run(&mut copies), first);
        let end = states(&apis);
        prop_assert_eq!(&states(&copies), &end);
        let _ = call(&mut apis, LOOKING[look], &arguments("a", "b", 1));
        prop_assert_eq!(states(&apis), end);
    }
}

#[test]
fn every_method_is_one_of_an_api() {
    let mut apis = every();
    for method in CHANGING.iter().chain(&LOOKING) {
        let _ = call(&mut apis, method, &Map::new());
    }
    let given = Given { arguments: &Map::new() };
    assert!(apis.iter_mut().all(|api| api.call("nothing", &given).is_none()));
}

#[test]
fn a_scenario_of_another_type_is_refused_with_its_key() {
    for (class, fields, complaint) in [
        ("TravelAPI", json!({ "credit_card_list": [] }), "credit_card_list: must be an object, not a list"),
        ("TravelAPI", json!({ "booking_record": { "1": 2 } }), "booking_record.1: must be an object"),
        ("MessageAPI", json!({ "inbox": [1] }), "inbox.0: must be"),
        ("TwitterAPI", json!({ "tweets": { "x": {} } }), "tweets.x: must be"),
        ("VehicleControlAPI", json!({ "fuelLevel": "full" }), "fuelLevel: must be a float, not a string"),
        ("TradingBot", json!({ "order_counter": 1.5 }), "order_counter: must be a whole number"),
        (
            "GorillaFileSystem",
            json!({ "root": { "w": { "contents": { "f": { "type": "link" } } } } }),
            "root.w.contents.f.type: must be `file` or `directory`",
        ),
    ] {
        let scenario = Scenario { fields: fields.as_object().unwrap() };
        let problem = made(class, &scenario).err().unwrap();
        assert!(problem.contains(complaint), "{problem}");
    }
}

/// A directory that was moved leaves its old name to those below it, and a copy shares what is below its first level.
#[test]
fn directories_behave_as_pythons_objects() {
    let mut apis = every();
    let mut run = |method: &str, fields: Value| {
        let arguments = fields.as_object().unwrap().clone();
        call(&mut apis, method, &arguments).unwrap()
    };
    run("cd", json!({ "folder": "a" }));
    run("mkdir", json!({ "dir_name": "deep" }));
    run("cd", json!({ "folder": "deep" }));
    run("touch", json!({ "file_name": "f" }));
    run("cd", json!({ "folder": "/" }));
    run("cp", json!({ "source": "a", "destination": "c" }));
    run("mv", json!({ "source": "a", "destination": "d" }));
    assert_eq!(
        run("find", json!({}))["matches"],
        json!(["./b", "./c", "./c/b", "./c/deep", "./c/deep/f", "./d", "./d/b", "./d/deep", "./d/deep/f"])
    );
    run("cd", json!({ "folder": "c" }));
    run("cd", json!({ "folder": "deep" }));
    run("echo", json!({ "content": "shared", "file_name": "f" }));
    assert_eq!(run("pwd", json!({}))["current_working_directory"], "/w/a/deep");
    run("cd", json!({ "folder": "/" }));
    run("cd", json!({ "folder": "d" }));
    run("cd", json!({ "folder": "deep" }));
    assert_eq!(run("cat", json!({ "file_name": "f" })), json!({ "file_content": "shared" }));
    let within = run("cp", json!({ "source": "f", "destination": "f" }));
    assert!(within["error"].as_str().unwrap().contains("Not a directory"), "{within}");
}
