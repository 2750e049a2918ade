//! The records of the shop, as they are in its files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A customer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct User {
    /// Not in the first version's files, where it is only the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) user_id: Option<String>,
    pub(super) name: Name,
    pub(super) address: Address,
    pub(super) email: String,
    pub(super) payment_methods: BTreeMap<String, Method>,
    pub(super) orders: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Name {
    pub(super) first_name: String,
    pub(super) last_name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Address {
    pub(super) address1: String,
    pub(super) address2: String,
    pub(super) city: String,
    pub(super) country: String,
    pub(super) state: String,
    pub(super) zip: String,
}

/// A way to pay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Method {
    CreditCard {
        id: String,
        brand: String,
        last_four: String,
    },
    Paypal {
        id: String,
    },
    /// `balance` is in dollars.
    GiftCard {
        id: String,
        balance: f64,
    },
}

impl Method {
    /// What is on it, if it is a gift card.
    pub(super) fn balance(&self) -> Option<f64> {
        match self {
            Method::GiftCard { balance, .. } => Some(*balance),
            Method::CreditCard { .. } | Method::Paypal { .. } => None,
        }
    }
}

/// A kind of thing that is sold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Product {
    pub(super) name: String,
    pub(super) product_id: String,
    pub(super) variants: BTreeMap<String, Variant>,
}

/// A thing with its options; `price` is in dollars.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Variant {
    pub(super) item_id: String,
    pub(super) options: BTreeMap<String, String>,
    pub(super) available: bool,
    pub(super) price: f64,
}

/// An order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    pub(super) order_id: String,
    pub(super) user_id: String,
    pub(super) address: Address,
    pub(super) items: Vec<Item>,
    pub(super) status: String,
    pub(super) fulfillments: Vec<Fulfillment>,
    pub(super) payment_history: Vec<Payment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cancel_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) exchange_items: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) exchange_new_items: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) exchange_payment_method_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) exchange_price_difference: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) return_items: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) return_payment_method_id: Option<String>,
}

/// A thing that was ordered, with its price at that time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Item {
    pub(super) name: String,
    pub(super) product_id: String,
    pub(super) item_id: String,
    pub(super) price: f64,
    pub(super) options: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fulfillment {
    pub(super) tracking_id: Vec<String>,
    pub(super) item_ids: Vec<String>,
}

/// Money that went from a customer (`payment`) or back (`refund`); `amount` is in dollars.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Payment {
    pub(super) transaction_type: Transaction,
    pub(super) amount: f64,
    pub(super) payment_method_id: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Transaction {
    Payment,
    Refund,
}
