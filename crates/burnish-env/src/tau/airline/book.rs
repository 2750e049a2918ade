//! The tool that books, and the one that gives certificates.

use serde::Deserialize;

use super::Airline;
use super::data::{Cabin, Day, FlightType, Insurance, Leg, Method, Passenger, Payment, Reservation};
use crate::tau::config::Set;
use crate::tau::wire::{Said, text, whole};

/// When everything here happens.
const NOW: &str = "2024-05-15T15:00:00";

/// The ids that new reservations get, one after the other.
const NEW_RESERVATIONS: [&str; 3] = ["HATHAT", "HATHAU", "HATHAV"];

/// The ids that new certificates get, one after the other.
const NEW_CERTIFICATES: [&str; 3] = ["certificate_3221322", "certificate_3221323", "certificate_3221324"];

/// Dollars per passenger for insurance, and per bag that is not free.
const INSURANCE: i64 = 30;
pub(super) const BAG: i64 = 50;

#[derive(Deserialize)]
pub(super) struct Book {
    user_id: String,
    origin: String,
    destination: String,
    flight_type: FlightType,
    cabin: Cabin,
    flights: Vec<Wanted>,
    passengers: Vec<Passenger>,
    payment_methods: Vec<Payment>,
    #[serde(deserialize_with = "whole")]
    total_baggages: i64,
    #[serde(deserialize_with = "whole")]
    nonfree_baggages: i64,
    insurance: Insurance,
}

/// A flight that is asked for.
#[derive(Deserialize)]
pub(super) struct Wanted {
    pub(super) flight_number: String,
    pub(super) date: String,
}

#[derive(Deserialize)]
pub(super) struct Give {
    user_id: String,
    #[serde(deserialize_with = "whole")]
    amount: i64,
}

impl Airline {
    /// A seat for each of `passengers` on a flight, at its present price.
    pub(super) fn leg(&self, wanted: &Wanted, cabin: Cabin, passengers: i64) -> Result<Leg, String> {
        let Wanted { flight_number, date } = wanted;
        let (flight, day) = self.day(flight_number, date)?;
        let Day::Available { available_seats, prices } = day else {
            return Err(format!("Flight {flight_number} not available on date {date}"));
        };
        if available_seats.of(cabin) < passengers {
            return Err(format!("Not enough seats on flight {flight_number}"));
        }
        Ok(Leg {
            origin: flight.origin.clone(),
            destination: flight.destination.clone(),
            flight_number: flight_number.clone(),
            date: date.clone(),
            price: prices.of(cabin),
        })
    }

    pub(super) fn book(&mut self, given: Book) -> Said {
        let user = self.user(&given.user_id)?;
        let is_free = |id: &&str| self.reservations.get(id).is_none();
        let Some(id) = NEW_RESERVATIONS.into_iter().find(is_free) else {
            return Err("Too many reservations".to_owned());
        };
        let passengers = given.passengers.len() as i64;
        let legs = given.flights.iter().map(|wanted| self.leg(wanted, given.cabin, passengers));
        let legs = legs.collect::<Result<Vec<Leg>, String>>()?;
        let mut price = legs.iter().map(|leg| leg.price).sum::<i64>() * passengers;
        price += if given.insurance == Insurance::Yes { INSURANCE * passengers } else { 0 };
        price += BAG * given.nonfree_baggages;
        for Payment { payment_id, amount } in &given.payment_methods {
            let method = user.payment_methods.get(payment_id);
            let method = method.ok_or_else(|| format!("Payment method {payment_id} not found"))?;
            if method.amount().is_some_and(|has| has < *amount) {
                return Err(format!("Not enough balance in payment method {payment_id}"));
            }
        }
        let paid: i64 = given.payment_methods.iter().map(|payment| payment.amount).sum();
        if paid != price {
            return Err(format!("Payment amount does not add up, total price is {price}, but paid {paid}"));
        }
        let reservation = Reservation {
            reservation_id: id.to_owned(),
            user_id: given.user_id.clone(),
            origin: given.origin,
            destination: given.destination,
            flight_type: given.flight_type,
            cabin: given.cabin,
            flights: legs,
            passengers: given.passengers,
            payment_history: given.payment_methods,
            created_at: NOW.to_owned(),
            total_baggages: given.total_baggages,
            nonfree_baggages: given.nonfree_baggages,
            insurance: given.insurance,
            status: None,
        };
        let said = text(&reservation)?;
        self.pay(&reservation);
        if self.set == Set::Tau2 {
            self.take_seats(&reservation);
        }
        self.reservations.insert(id.to_owned(), reservation);
        Ok(said)
    }

    /// Takes what a new reservation costs from its user's gift cards, uses up certificates, and notes the reservation.
    fn pay(&mut self, reservation: &Reservation) {
        let Some(user) = self.users.edit(&reservation.user_id) else { return };
        for payment in &reservation.payment_history {
            match user.payment_methods.get_mut(&payment.payment_id) {
                Some(Method::GiftCard { amount, .. }) => *amount -= payment.amount,
                Some(Method::Certificate { .. }) => {
                    user.payment_methods.remove(&payment.payment_id);
                }
                Some(Method::CreditCard { .. }) | None => {}
            }
        }
        user.reservations.push(reservation.reservation_id.clone());
    }

    fn take_seats(&mut self, reservation: &Reservation) {
        for leg in &reservation.flights {
            let flight = self.flights.edit(&leg.flight_number);
            if let Some(Day::Available { available_seats, .. }) =
                flight.and_then(|flight| flight.dates.get_mut(&leg.date))
            {
                available_seats.take(reservation.cabin, reservation.passengers.len() as i64);
            }
        }
    }

    pub(super) fn send_certificate(&mut self, given: &Give) -> Said {
        let Give { user_id, amount } = given;
        let user = self.user(user_id)?;
        let is_free = |id: &&str| !user.payment_methods.contains_key(*id);
        let Some(id) = NEW_CERTIFICATES.into_iter().find(is_free) else {
            return Err("Too many certificates".to_owned());
        };
        if let Some(user) = self.users.edit(user_id) {
            let certificate = Method::Certificate { amount: *amount, id: id.to_owned() };
            user.payment_methods.insert(id.to_owned(), certificate);
        }
        Ok(format!("Certificate {id} added to user {user_id} with amount {amount}."))
    }
}
