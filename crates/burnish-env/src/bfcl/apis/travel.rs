//! Flights, credit cards and insurance of a traveller.

use serde_json::{Map, Value, json};

use super::atlas::{AIRPORTS, FLIGHTS, RATES};
use super::{Api, Given, Num, Outcome, Scenario, number_of, refusal};
use crate::bfcl::python::shown;
use crate::bfcl::random::Random;

/// The traveller's account.
#[derive(Debug, Clone)]
pub(super) struct Travel {
    random: Random,
    cards: Map<String, Value>,
    bookings: Map<String, Value>,
    access_token: Value,
    token_type: Value,
    expires_in: Value,
    scope: Value,
    first_name: Value,
    last_name: Value,
    budget: Value,
}

impl Travel {
    pub(super) fn new(scenario: &Scenario<'_>) -> Result<Self, String> {
        let any = |key: &str| scenario.get(key, Value::Null);
        Ok(Travel {
            random: Random::new(scenario.seed(141_053)?),
            cards: objects(scenario, "credit_card_list")?,
            bookings: objects(scenario, "booking_record")?,
            access_token: any("access_token")?,
            token_type: any("token_type")?,
            expires_in: any("token_expires_in")?,
            scope: any("token_scope")?,
            first_name: any("user_first_name")?,
            last_name: any("user_last_name")?,
            budget: any("budget_limit")?,
        })
    }

    /// A number of so many digits, drawn at random.
    fn drawn(&mut self, digits: u32) -> String {
        self.random.between(10u64.pow(digits - 1), 10u64.pow(digits) - 1).to_string()
    }

    fn authenticate(&mut self, given: &Given<'_>) -> Outcome {
        for key in ["client_id", "client_secret", "refresh_token"] {
            given.text(key)?;
        }
        let (scope, first) = (given.text("grant_type")?, given.text("user_first_name")?);
        self.last_name = json!(given.text("user_last_name")?);
        self.first_name = json!(first);
        self.expires_in = json!(2);
        self.access_token = json!(self.drawn(6));
        self.token_type = json!("Bearer");
        self.scope = json!(scope);
        Ok(
            json!({ "expires_in": 2, "access_token": self.access_token, "token_type": "Bearer", "scope": scope }),
        )
    }

    /// What is wrong with the token of a call, if anything is.
    fn token_problem(&self, given: &Given<'_>) -> Result<Option<&'static str>, String> {
        let token = given.text("access_token")?;
        Ok(if self.expires_in == 0 {
            Some("Token expired")
        } else if self.access_token != token {
            Some("Invalid access token")
        } else {
            None
        })
    }

    fn register(&mut self, given: &Given<'_>) -> Outcome {
        if self.expires_in.is_null() {
            return refusal("Token not initialized");
        }
        if let Some(problem) = self.token_problem(given)? {
            return refusal(problem);
        }
        let number = given.text("card_number")?;
        // Looked up among the ids of cards, as in the leaderboard.
        if self.cards.contains_key(number) {
            return refusal("Card already registered");
        }
        let (expiration, name) = (given.text("expiration_date")?, given.text("cardholder_name")?);
        let verification = given.number("card_verification_number")?.value()?;
        let id = self.drawn(12);
        let balance = self.random.between(10_000, 99_999);
        let card = json!({ "card_number": number, "expiration_date": expiration, "cardholder_name": name,
            "card_verification_number": verification, "balance": balance });
        self.cards.insert(id.clone(), card);
        Ok(json!({ "card_id": id }))
    }

    fn balance(&self, given: &Given<'_>) -> Outcome {
        if let Some(problem) = self.token_problem(given)? {
            return refusal(problem);
        }
        match self.cards.get(given.text("card_id")?) {
            None => {
                let ids = shown(&json!(self.cards.keys().collect::<Vec<_>>()));
                refusal(format!("Card not registered. Here are a list of card_id's: {ids}"))
            }
            Some(card) => Ok(json!({ "card_balance": card.get("balance").ok_or("'balance'")? })),
        }
    }

    fn book(&mut self, given: &Given<'_>) -> Outcome {
        let failed = |problem: String| Ok(json!({ "booking_status": false, "error": problem }));
        if let Some(problem) = self.token_problem(given)? {
            return failed(problem.to_owned());
        }
        let (card_id, date) = (given.text("card_id")?, given.text("travel_date")?);
        let (from, to, class) =
            (given.text("travel_from")?, given.text("travel_to")?, given.text("travel_class")?);
        let Some(card) = self.cards.get(card_id).and_then(Value::as_object) else {
            return failed("Card not registered".to_owned());
        };
        let Ok(balance) = number_of(card, "balance") else { return failed("Balance not found".to_owned()) };
        for (airport, what) in [(from, "departure"), (to, "destination")] {
            if !AIRPORTS.iter().any(|(code, _)| *code == airport) {
                return failed(format!("Invalid {what} airport code: {airport}"));
            }
        }
        if day(date).is_none() {
            return failed("Invalid date format. Use YYYY-MM-DD.".to_owned());
        }
        if factor(class).is_none() {
            return failed("Invalid travel class. Must be one of economy, business, first".to_owned());
        }
        let cost = match cost(from, to, date, class) {
            Ok(cost) => cost,
            Err(problem) => return failed(problem),
        };
        if balance.float() < cost {
            return failed("Insufficient funds".to_owned());
        }
        if self.budget.as_f64().is_some_and(|budget| balance.float() < budget) {
            return failed("Balance is less than budget limit".to_owned());
        }
        self.charge(card_id, Num::Float(-cost))?;
        let (booking, transaction) = (self.drawn(7), self.drawn(8));
        let record = json!({ "card_id": card_id, "travel_date": date, "travel_from": from, "travel_to": to,
            "travel_class": class, "travel_cost": cost, "transaction_id": transaction });
        self.bookings.insert(booking.clone(), record);
        Ok(json!({ "booking_id": booking, "transaction_id": transaction, "booking_status": true,
            "booking_history": {} }))
    }

    /// Adds to the balance of a card.
    fn charge(&mut self, card: &str, amount: Num) -> Result<(), String> {
        let card =
            self.cards.get_mut(card).and_then(Value::as_object_mut).ok_or_else(|| format!("'{card}'"))?;
        let balance = number_of(card, "balance")?.plus(amount).value()?;
        card.insert("balance".to_owned(), balance);
        Ok(())
    }

    fn invoice(&self, given: &Given<'_>) -> Outcome {
        if let Some(problem) = self.token_problem(given)? {
            return refusal(problem);
        }
        let id = given.maybe_text("booking_id")?.unwrap_or_default();
        let Some(record) = self.bookings.get(id) else { return refusal("Booking not found") };
        let mut invoice = Map::from_iter([("booking_id".to_owned(), json!(id))]);
        for key in
            ["travel_date", "travel_from", "travel_to", "travel_class", "travel_cost", "transaction_id"]
        {
            let value = record.get(key).ok_or_else(|| format!("'{key}'"))?;
            invoice.insert(key.to_owned(), value.clone());
        }
        Ok(json!({ "invoice": invoice }))
    }

    fn cancel(&mut self, given: &Given<'_>) -> Outcome {
        let failed = |problem: &str| Ok(json!({ "cancel_status": false, "error": problem }));
        if let Some(problem) = self.token_problem(given)? {
            return failed(problem);
        }
        let id = given.text("booking_id")?;
        let Some(record) = self.bookings.get(id).and_then(Value::as_object).cloned() else {
            return failed("Booking not found");
        };
        let card = record.get("card_id").and_then(Value::as_str).ok_or("'card_id'")?;
        self.charge(card, number_of(&record, "travel_cost")?)?;
        self.bookings.shift_remove(id);
        Ok(json!({ "cancel_status": true }))
    }

    fn verify(&self, given: &Given<'_>) -> Outcome {
        let failed =
            |problem: String| Ok(json!({ "verification_status": false, "verification_failure": problem }));
        let (first, last) = (given.text("first_name")?, given.text("last_name")?);
        if self.first_name != first || self.last_name != last {
            let own = |name: &Value| name.as_str().unwrap_or("None").to_owned();
            let expected =
                format!("Expected {} {}, got {first} {last}", own(&self.first_name), own(&self.last_name));
            return failed(format!("Cannot book flight information for another user.{expected}"));
        }
        let Some(born) = day(given.text("date_of_birth")?) else {
            return failed("Invalid date of birth format. Please use YYYY-MM-DD.".to_owned());
        };
        if (born.0 + 18, born.1, born.2) > TODAY {
            return failed("Traveler must be at least 18 years old.".to_owned());
        }
        if !given.text("passport_number")?.starts_with("US") {
            return failed("Passport must be issued by the United States.".to_owned());
        }
        Ok(json!({ "verification_status": true }))
    }

    fn insure(&mut self, given: &Given<'_>) -> Outcome {
        let failed = |problem: &str| Ok(json!({ "insurance_status": false, "error": problem }));
        if let Some(problem) = self.token_problem(given)? {
            return failed(problem);
        }
        given.text("insurance_type")?;
        let cost = given.number("insurance_cost")?;
        let (booking, card) = (given.text("booking_id")?, given.text("card_id")?);
        if self.budget.as_f64().is_some_and(|budget| budget < cost.float()) {
            return failed("Exceeded budget limit");
        }
        if !self.bookings.contains_key(booking) {
            return failed("Booking not found");
        }
        if !self.cards.contains_key(card) {
            return failed("Credit card not registered");
        }
        self.charge(card, Num::Int(0).minus(cost))?;
        Ok(json!({ "insurance_id": self.drawn(9), "insurance_status": true }))
    }

    fn limit(&mut self, given: &Given<'_>) -> Outcome {
        if let Some(problem) = self.token_problem(given)? {
            return refusal(problem);
        }
        self.budget = Num::Float(given.number("budget_limit")?.float()).value()?;
        Ok(json!({ "budget_limit": self.budget }))
    }
}

/// The day on which travellers' ages are counted. `bfcl-eval` asks the clock.
const TODAY: (u32, u32, u32) = (2024, 9, 1);

fn objects(scenario: &Scenario<'_>, key: &str) -> Result<Map<String, Value>, String> {
    let found = scenario.object(key, json!({}))?;
    match found.iter().find(|(_, value)| !value.is_object()) {
        Some((id, _)) => Err(format!("{key}.{id}: must be an object")),
        None => Ok(found),
    }
}

/// Year, month and day of `2024-9-1`, if there is such a day.
fn day(text: &str) -> Option<(u32, u32, u32)> {
    let mut parts = text.split('-').map(|part| part.parse::<u32>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (parts.next().is_none() && (1..=9999).contains(&year) && (1..=days).contains(&day))
        .then_some((year, month, day))
}

/// How many times the base price a class costs.
fn factor(class: &str) -> Option<f64> {
    match class {
        "economy" => Some(1.0),
        "business" => Some(2.0),
        "first" => Some(5.0),
        _ => None,
    }
}

/// The price of a flight: twice as much on days whose digits have an even sum.
fn cost(from: &str, to: &str, date: &str, class: &str) -> Result<f64, String> {
    let flights = FLIGHTS.iter().find(|(start, _)| *start == from).map(|(_, flights)| flights.split(", "));
    let base =
        flights.into_iter().flatten().find_map(|flight| flight.strip_prefix(to)?.trim().parse::<f64>().ok());
    let base = base.ok_or("No available route for the given airports.")?;
    let factor = factor(class).ok_or("Invalid travel class. Options are: economy, business, first.")?;
    let digits: u32 = date.chars().filter_map(|letter| letter.to_digit(10)).sum();
    Ok(base * factor * if digits.is_multiple_of(2) { 2.0 } else { 1.0 })
}

fn exchange(given: &Given<'_>) -> Outcome {
    let (from, to, value) =
        (given.text("base_currency")?, given.text("target_currency")?, given.number("value")?);
    let rate = |currency: &str| RATES.iter().find(|(known, _)| *known == currency).map(|(_, rate)| *rate);
    let exchanged = match (from, to) {
        ("USD", to) => rate(to).map(|rate| value.float() * rate),
        (from, "USD") => rate(from).map(|rate| {
            let exact = value.float() / rate;
            format!("{exact:.2}").parse().unwrap_or(exact)
        }),
        _ => None,
    };
    let exchanged = exchanged.ok_or("No available exchange rate for the given currencies.")?;
    Ok(json!({ "exchanged_value": Num::Float(exchanged).value()? }))
}

impl Api for Travel {
    fn call(&mut self, method: &str, given: &Given<'_>) -> Option<Outcome> {
        let text = |key: &str| given.text(key);
        Some(match method {
            "authenticate_travel" => self.authenticate(given),
            "travel_get_login_status" => {
                Ok(json!({ "status": !(self.expires_in.is_null() || self.expires_in == 0) }))
            }
            "get_budget_fiscal_year" => Ok(json!({ "budget_fiscal_year": "2018" })),
            "register_credit_card" => self.register(given),
            "get_flight_cost" => text("travel_from").and_then(|from| {
                let cost = cost(from, text("travel_to")?, text("travel_date")?, text("travel_class")?)?;
                Ok(json!({ "travel_cost_list": [cost] }))
            }),
            "get_credit_card_balance" => self.balance(given),
            "book_flight" => self.book(given),
            "retrieve_invoice" => self.invoice(given),
            "get_booking_history" => self.token_problem(given).and_then(|problem| match problem {
                Some(problem) => refusal(problem),
                None => Ok(json!({ "booking_history": self.bookings })),
            }),
            "list_all_airports" => Ok(json!(AIRPORTS.map(|(code, _)| code))),
            "cancel_booking" => self.cancel(given),
            "compute_exchange_rate" => exchange(given),
            "verify_traveler_information" => self.verify(given),
            "set_budget_limit" => self.limit(given),
            "get_nearest_airport_by_city" => text("location").map(|location| {
                let found = AIRPORTS.iter().find(|(_, city)| *city == location).map(|(code, _)| *code);
                json!({ "nearest_airport": found.unwrap_or("Unknown") })
            }),
            "purchase_insurance" => self.insure(given),
            "contact_customer_support" => text("booking_id").and_then(|id| {
                text("message")?;
                if !self.bookings.contains_key(id) {
                    return refusal("Booking not found");
                }
                let said = "Thank you for contacting customer support. Your message has been received and we will get \
                     back to you shortly.";
                Ok(json!({ "customer_support_message": said }))
            }),
            "get_all_credit_cards" => Ok(json!({ "credit_card_list": self.cards })),
            _ => return None,
        })
    }

    fn state(&self) -> Value {
        let Travel { cards, bookings, access_token, token_type, expires_in, scope, .. } = self;
        json!({ "credit_card_list": cards, "booking_record": bookings, "access_token": access_token,
            "token_type": token_type, "token_expires_in": expires_in, "token_scope": scope,
            "user_first_name": self.first_name, "user_last_name": self.last_name, "budget_limit": self.budget })
    }

    fn copy(&self) -> Box<dyn Api> {
        Box::new(self.clone())
    }
}
