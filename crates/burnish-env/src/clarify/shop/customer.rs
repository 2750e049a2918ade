//! What the shop knows of one customer that matters for what can be done with the customer's orders.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Shop;
use super::order::{DELIVERED, PENDING};
use super::records::{Method, Order};

/// A customer's open orders, with what their items can be exchanged for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::clarify) struct Customer {
    /// Orders with which something can be done: those that are pending or delivered.
    pub(in crate::clarify) orders: Vec<Open>,
    /// Products of these orders by id, with the variants that there are.
    pub(in crate::clarify) products: BTreeMap<String, Vec<Thing>>,
    /// Ways to pay.
    pub(in crate::clarify) payments: Vec<Payment>,
}

/// An order with which something can be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::clarify) struct Open {
    pub(in crate::clarify) id: String,
    /// Whether it has arrived.
    pub(in crate::clarify) delivered: bool,
    /// How it was paid; `None` for an order without a payment.
    pub(in crate::clarify) paid: Option<String>,
    /// Its items, each once, with the product that they are of.
    pub(in crate::clarify) items: Vec<(String, Thing)>,
}

/// An item, or a variant of a product; `price` is in dollars.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::clarify) struct Thing {
    pub(in crate::clarify) id: String,
    pub(in crate::clarify) name: String,
    /// Values of its options, as `red, large`.
    pub(in crate::clarify) options: String,
    pub(in crate::clarify) price: f64,
}

/// A way to pay, with what is on it if it is a gift card, in dollars.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::clarify) struct Payment {
    pub(in crate::clarify) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::clarify) balance: Option<f64>,
}

fn words(options: &BTreeMap<String, String>) -> String {
    options.values().map(String::as_str).collect::<Vec<_>>().join(", ")
}

impl Shop {
    /// The customer with this id; `None` if there is none, or nothing can be done for them.
    pub(super) fn customer(&self, user_id: &str) -> Option<Customer> {
        let user = self.users.get(user_id)?;
        let owned = |id: &String| self.orders.get(id).filter(|order| order.user_id == user_id);
        let orders: Vec<Open> = user.orders.iter().filter_map(owned).filter_map(open).collect();
        let mut products = BTreeMap::new();
        for (id, _) in orders.iter().flat_map(|order| &order.items) {
            let Some(product) = self.products.get(id) else { continue };
            let there = product.variants.values().filter(|variant| variant.available);
            let things = there.map(|variant| Thing {
                id: variant.item_id.clone(),
                name: product.name.clone(),
                options: words(&variant.options),
                price: variant.price,
            });
            products.insert(id.clone(), things.collect());
        }
        let payment =
            |(id, method): (&String, &Method)| Payment { id: id.clone(), balance: method.balance() };
        let payments = user.payment_methods.iter().map(payment).collect();
        (!orders.is_empty()).then_some(Customer { orders, products, payments })
    }
}

fn open(order: &Order) -> Option<Open> {
    let delivered = match order.status.as_str() {
        PENDING => false,
        DELIVERED => true,
        _ => return None,
    };
    let mut items: Vec<(String, Thing)> = Vec::new();
    for item in &order.items {
        if items.iter().any(|(_, other)| other.id == item.item_id) {
            continue;
        }
        let thing = Thing {
            id: item.item_id.clone(),
            name: item.name.clone(),
            options: words(&item.options),
            price: item.price,
        };
        items.push((item.product_id.clone(), thing));
    }
    let paid = order.payment_history.first().map(|payment| payment.payment_method_id.clone());
    Some(Open { id: order.order_id.clone(), delivered, paid, items })
}
