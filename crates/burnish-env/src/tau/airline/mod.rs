//! An airline: flights, users and reservations, and the tools of those who serve its customers.

mod book;
mod change;
mod data;
mod look;
#[cfg(test)]
mod tests;
mod tools;

use serde_json::Value;

use super::calculate::calculate;
use super::config::Set;
use super::table::Table;
use super::wire::{Said, arguments};
pub(super) use data::{Flight, Reservation, User};
pub(super) use tools::TOOLS;

/// The airline's database, as an episode has changed it.
#[derive(Debug, Clone)]
pub(in crate::tau) struct Airline {
    /// Which version's rules hold: the first takes no seats when a flight is booked, and does not note a new cabin.
    pub(in crate::tau) set: Set,
    pub(in crate::tau) flights: Table<Flight>,
    pub(in crate::tau) users: Table<User>,
    pub(in crate::tau) reservations: Table<Reservation>,
}

impl Airline {
    /// Runs a tool.
    ///
    /// # Errors
    /// Why the tool refuses; nothing has changed then.
    pub(in crate::tau) fn call(&mut self, name: &str, given: &Value) -> Said {
        match name {
            "calculate" => calculate(&arguments::<look::Expression>(given)?.expression),
            "get_user_details" => self.show_user(&arguments(given)?),
            "get_reservation_details" => self.show_reservation(&arguments(given)?),
            "get_flight_status" => self.flight_status(&arguments(given)?),
            "list_all_airports" => look::airports(),
            "search_direct_flight" => self.search_direct(&arguments(given)?),
            "search_onestop_flight" => self.search_onestop(&arguments(given)?),
            "book_reservation" => self.book(arguments(given)?),
            "cancel_reservation" => self.cancel(&arguments(given)?),
            "send_certificate" => self.send_certificate(&arguments(given)?),
            "update_reservation_baggages" => self.change_baggage(&arguments(given)?),
            "update_reservation_flights" => self.change_flights(&arguments(given)?),
            "update_reservation_passengers" => self.change_passengers(arguments(given)?),
            "transfer_to_human_agents" => Ok("Transfer successful".to_owned()),
            "think" => Ok(String::new()),
            other => Err(format!("Tool '{other}' not found.")),
        }
    }

    fn user(&self, id: &str) -> Result<&User, String> {
        self.users.get(id).ok_or_else(|| format!("User {id} not found"))
    }

    fn reservation(&self, id: &str) -> Result<&Reservation, String> {
        self.reservations.get(id).ok_or_else(|| format!("Reservation {id} not found"))
    }
}
