//! A shop: users, orders and products, and the tools of those who serve its customers.

mod customer;
mod data;
mod look;
mod order;
#[cfg(test)]
pub(super) mod tests;
mod tools;

use serde_json::Value;

use super::calculate::calculate;
use super::table::Table;
use super::wire::{Said, arguments};
pub(crate) use customer::{Customer, Open, Payment, Thing};
pub(super) use data::{Order, Product, User};
pub(crate) use order::REASONS;
pub(super) use tools::TOOLS;

/// The shop's database, as an episode has changed it.
#[derive(Debug, Clone)]
pub(in crate::tau) struct Retail {
    pub(in crate::tau) users: Table<User>,
    pub(in crate::tau) orders: Table<Order>,
    pub(in crate::tau) products: Table<Product>,
}

impl Retail {
    /// Runs a tool.
    ///
    /// # Errors
    /// Why the tool refuses; nothing has changed then.
    pub(in crate::tau) fn call(&mut self, name: &str, given: &Value) -> Said {
        match name {
            "calculate" => calculate(&arguments::<look::Expression>(given)?.expression),
            "find_user_id_by_email" => self.find_by_email(&arguments::<look::Email>(given)?),
            "find_user_id_by_name_zip" => self.find_by_name(&arguments(given)?),
            "get_user_details" => self.show_user(&arguments(given)?),
            "get_order_details" => self.show_order(&arguments(given)?),
            "get_product_details" => self.show_product(&arguments(given)?),
            "get_item_details" => self.show_item(&arguments(given)?),
            "list_all_product_types" => self.list_products(),
            "cancel_pending_order" => self.cancel(&arguments(given)?),
            "modify_pending_order_address" => self.readdress_order(arguments(given)?),
            "modify_pending_order_payment" => self.pay_otherwise(&arguments(given)?),
            "modify_pending_order_items" => self.modify_items(&arguments(given)?),
            "exchange_delivered_order_items" => self.exchange(&arguments(given)?),
            "return_delivered_order_items" => self.give_back(&arguments(given)?),
            "modify_user_address" => self.readdress_user(arguments(given)?),
            "transfer_to_human_agents" => Ok("Transfer successful".to_owned()),
            "think" => Ok(String::new()),
            other => Err(format!("Tool '{other}' not found.")),
        }
    }

    fn user(&self, id: &str) -> Result<&User, String> {
        self.users.get(id).ok_or_else(|| "User not found".to_owned())
    }

    fn order(&self, id: &str) -> Result<&Order, String> {
        self.orders.get(id).ok_or_else(|| "Order not found".to_owned())
    }

    fn product(&self, id: &str) -> Result<&Product, String> {
        self.products.get(id).ok_or_else(|| "Product not found".to_owned())
    }
}
