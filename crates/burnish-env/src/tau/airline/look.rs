//! Tools that only look.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Airline;
use super::data::{Cabins, Day, Flight};
use crate::tau::wire::{Said, text};

#[derive(Deserialize)]
pub(super) struct Expression {
    pub(super) expression: String,
}

#[derive(Deserialize)]
pub(super) struct OfUser {
    user_id: String,
}

#[derive(Deserialize)]
pub(super) struct OfReservation {
    reservation_id: String,
}

#[derive(Deserialize)]
pub(super) struct OfFlight {
    flight_number: String,
    date: String,
}

#[derive(Deserialize)]
pub(super) struct Search {
    origin: String,
    destination: String,
    date: String,
}

/// A flight that can be booked on a day.
#[derive(Serialize)]
struct Found<'a> {
    flight_number: &'a str,
    origin: &'a str,
    destination: &'a str,
    scheduled_departure_time_est: &'a str,
    scheduled_arrival_time_est: &'a str,
    status: &'static str,
    available_seats: Cabins,
    prices: Cabins,
    #[serde(skip_serializing_if = "Option::is_none")]
    date: Option<&'a str>,
}

impl<'a> Found<'a> {
    /// The flight on this day, if it can be booked.
    fn of(flight: &'a Flight, date: &str) -> Option<Found<'a>> {
        let day = flight.dates.get(date)?;
        let Day::Available { available_seats, prices } = *day else { return None };
        Some(Found {
            flight_number: &flight.flight_number,
            origin: &flight.origin,
            destination: &flight.destination,
            scheduled_departure_time_est: &flight.scheduled_departure_time_est,
            scheduled_arrival_time_est: &flight.scheduled_arrival_time_est,
            status: day.status(),
            available_seats,
            prices,
            date: None,
        })
    }
}

/// The airports that the airline flies to.
const AIRPORTS: [(&str, &str); 20] = [
    ("SFO", "San Francisco"),
    ("JFK", "New York"),
    ("LAX", "Los Angeles"),
    ("ORD", "Chicago"),
    ("DFW", "Dallas"),
    ("DEN", "Denver"),
    ("SEA", "Seattle"),
    ("ATL", "Atlanta"),
    ("MIA", "Miami"),
    ("BOS", "Boston"),
    ("PHX", "Phoenix"),
    ("IAH", "Houston"),
    ("LAS", "Las Vegas"),
    ("MCO", "Orlando"),
    ("EWR", "Newark"),
    ("CLT", "Charlotte"),
    ("MSP", "Minneapolis"),
    ("DTW", "Detroit"),
    ("PHL", "Philadelphia"),
    ("LGA", "LaGuardia"),
];

pub(super) fn airports() -> Said {
    text(&AIRPORTS.map(|(iata, city)| json!({"iata": iata, "city": city})))
}

/// The day after a day of 2024, as `2024-05-16`; `None` if it can't be read.
fn next_day(date: &str) -> Option<String> {
    const DAYS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut parts = date.splitn(3, '-');
    let (year, month, day) =
        (parts.next()?, parts.next()?.parse::<usize>().ok()?, parts.next()?.parse::<u32>().ok()?);
    match (month, day) {
        (1..=12, day) if day < DAYS[month - 1] => Some(format!("{year}-{month:02}-{:02}", day + 1)),
        (1..=11, day) if day == DAYS[month - 1] => Some(format!("{year}-{:02}-01", month + 1)),
        _ => None,
    }
}

impl Airline {
    pub(super) fn show_user(&self, given: &OfUser) -> Said {
        text(self.user(&given.user_id)?)
    }

    pub(super) fn show_reservation(&self, given: &OfReservation) -> Said {
        text(self.reservation(&given.reservation_id)?)
    }

    /// A flight on a day, and what is known of that day.
    pub(super) fn day(&self, number: &str, date: &str) -> Result<(&Flight, &Day), String> {
        let flight = self.flights.get(number).ok_or_else(|| format!("Flight {number} not found"))?;
        let day = flight.dates.get(date);
        Ok((flight, day.ok_or_else(|| format!("Flight {number} not found on date {date}"))?))
    }

    pub(super) fn flight_status(&self, given: &OfFlight) -> Said {
        Ok(self.day(&given.flight_number, &given.date)?.1.status().to_owned())
    }

    pub(super) fn search_direct(&self, given: &Search) -> Said {
        let flights = self.flights.iter().map(|(_, flight)| flight);
        let fits = flights.filter(|it| it.origin == given.origin && it.destination == given.destination);
        let found: Vec<Found<'_>> = fits.filter_map(|flight| Found::of(flight, &given.date)).collect();
        text(&found)
    }

    /// Pairs of flights of which the second leaves after the first has arrived, on the next day if the first arrives then.
    pub(super) fn search_onestop(&self, given: &Search) -> Said {
        let mut pairs: Vec<Value> = Vec::new();
        let next = next_day(&given.date).unwrap_or_default();
        for (_, first) in self.flights.iter().filter(|(_, it)| it.origin == given.origin) {
            let Some(found) = Found::of(first, &given.date) else { continue };
            let arrival = first.scheduled_arrival_time_est.as_str();
            let date: &str = if arrival.contains("+1") { &next } else { &given.date };
            let continues = |second: &Flight| {
                second.origin == first.destination
                    && second.destination == given.destination
                    && second.scheduled_departure_time_est.as_str() >= arrival
            };
            let found = Found { date: Some(&given.date), ..found };
            for (_, second) in self.flights.iter().filter(|(_, it)| continues(it)) {
                if let Some(then) = Found::of(second, date) {
                    pairs.push(json!([found, Found { date: Some(date), ..then }]));
                }
            }
        }
        text(&pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_ends_where_it_ends() {
        for (date, next) in
            [("2024-05-09", "2024-05-10"), ("2024-05-31", "2024-06-01"), ("2024-02-29", "2024-03-01")]
        {
            assert_eq!(next_day(date).as_deref(), Some(next));
        }
        for date in ["2024-05-32", "2024-13-01", "tomorrow", "2024-05", ""] {
            assert_eq!(next_day(date), None, "{date}");
        }
    }
}
