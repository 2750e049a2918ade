//! The records of the airline, as they are in its files. Amounts and prices are in whole dollars.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::tau::wire::whole;

/// A customer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::tau) struct User {
    /// Not in the first version's files, where it is only the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::tau) user_id: Option<String>,
    pub(super) name: Name,
    pub(super) address: Address,
    pub(super) email: String,
    pub(super) dob: String,
    pub(super) payment_methods: BTreeMap<String, Method>,
    pub(super) saved_passengers: Vec<Passenger>,
    pub(super) membership: Membership,
    pub(super) reservations: Vec<String>,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) address2: Option<String>,
    pub(super) city: String,
    pub(super) country: String,
    pub(super) state: String,
    pub(super) zip: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Membership {
    Gold,
    Silver,
    Regular,
}

/// A way to pay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Method {
    CreditCard {
        brand: String,
        last_four: String,
        id: String,
    },
    GiftCard {
        #[serde(deserialize_with = "whole")]
        amount: i64,
        id: String,
    },
    Certificate {
        #[serde(deserialize_with = "whole")]
        amount: i64,
        id: String,
    },
}

impl Method {
    /// What is on it, if there is a limit.
    pub(super) fn amount(&self) -> Option<i64> {
        match self {
            Method::GiftCard { amount, .. } | Method::Certificate { amount, .. } => Some(*amount),
            Method::CreditCard { .. } => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Passenger {
    pub(super) first_name: String,
    pub(super) last_name: String,
    pub(super) dob: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Cabin {
    BasicEconomy,
    Economy,
    Business,
}

/// A number for each cabin: seats, or a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cabins {
    #[serde(deserialize_with = "whole")]
    basic_economy: i64,
    #[serde(deserialize_with = "whole")]
    economy: i64,
    #[serde(deserialize_with = "whole")]
    business: i64,
}

impl Cabins {
    pub(super) fn of(self, cabin: Cabin) -> i64 {
        match cabin {
            Cabin::BasicEconomy => self.basic_economy,
            Cabin::Economy => self.economy,
            Cabin::Business => self.business,
        }
    }

    pub(super) fn take(&mut self, cabin: Cabin, count: i64) {
        match cabin {
            Cabin::BasicEconomy => self.basic_economy -= count,
            Cabin::Economy => self.economy -= count,
            Cabin::Business => self.business -= count,
        }
    }
}

/// A flight, which flies on many days.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::tau) struct Flight {
    pub(in crate::tau) flight_number: String,
    pub(super) origin: String,
    pub(super) destination: String,
    /// `06:00:00`.
    pub(super) scheduled_departure_time_est: String,
    /// `07:00:00`, with `+1` after it for the next day.
    pub(super) scheduled_arrival_time_est: String,
    pub(super) dates: BTreeMap<String, Day>,
}

/// A flight on one day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", deny_unknown_fields)]
pub(super) enum Day {
    #[serde(rename = "available")]
    Available { available_seats: Cabins, prices: Cabins },
    #[serde(rename = "landed")]
    Landed { actual_departure_time_est: String, actual_arrival_time_est: String },
    #[serde(rename = "flying")]
    Flying { actual_departure_time_est: String, estimated_arrival_time_est: String },
    #[serde(rename = "delayed")]
    Delayed { estimated_departure_time_est: String, estimated_arrival_time_est: String },
    #[serde(rename = "on time")]
    OnTime { estimated_departure_time_est: String, estimated_arrival_time_est: String },
    #[serde(rename = "cancelled")]
    Cancelled {},
}

impl Day {
    pub(super) fn status(&self) -> &'static str {
        match self {
            Day::Available { .. } => "available",
            Day::Landed { .. } => "landed",
            Day::Flying { .. } => "flying",
            Day::Delayed { .. } => "delayed",
            Day::OnTime { .. } => "on time",
            Day::Cancelled {} => "cancelled",
        }
    }
}

/// A reservation of seats for some passengers, on all of its flights in the same cabin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::tau) struct Reservation {
    pub(in crate::tau) reservation_id: String,
    pub(in crate::tau) user_id: String,
    pub(super) origin: String,
    pub(super) destination: String,
    pub(super) flight_type: FlightType,
    pub(super) cabin: Cabin,
    pub(super) flights: Vec<Leg>,
    pub(super) passengers: Vec<Passenger>,
    pub(super) payment_history: Vec<Payment>,
    pub(super) created_at: String,
    #[serde(deserialize_with = "whole")]
    pub(super) total_baggages: i64,
    #[serde(deserialize_with = "whole")]
    pub(super) nonfree_baggages: i64,
    pub(super) insurance: Insurance,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FlightType {
    OneWay,
    RoundTrip,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Insurance {
    Yes,
    No,
}

/// A flight of a reservation; `price` is for each passenger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Leg {
    pub(super) origin: String,
    pub(super) destination: String,
    pub(super) flight_number: String,
    pub(super) date: String,
    #[serde(deserialize_with = "whole")]
    pub(super) price: i64,
}

/// Money that was paid, or paid back if `amount` is below 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Payment {
    pub(super) payment_id: String,
    #[serde(deserialize_with = "whole")]
    pub(super) amount: i64,
}
