//! Tools that change or cancel a reservation. Each checks everything before it changes anything.
//!
//! As in the benchmark, what the airline's policy forbids beyond that is for the policy to know.

use serde::Deserialize;

use super::Airline;
use super::book::{BAG, Wanted};
use super::data::{Cabin, Leg, Method, Passenger, Payment, Reservation};
use crate::tau::config::Set;
use crate::tau::wire::{Said, text, whole};

#[derive(Deserialize)]
pub(super) struct Cancel {
    reservation_id: String,
}

#[derive(Deserialize)]
pub(super) struct Baggage {
    reservation_id: String,
    #[serde(deserialize_with = "whole")]
    total_baggages: i64,
    #[serde(deserialize_with = "whole")]
    nonfree_baggages: i64,
    payment_id: String,
}

#[derive(Deserialize)]
pub(super) struct Flights {
    reservation_id: String,
    cabin: Cabin,
    flights: Vec<Wanted>,
    payment_id: String,
}

#[derive(Deserialize)]
pub(super) struct Passengers {
    reservation_id: String,
    passengers: Vec<Passenger>,
}

impl Airline {
    /// Whether a change can be paid in this way.
    fn check_payment(&self, reservation: &Reservation, payment_id: &str, price: i64) -> Result<(), String> {
        let method = self.user(&reservation.user_id)?.payment_methods.get(payment_id);
        match method.ok_or_else(|| "Payment method not found".to_owned())? {
            Method::Certificate { .. } => Err("Certificate cannot be used to update reservation".to_owned()),
            Method::GiftCard { amount, .. } if *amount < price => {
                Err("Gift card balance is not enough".to_owned())
            }
            Method::GiftCard { .. } | Method::CreditCard { .. } => Ok(()),
        }
    }

    /// Notes a payment; a gift card pays at once, or gets back what `price` is below 0.
    fn settle(&mut self, reservation: &mut Reservation, payment_id: &str, price: i64) {
        let user = self.users.edit(&reservation.user_id);
        if let Some(Method::GiftCard { amount, .. }) =
            user.and_then(|user| user.payment_methods.get_mut(payment_id))
        {
            *amount -= price;
        }
        if price != 0 {
            reservation.payment_history.push(Payment { payment_id: payment_id.to_owned(), amount: price });
        }
    }

    /// Puts the changed reservation in its place, and shows it.
    fn keep(&mut self, reservation: Reservation) -> Said {
        let said = text(&reservation)?;
        self.reservations.insert(reservation.reservation_id.clone(), reservation);
        Ok(said)
    }

    /// Payments are reversed in the reservation's history. Neither gift cards nor seats are given back.
    pub(super) fn cancel(&mut self, given: &Cancel) -> Said {
        let mut reservation = self.reservation(&given.reservation_id)?.clone();
        let reversed = |payment: &Payment| Payment { amount: -payment.amount, ..payment.clone() };
        let refunds: Vec<Payment> = reservation.payment_history.iter().map(reversed).collect();
        reservation.payment_history.extend(refunds);
        reservation.status = Some("cancelled".to_owned());
        self.keep(reservation)
    }

    pub(super) fn change_baggage(&mut self, given: &Baggage) -> Said {
        let mut reservation = self.reservation(&given.reservation_id)?.clone();
        let price = BAG * (given.nonfree_baggages - reservation.nonfree_baggages).max(0);
        self.check_payment(&reservation, &given.payment_id, price)?;
        self.settle(&mut reservation, &given.payment_id, price);
        reservation.total_baggages = given.total_baggages;
        reservation.nonfree_baggages = given.nonfree_baggages;
        self.keep(reservation)
    }

    /// A flight that stays in the same cabin keeps its price. Seats are taken later, by somebody else.
    pub(super) fn change_flights(&mut self, given: &Flights) -> Said {
        let mut reservation = self.reservation(&given.reservation_id)?.clone();
        let passengers = reservation.passengers.len() as i64;
        let stays = |wanted: &Wanted| {
            let same = |leg: &&Leg| leg.flight_number == wanted.flight_number && leg.date == wanted.date;
            reservation.flights.iter().find(same).filter(|_| given.cabin == reservation.cabin)
        };
        let leg = |wanted: &Wanted| match stays(wanted) {
            Some(leg) => Ok(leg.clone()),
            None => self.leg(wanted, given.cabin, passengers),
        };
        let legs = given.flights.iter().map(leg).collect::<Result<Vec<Leg>, String>>()?;
        let sum = |legs: &[Leg]| legs.iter().map(|leg| leg.price).sum::<i64>();
        let price = (sum(&legs) - sum(&reservation.flights)) * passengers;
        self.check_payment(&reservation, &given.payment_id, price)?;
        self.settle(&mut reservation, &given.payment_id, price);
        reservation.flights = legs;
        if self.set == Set::Tau2 {
            reservation.cabin = given.cabin;
        }
        self.keep(reservation)
    }

    pub(super) fn change_passengers(&mut self, given: Passengers) -> Said {
        let mut reservation = self.reservation(&given.reservation_id)?.clone();
        if given.passengers.len() != reservation.passengers.len() {
            return Err("Number of passengers does not match".to_owned());
        }
        reservation.passengers = given.passengers;
        self.keep(reservation)
    }
}
