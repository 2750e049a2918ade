//! The shop's tools on a small database.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::tau::wire::Effect;
use crate::tau::world::World;
use burnish_core::FunctionCall;

fn address(city: &str) -> Value {
    json!({"address1": "1 Main St", "address2": "", "city": city, "country": "USA", "state": "CO", "zip": "80279"})
}

fn variant(id: &str, color: &str, available: bool, price: f64) -> Value {
    json!({"item_id": id, "options": {"color": color}, "available": available, "price": price})
}

fn order(id: &str, status: &str, items: &[(&str, &str, f64)], method: &str) -> Value {
    let items: Vec<Value> = items
        .iter()
        .map(|(product, item, price)| {
            json!({"name": "Cup", "product_id": product, "item_id": item, "price": price, "options": {"color": "red"}})
        })
        .collect();
    let paid = json!({"transaction_type": "payment", "amount": 30.0, "payment_method_id": method});
    json!({"order_id": id, "user_id": "ann_lee_1", "address": address("Denver"), "items": items, "status": status,
        "fulfillments": [], "payment_history": [paid]})
}

fn table<T: serde::de::DeserializeOwned + Clone + PartialEq + serde::Serialize>(
    rows: &[(&str, Value)],
) -> Table<T> {
    let row = |(id, row): &(&str, Value)| ((*id).to_owned(), serde_json::from_value(row.clone()).unwrap());
    Table::new(rows.iter().map(row).collect::<BTreeMap<String, T>>())
}

/// Ann has two orders; cups cost 10 (red), 12.5 (blue), 60 (gold) and there is no green one. A lamp costs 20.
pub(in crate::tau) fn shop() -> Retail {
    let user = json!({"name": {"first_name": "Ann", "last_name": "Lee"}, "address": address("Denver"),
        "email": "Ann.Lee@example.com", "orders": ["#W1", "#W2", "#W3"], "payment_methods": {
            "credit_card_1": {"source": "credit_card", "id": "credit_card_1", "brand": "visa", "last_four": "1234"},
            "paypal_1": {"source": "paypal", "id": "paypal_1"},
            "gift_card_1": {"source": "gift_card", "id": "gift_card_1", "balance": 40.0}}});
    let cups = json!({"name": "Cup", "product_id": "100", "variants": {
        "1": variant("1", "red", true, 10.0), "2": variant("2", "blue", true, 12.5),
        "3": variant("3", "green", false, 9.0), "4": variant("4", "gold", true, 60.0)}});
    let lamps =
        json!({"name": "Alarm", "product_id": "200", "variants": {"5": variant("5", "white", true, 20.0)}});
    let items = [("100", "1", 10.0), ("100", "1", 10.0), ("200", "5", 20.0)];
    Retail {
        users: table(&[("ann_lee_1", user)]),
        products: table(&[("100", cups), ("200", lamps)]),
        orders: table(&[
            ("#W1", order("#W1", "pending", &items, "credit_card_1")),
            ("#W2", order("#W2", "delivered", &items, "paypal_1")),
            ("#W3", order("#W3", "processed", &items, "gift_card_1")),
            ("#W4", order("#W4", "pending", &items, "gift_card_1")),
        ]),
    }
}

fn read(said: Said) -> Value {
    serde_json::from_str(&said.unwrap()).unwrap()
}

fn balance(shop: &Retail) -> f64 {
    shop.users.get("ann_lee_1").unwrap().payment_methods["gift_card_1"].balance().unwrap()
}

#[test]
fn what_is_looked_up_is_found() {
    let mut shop = shop();
    for (name, arguments, said) in [
        ("find_user_id_by_email", json!({"email": "ann.lee@EXAMPLE.com"}), Ok("ann_lee_1")),
        ("find_user_id_by_email", json!({"email": "bob@example.com"}), Err("User not found")),
        (
            "find_user_id_by_name_zip",
            json!({"first_name": "ann", "last_name": "LEE", "zip": "80279"}),
            Ok("ann_lee_1"),
        ),
        (
            "find_user_id_by_name_zip",
            json!({"first_name": "Ann", "last_name": "Lee", "zip": "80278"}),
            Err("User not found"),
        ),
        ("list_all_product_types", json!({}), Ok("{\"Alarm\": \"200\", \"Cup\": \"100\"}")),
        ("calculate", json!({"expression": "12.5 - 10"}), Ok("2.5")),
        ("get_item_details", json!({"item_id": "100"}), Err("Item not found")),
        ("get_product_details", json!({"product_id": "5"}), Err("Product not found")),
        ("get_order_details", json!({"order_id": "W1"}), Err("Order not found")),
        ("get_user_details", json!({"user_id": "bob"}), Err("User not found")),
        ("get_user_details", json!({}), Err("Invalid arguments: missing field `user_id`")),
        ("transfer_to_human_agents", json!({"summary": "?"}), Ok("Transfer successful")),
        ("open", json!({}), Err("Tool 'open' not found.")),
    ] {
        assert_eq!(
            shop.call(name, &arguments),
            said.map(str::to_owned).map_err(str::to_owned),
            "{name} {arguments}"
        );
    }
    assert_eq!(
        read(shop.call("get_item_details", &json!({"item_id": "2"}))),
        variant("2", "blue", true, 12.5)
    );
    assert_eq!(read(shop.call("get_order_details", &json!({"order_id": "#W1"})))["status"], "pending");
}

#[test]
fn a_pending_order_is_cancelled_once_and_for_a_good_reason() {
    let mut shop = shop();
    let cancel = |shop: &mut Retail, id: &str, reason: &str| {
        shop.call("cancel_pending_order", &json!({"order_id": id, "reason": reason}))
    };
    for (id, reason, problem) in [
        ("#W9", "no longer needed", "Order not found"),
        ("#W2", "no longer needed", "Non-pending order cannot be cancelled"),
        ("#W3", "no longer needed", "Non-pending order cannot be cancelled"),
        ("#W1", "too dear", "Invalid reason"),
    ] {
        assert_eq!(cancel(&mut shop, id, reason), Err(problem.to_owned()));
    }
    let said = read(cancel(&mut shop, "#W4", "ordered by mistake"));
    assert_eq!(
        (&said["status"], &said["cancel_reason"]),
        (&json!("cancelled"), &json!("ordered by mistake"))
    );
    let refund = json!({"transaction_type": "refund", "amount": 30.0, "payment_method_id": "gift_card_1"});
    assert_eq!(said["payment_history"][1], refund);
    assert_eq!(balance(&shop), 70.0, "a gift card is refunded at once");
    read(cancel(&mut shop, "#W1", "no longer needed"));
    assert_eq!(balance(&shop), 70.0, "a credit card is not");
    assert!(cancel(&mut shop, "#W4", "ordered by mistake").is_err());
}

fn swap(shop: &mut Retail, tool: &str, id: &str, old: &[&str], new: &[&str], method: &str) -> Said {
    let given = json!({"order_id": id, "item_ids": old, "new_item_ids": new, "payment_method_id": method});
    shop.call(tool, &given)
}

#[test]
fn items_of_a_pending_order_are_modified_once_in_any_order() {
    let tool = "modify_pending_order_items";
    for (id, old, new, method, problem) in [
        ("#W2", &["1"][..], &["2"][..], "paypal_1", "Non-pending order cannot be modified"),
        ("#W1", &["1", "1", "1"], &["2", "2", "2"], "paypal_1", "1 not found"),
        ("#W1", &["2"], &["1"], "paypal_1", "2 not found"),
        ("#W1", &["1", "1"], &["2"], "paypal_1", "The number of items to be exchanged should match."),
        ("#W1", &["1"], &["1"], "paypal_1", "The new item id should be different from the old item id"),
        ("#W1", &["1"], &["5"], "paypal_1", "Variant not found"),
        ("#W1", &["1"], &["3"], "paypal_1", "New item 3 not found or available"),
        ("#W1", &["1"], &["2"], "paypal_2", "Payment method not found"),
        ("#W1", &["1"], &["4"], "gift_card_1", "Insufficient gift card balance to pay for the new item"),
    ] {
        assert_eq!(swap(&mut shop(), tool, id, old, new, method), Err(problem.to_owned()));
    }
    let (mut one, mut other) = (shop(), shop());
    let said = read(swap(&mut one, tool, "#W1", &["1", "1"], &["2", "4"], "credit_card_1"));
    assert_eq!(said["status"], "pending (item modified)");
    assert_eq!((&said["items"][0]["price"], &said["items"][1]["price"]), (&json!(12.5), &json!(60.0)));
    assert_eq!(said["items"][0]["options"], json!({"color": "blue"}));
    let paid = json!({"transaction_type": "payment", "amount": 52.5, "payment_method_id": "credit_card_1"});
    assert_eq!(said["payment_history"][1], paid);
    assert!(swap(&mut one, tool, "#W1", &["5"], &["5"], "credit_card_1").is_err(), "only once");
    read(swap(&mut other, tool, "#W1", &["1"], &["2"], "gift_card_1"));
    assert_eq!(balance(&other), 37.5);
    assert!(
        other
            .call("cancel_pending_order", &json!({"order_id": "#W1", "reason": "no longer needed"}))
            .is_err()
    );
}

#[test]
fn a_delivered_order_is_exchanged_or_returned_once() {
    let exchange = "exchange_delivered_order_items";
    for (id, old, new, method, problem) in [
        ("#W1", &["1"][..], &["2"][..], "paypal_1", "Non-delivered order cannot be exchanged"),
        ("#W2", &["9"], &["2"], "paypal_1", "Number of 9 not found."),
        ("#W2", &["1"], &["3"], "paypal_1", "New item 3 not found or available"),
        (
            "#W2",
            &["1"],
            &["4"],
            "gift_card_1",
            "Insufficient gift card balance to pay for the price difference",
        ),
    ] {
        assert_eq!(swap(&mut shop(), exchange, id, old, new, method), Err(problem.to_owned()));
    }
    let mut exchanged = shop();
    let said = read(swap(&mut exchanged, exchange, "#W2", &["5", "1"], &["5", "2"], "gift_card_1"));
    assert_eq!(
        (&said["status"], &said["exchange_price_difference"]),
        (&json!("exchange requested"), &json!(2.5))
    );
    assert_eq!(
        (&said["exchange_items"], &said["exchange_new_items"]),
        (&json!(["1", "5"]), &json!(["2", "5"]))
    );
    assert_eq!(balance(&exchanged), 40.0, "nothing is paid yet");

    let give_back = |shop: &mut Retail, id: &str, items: &[&str], method: &str| {
        let given = json!({"order_id": id, "item_ids": items, "payment_method_id": method});
        shop.call("return_delivered_order_items", &given)
    };
    assert!(give_back(&mut exchanged, "#W2", &["1"], "paypal_1").is_err(), "exchanged already");
    let mut shop = shop();
    for (id, items, method, problem) in [
        ("#W1", &["1"][..], "paypal_1", "Non-delivered order cannot be returned"),
        ("#W2", &["1"], "credit_card_1", "Payment method should be the original payment method"),
        ("#W2", &["1"], "credit_card_9", "Payment method not found"),
        ("#W2", &["5", "5"], "paypal_1", "Some item not found"),
    ] {
        assert_eq!(give_back(&mut shop, id, items, method), Err(problem.to_owned()));
    }
    let said = read(give_back(&mut shop, "#W2", &["5", "1"], "gift_card_1"));
    assert_eq!((&said["status"], &said["return_items"]), (&json!("return requested"), &json!(["1", "5"])));
    assert!(give_back(&mut shop, "#W2", &["1"], "paypal_1").is_err());
}

#[test]
fn a_pending_order_is_paid_otherwise_once() {
    let mut shop = shop();
    let pay = |shop: &mut Retail, id: &str, method: &str| {
        shop.call("modify_pending_order_payment", &json!({"order_id": id, "payment_method_id": method}))
    };
    for (id, method, problem) in [
        ("#W2", "gift_card_1", "Non-pending order cannot be modified"),
        ("#W1", "gift_card_9", "Payment method not found"),
        ("#W1", "credit_card_1", "The new payment method should be different from the current one"),
    ] {
        assert_eq!(pay(&mut shop, id, method), Err(problem.to_owned()));
    }
    let said = read(pay(&mut shop, "#W1", "gift_card_1"));
    let amounts = |at: usize| {
        (
            said["payment_history"][at]["transaction_type"].clone(),
            said["payment_history"][at]["amount"].clone(),
        )
    };
    assert_eq!((amounts(1), amounts(2)), ((json!("payment"), json!(30.0)), (json!("refund"), json!(30.0))));
    assert_eq!(balance(&shop), 10.0);
    assert_eq!(
        pay(&mut shop, "#W1", "paypal_1"),
        Err("There should be exactly one payment for a pending order".to_owned())
    );
    read(pay(&mut shop, "#W4", "paypal_1"));
    assert_eq!(balance(&shop), 40.0, "the gift card gets back what it had paid");
    let mut poor = super::tests::shop();
    poor.users.edit("ann_lee_1").unwrap().payment_methods.insert(
        "gift_card_1".to_owned(),
        data::Method::GiftCard { id: "gift_card_1".to_owned(), balance: 29.99 },
    );
    assert_eq!(
        pay(&mut poor, "#W1", "gift_card_1"),
        Err("Insufficient gift card balance to pay for the order".to_owned())
    );
}

#[test]
fn addresses_change_where_they_may() {
    let mut shop = shop();
    let mut given = address("Chicago");
    given["order_id"] = "#W2".into();
    let tool = "modify_pending_order_address";
    assert_eq!(shop.call(tool, &given), Err("Non-pending order cannot be modified".to_owned()));
    given["order_id"] = "#W1".into();
    assert_eq!(read(shop.call(tool, &given))["address"]["city"], "Chicago");
    let mut given = address("Austin");
    given["user_id"] = "ann_lee_1".into();
    assert_eq!(read(shop.call("modify_user_address", &given))["address"], address("Austin"));
    given["user_id"] = "bob".into();
    assert_eq!(shop.call("modify_user_address", &given), Err("User not found".to_owned()));
}

fn calls() -> impl Strategy<Value = FunctionCall> {
    let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
    let id = || proptest::sample::select(vec!["#W1", "#W2", "#W3", "#W4", "#W9"]);
    let items = || proptest::collection::vec(proptest::sample::select(vec!["1", "2", "3", "4", "5"]), 0..3);
    let method = proptest::sample::select(vec!["credit_card_1", "paypal_1", "gift_card_1", "x"]);
    let reason = proptest::sample::select(vec!["no longer needed", "x"]);
    (proptest::sample::select(names), id(), items(), items(), method, reason).prop_map(
        |(name, order, old, new, method, reason)| {
            let arguments = json!({"order_id": order, "user_id": "ann_lee_1", "item_ids": old, "new_item_ids": new, "item_id": "1",
                "payment_method_id": method, "reason": reason, "product_id": "100", "expression": "1/3", "email": "x",
                "first_name": "Ann", "last_name": "Lee", "zip": "80279", "address1": "2", "address2": "", "city": "Bern",
                "state": "BE", "country": "CH", "summary": "", "thought": ""});
            FunctionCall { name: name.to_owned(), arguments }
        },
    )
}

proptest! {
    /// Reading changes nothing, nor does a refusal; what has changed decides on the digest, and nothing else.
    #[test]
    fn reads_and_refusals_change_nothing(calls in proptest::collection::vec(calls(), 0..12)) {
        let start = World::Retail(Box::new(shop()));
        let mut world = start.clone();
        for call in calls {
            let before = world.clone();
            let said = world.call(&call);
            let reads = TOOLS.iter().any(|tool| tool.name == call.name && tool.effect == Effect::Reads);
            if reads || said.is_err() {
                prop_assert!(world.differences(&before).is_empty());
                prop_assert_eq!(world.digest(), before.digest());
            }
            prop_assert_eq!(world.digest() == start.digest(), world.differences(&start).is_empty());
            if let World::Retail(shop) = &world {
                prop_assert!(balance(shop) >= 0.0);
            }
        }
    }
}
