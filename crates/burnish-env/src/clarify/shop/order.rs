//! Tools that change what is open to a customer. Each checks everything before it changes anything.

use serde::Deserialize;

use super::Shop;
use super::records::{Method, Order, Payment, Transaction, User, Variant};

/// Why a tool refuses; nothing has changed then.
type Done = Result<(), String>;

pub(super) const PENDING: &str = "pending";
pub(super) const DELIVERED: &str = "delivered";
/// Why an order may be cancelled.
pub(in crate::clarify) const REASONS: [&str; 2] = ["no longer needed", "ordered by mistake"];

#[derive(Deserialize)]
pub(super) struct Cancel {
    order_id: String,
    reason: String,
}

#[derive(Deserialize)]
pub(super) struct PayOtherwise {
    order_id: String,
    payment_method_id: String,
}

#[derive(Deserialize)]
pub(super) struct Swap {
    order_id: String,
    item_ids: Vec<String>,
    new_item_ids: Vec<String>,
    payment_method_id: String,
}

#[derive(Deserialize)]
pub(super) struct GiveBack {
    order_id: String,
    item_ids: Vec<String>,
    payment_method_id: String,
}

/// The first item that is named more often than the order has it.
fn surplus<'a>(order: &Order, named: &'a [String]) -> Option<&'a String> {
    let count = |id: &str| order.items.iter().filter(|item| item.item_id == id).count();
    named.iter().find(|id| named.iter().filter(|other| other == id).count() > count(id))
}

/// Rounded to cents, halves as in Python: by the exact value of the float.
fn rounded(amount: f64) -> f64 {
    format!("{amount:.2}").parse().unwrap_or(amount)
}

impl Shop {
    fn method<'a>(&'a self, user_id: &str, method: &str) -> Result<&'a Method, String> {
        let user: &User = self.user(user_id)?;
        user.payment_methods.get(method).ok_or_else(|| "Payment method not found".to_owned())
    }

    /// Adds to the balance of a gift card; other ways to pay have none.
    fn add_to_gift_card(&mut self, user_id: &str, method: &str, amount: f64) {
        let user = self.users.get_mut(user_id);
        if let Some(Method::GiftCard { balance, .. }) =
            user.and_then(|user| user.payment_methods.get_mut(method))
        {
            *balance = rounded(*balance + amount);
        }
    }

    /// Puts the changed order in its place.
    fn keep(&mut self, order: Order) {
        self.orders.insert(order.order_id.clone(), order);
    }

    pub(super) fn cancel(&mut self, given: &Cancel) -> Done {
        let mut order = self.order(&given.order_id)?.clone();
        if order.status != PENDING {
            return Err("Non-pending order cannot be cancelled".to_owned());
        }
        if !REASONS.contains(&given.reason.as_str()) {
            return Err("Invalid reason".to_owned());
        }
        for payment in &order.payment_history {
            self.method(&order.user_id, &payment.payment_method_id)?;
        }
        let refund = |payment: &Payment| Payment { transaction_type: Transaction::Refund, ..payment.clone() };
        let refunds: Vec<Payment> = order.payment_history.iter().map(refund).collect();
        for refund in &refunds {
            self.add_to_gift_card(&order.user_id, &refund.payment_method_id, refund.amount);
        }
        order.payment_history.extend(refunds);
        order.status = "cancelled".to_owned();
        self.keep(order);
        Ok(())
    }

    pub(super) fn pay_otherwise(&mut self, given: &PayOtherwise) -> Done {
        let mut order = self.order(&given.order_id)?.clone();
        if !order.status.contains(PENDING) {
            return Err("Non-pending order cannot be modified".to_owned());
        }
        let method = self.method(&order.user_id, &given.payment_method_id)?;
        let [paid] = &order.payment_history[..] else {
            return Err("There should be exactly one payment for a pending order".to_owned());
        };
        if paid.transaction_type != Transaction::Payment {
            return Err("There should be exactly one payment for a pending order".to_owned());
        }
        if paid.payment_method_id == given.payment_method_id {
            return Err("The new payment method should be different from the current one".to_owned());
        }
        if method.balance().is_some_and(|balance| balance < paid.amount) {
            return Err("Insufficient gift card balance to pay for the order".to_owned());
        }
        let paid = paid.clone();
        self.add_to_gift_card(&order.user_id, &given.payment_method_id, -paid.amount);
        self.add_to_gift_card(&order.user_id, &paid.payment_method_id, paid.amount);
        let payment = Payment { payment_method_id: given.payment_method_id.clone(), ..paid.clone() };
        let refund = Payment { transaction_type: Transaction::Refund, ..paid };
        order.payment_history.extend([payment, refund]);
        self.keep(order);
        Ok(())
    }

    /// The variants that a customer gets for items, and what they cost more, in dollars.
    fn swapped(&self, order: &Order, given: &Swap, is_exchange: bool) -> Result<(Vec<Variant>, f64), String> {
        if let Some(item) = surplus(order, &given.item_ids) {
            return Err(match is_exchange {
                true => format!("Number of {item} not found."),
                false => format!("{item} not found"),
            });
        }
        if given.item_ids.len() != given.new_item_ids.len() {
            return Err("The number of items to be exchanged should match.".to_owned());
        }
        let (mut variants, mut difference) = (Vec::new(), 0.0);
        for (old, new) in given.item_ids.iter().zip(&given.new_item_ids) {
            if !is_exchange && old == new {
                return Err("The new item id should be different from the old item id".to_owned());
            }
            let item = order.items.iter().find(|item| item.item_id == *old);
            let item = item.ok_or_else(|| format!("Item {old} not found"))?;
            let variant = self.product(&item.product_id)?.variants.get(new);
            let variant = variant.ok_or_else(|| "Variant not found".to_owned())?;
            if !variant.available {
                return Err(format!("New item {new} not found or available"));
            }
            difference += variant.price - item.price;
            variants.push(variant.clone());
        }
        Ok((variants, rounded(difference)))
    }

    /// Each item becomes its own new variant, whatever the order in which they are named.
    pub(super) fn modify_items(&mut self, given: &Swap) -> Done {
        let mut order = self.order(&given.order_id)?.clone();
        if order.status != PENDING {
            return Err("Non-pending order cannot be modified".to_owned());
        }
        let (variants, difference) = self.swapped(&order, given, false)?;
        let method = self.method(&order.user_id, &given.payment_method_id)?;
        if method.balance().is_some_and(|balance| balance < difference) {
            return Err("Insufficient gift card balance to pay for the new item".to_owned());
        }
        order.payment_history.push(Payment {
            transaction_type: if difference > 0.0 { Transaction::Payment } else { Transaction::Refund },
            amount: difference.abs(),
            payment_method_id: given.payment_method_id.clone(),
        });
        // Which items are replaced is settled first: a new item may have the id of one that is yet to be replaced.
        let mut taken: Vec<usize> = Vec::new();
        for (old, variant) in given.item_ids.iter().zip(variants) {
            let place = order.items.iter().enumerate();
            let mut places = place.filter(|(at, item)| item.item_id == *old && !taken.contains(at));
            let Some(at) = places.next().map(|(at, _)| at) else { return Err(format!("{old} not found")) };
            taken.push(at);
            let item = &mut order.items[at];
            item.item_id.clone_from(&variant.item_id);
            item.price = variant.price;
            item.options = variant.options;
        }
        order.status = "pending (item modified)".to_owned();
        self.add_to_gift_card(&order.user_id, &given.payment_method_id, -difference);
        self.keep(order);
        Ok(())
    }

    pub(super) fn exchange(&mut self, given: &Swap) -> Done {
        let mut order = self.order(&given.order_id)?.clone();
        if order.status != DELIVERED {
            return Err("Non-delivered order cannot be exchanged".to_owned());
        }
        let (_, difference) = self.swapped(&order, given, true)?;
        let method = self.method(&order.user_id, &given.payment_method_id)?;
        if method.balance().is_some_and(|balance| balance < difference) {
            return Err("Insufficient gift card balance to pay for the price difference".to_owned());
        }
        order.status = "exchange requested".to_owned();
        self.keep(order);
        Ok(())
    }

    pub(super) fn give_back(&mut self, given: &GiveBack) -> Done {
        let mut order = self.order(&given.order_id)?.clone();
        if order.status != DELIVERED {
            return Err("Non-delivered order cannot be returned".to_owned());
        }
        let method = self.method(&order.user_id, &given.payment_method_id)?;
        let original = order.payment_history.first().map(|payment| payment.payment_method_id.as_str());
        if method.balance().is_none() && original != Some(given.payment_method_id.as_str()) {
            return Err("Payment method should be the original payment method".to_owned());
        }
        if surplus(&order, &given.item_ids).is_some() {
            return Err("Some item not found".to_owned());
        }
        order.status = "return requested".to_owned();
        self.keep(order);
        Ok(())
    }
}
