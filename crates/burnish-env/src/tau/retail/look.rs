//! Tools that only look.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Retail;
use crate::tau::wire::{Said, text};

#[derive(Deserialize)]
pub(super) struct Expression {
    pub(super) expression: String,
}

#[derive(Deserialize)]
pub(super) struct Email {
    pub(super) email: String,
}

#[derive(Deserialize)]
pub(super) struct NameAndZip {
    first_name: String,
    last_name: String,
    zip: String,
}

#[derive(Deserialize)]
pub(super) struct OfUser {
    user_id: String,
}

#[derive(Deserialize)]
pub(super) struct OfOrder {
    order_id: String,
}

#[derive(Deserialize)]
pub(super) struct OfProduct {
    product_id: String,
}

#[derive(Deserialize)]
pub(super) struct OfItem {
    item_id: String,
}

fn same(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

impl Retail {
    pub(super) fn find_by_email(&self, given: &Email) -> Said {
        let found = self.users.iter().find(|(_, user)| same(&user.email, &given.email));
        found.map(|(id, _)| id.to_owned()).ok_or_else(|| "User not found".to_owned())
    }

    pub(super) fn find_by_name(&self, given: &NameAndZip) -> Said {
        let found = self.users.iter().find(|(_, user)| {
            same(&user.name.first_name, &given.first_name)
                && same(&user.name.last_name, &given.last_name)
                && user.address.zip == given.zip
        });
        found.map(|(id, _)| id.to_owned()).ok_or_else(|| "User not found".to_owned())
    }

    pub(super) fn show_user(&self, given: &OfUser) -> Said {
        text(self.user(&given.user_id)?)
    }

    pub(super) fn show_order(&self, given: &OfOrder) -> Said {
        text(self.order(&given.order_id)?)
    }

    pub(super) fn show_product(&self, given: &OfProduct) -> Said {
        text(self.product(&given.product_id)?)
    }

    pub(super) fn show_item(&self, given: &OfItem) -> Said {
        let found = self.products.iter().find_map(|(_, product)| product.variants.get(&given.item_id));
        text(found.ok_or_else(|| "Item not found".to_owned())?)
    }

    /// Names of products with their ids, sorted by name.
    pub(super) fn list_products(&self) -> Said {
        let mut products: Vec<(&str, &str)> =
            self.products.iter().map(|(id, product)| (product.name.as_str(), id)).collect();
        products.sort_unstable();
        let entries: Map<String, Value> =
            products.into_iter().map(|(name, id)| (name.to_owned(), id.into())).collect();
        text(&entries)
    }
}
