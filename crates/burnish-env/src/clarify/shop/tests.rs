//! A small shop, and what its tools do.

use std::cell::RefCell;

use serde_json::json;
use tempfile::TempDir;

use super::*;

fn order(id: &str, status: &str, method: &str) -> Value {
    let item = |product: &str, item: &str, price: f64| json!({"name": "Cup", "product_id": product, "item_id": item, "price": price, "options": {"color": "red"}});
    let items = [item("100", "1", 10.0), item("100", "1", 10.0), item("200", "5", 20.0)];
    let paid = json!({"transaction_type": "payment", "amount": 30.0, "payment_method_id": method});
    json!({"order_id": id, "user_id": "ann_lee_1", "address": address(), "items": items, "status": status,
        "fulfillments": [], "payment_history": [paid]})
}

fn address() -> Value {
    json!({"address1": "1 Main St", "address2": "", "city": "Denver", "country": "USA", "state": "CO", "zip": "80279"})
}

/// Ann has two orders; cups cost 10 (red), 12.5 (blue), 60 (gold) and there is no green one. A lamp costs 20.
fn small() -> Value {
    let variant = |id: &str, color: &str, available: bool, price: f64| json!({"item_id": id, "options": {"color": color}, "available": available, "price": price});
    let user = json!({"name": {"first_name": "Ann", "last_name": "Lee"}, "address": address(),
        "email": "Ann.Lee@example.com", "orders": ["#W1", "#W2", "#W3"], "payment_methods": {
            "credit_card_1": {"source": "credit_card", "id": "credit_card_1", "brand": "visa", "last_four": "1234"},
            "paypal_1": {"source": "paypal", "id": "paypal_1"},
            "gift_card_1": {"source": "gift_card", "id": "gift_card_1", "balance": 40.0}}});
    json!({
        "users": {"ann_lee_1": user},
        "products": {
            "100": {"name": "Cup", "product_id": "100", "variants": {
                "1": variant("1", "red", true, 10.0), "2": variant("2", "blue", true, 12.5),
                "3": variant("3", "green", false, 9.0), "4": variant("4", "gold", true, 60.0)}},
            "200": {"name": "Alarm", "product_id": "200", "variants": {"5": variant("5", "white", true, 20.0)}}},
        "orders": {
            "#W1": order("#W1", "pending", "credit_card_1"), "#W2": order("#W2", "delivered", "paypal_1"),
            "#W3": order("#W3", "processed", "gift_card_1"), "#W4": order("#W4", "pending", "gift_card_1")},
    })
}

/// Ann's shop, with a task that exchanges one of her cups and then wants two things at once, which is refused; or with one that
/// serves nobody.
pub(in crate::clarify) fn shop(serves_ann: bool) -> TempDir {
    let action = |name: &str, arguments: Value| json!({"action_id": "0", "name": name, "arguments": arguments, "info": null});
    let row = |id: &str, actions: Value| json!({"id": id, "evaluation_criteria": {"actions": actions}});
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
    let tasks = if serves_ann { json!([row("7", all), row("8", one)]) } else { json!([row("9", json!([]))]) };
    let folder = tempfile::tempdir().unwrap();
    let retail = folder.path().join("retail");
    std::fs::create_dir(&retail).unwrap();
    std::fs::write(retail.join("db.json"), small().to_string()).unwrap();
    std::fs::write(retail.join("tasks.json"), tasks.to_string()).unwrap();
    folder
}

/// The benchmark's folder, if it is there.
pub(in crate::clarify) fn real() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/tau2_bench");
    let folder = std::env::var_os("BURNISH_DATA").map_or(folder, |data| Path::new(&data).join("tau2_bench"));
    if !folder.is_dir() {
        println!("skipped: there is no {}", folder.display());
        return None;
    }
    Some(folder)
}

/// Whether the shop's tools take a call in the database as it is at first.
pub(in crate::clarify) fn takes(path: &str) -> impl Fn(&FunctionCall) -> bool + use<> {
    let (shop, _) = database(path).unwrap();
    let now = RefCell::new(shop.clone());
    move |call| {
        let mut now = now.borrow_mut();
        let is_taken = now.call(call).is_ok();
        // A call changes its order and the customer's gift cards, which is less to put back than the whole shop.
        let order = call.arguments.get("order_id").and_then(Value::as_str);
        if let Some(was) = order.and_then(|id| shop.orders.get(id)) {
            now.orders.insert(was.order_id.clone(), was.clone());
            now.users.insert(was.user_id.clone(), shop.users[&was.user_id].clone());
        }
        is_taken
    }
}

fn call(name: &str, arguments: Value) -> FunctionCall {
    FunctionCall { name: name.to_owned(), arguments }
}

#[test]
fn money_goes_to_and_from_gift_cards() {
    let mut shop: Shop = serde_json::from_value(small()).unwrap();
    let balance = |shop: &Shop| shop.users["ann_lee_1"].payment_methods["gift_card_1"].balance();
    let otherwise = |method: &str| {
        call("modify_pending_order_payment", json!({"order_id": "#W1", "payment_method_id": method}))
    };
    assert!(shop.call(&otherwise("credit_card_1")).unwrap_err().contains("different"));
    shop.call(&otherwise("gift_card_1")).unwrap();
    assert_eq!(balance(&shop), Some(10.0));
    // What was paid so goes back there; it is paid three times now, so it can't be paid otherwise any more.
    assert!(shop.call(&otherwise("paypal_1")).is_err());
    let cancel = |reason: &str| call("cancel_pending_order", json!({"order_id": "#W4", "reason": reason}));
    assert_eq!(shop.call(&cancel("a whim")).unwrap_err(), "Invalid reason");
    shop.call(&cancel("no longer needed")).unwrap();
    assert_eq!(balance(&shop), Some(40.0));
    assert!(shop.call(&cancel("no longer needed")).unwrap_err().contains("Non-pending"));
    assert!(shop.call(&call("get_order_details", json!({"order_id": "#W1"}))).is_err());
}

#[test]
fn what_is_missing_or_wrong_in_the_folder_is_named() {
    let folder = shop(false);
    let path = folder.path().display().to_string();
    let problem = || Customers::read(&path).unwrap_err().to_string();
    let write =
        |name: &str, text: &str| std::fs::write(folder.path().join("retail").join(name), text).unwrap();
    write("tasks.json", "{}");
    assert!(problem().contains("tasks.json") && problem().contains("is not as expected"), "{}", problem());
    let stray = small().to_string().replacen("\"user_id\":\"ann_lee_1\"", "\"user_id\":\"bob\"", 1);
    write("db.json", &stray);
    assert!(problem().contains("there is no user `bob`"), "{}", problem());
    std::fs::remove_file(folder.path().join("retail/db.json")).unwrap();
    assert!(problem().starts_with("shop.path: ") && problem().contains("retail/db.json"), "{}", problem());
}
