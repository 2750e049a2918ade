//! The airline's tools on a small database.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::tau::wire::Effect;
use crate::tau::world::World;
use burnish_core::FunctionCall;

fn available(seats: i64, price: i64) -> Value {
    json!({"status": "available",
        "available_seats": {"basic_economy": seats, "economy": seats, "business": 1},
        "prices": {"basic_economy": price, "economy": 2 * price, "business": 5 * price}})
}

fn flight(number: &str, way: [&str; 2], times: [&str; 2], dates: Value) -> (String, Value) {
    let flight = json!({"flight_number": number, "origin": way[0], "destination": way[1],
        "scheduled_departure_time_est": times[0], "scheduled_arrival_time_est": times[1], "dates": dates});
    (number.to_owned(), flight)
}

fn table<T: serde::de::DeserializeOwned + Clone + PartialEq + serde::Serialize>(
    rows: Vec<(String, Value)>,
) -> Table<T> {
    let row = |(id, row): (String, Value)| (id, serde_json::from_value(row).unwrap());
    Table::new(rows.into_iter().map(row).collect::<BTreeMap<String, T>>())
}

fn passenger(name: &str) -> Value {
    json!({"first_name": name, "last_name": "Lee", "dob": "1990-01-01"})
}

/// Two flights make a way from JFK to SEA; Ann has one reservation for two on the first.
fn airline(set: Set) -> Airline {
    let landed =
        json!({"status": "landed", "actual_departure_time_est": "x", "actual_arrival_time_est": "y"});
    let user = json!({"name": {"first_name": "Ann", "last_name": "Lee"}, "email": "a@example.com", "dob": "1990-01-01",
        "address": {"address1": "1", "city": "Bern", "country": "CH", "state": "BE", "zip": "3000"},
        "payment_methods": {
            "credit_card_1": {"source": "credit_card", "brand": "visa", "last_four": "1", "id": "credit_card_1"},
            "gift_card_1": {"source": "gift_card", "amount": 150, "id": "gift_card_1"},
            "certificate_1": {"source": "certificate", "amount": 500.0, "id": "certificate_1"}},
        "saved_passengers": [], "membership": "gold", "reservations": ["AAAAAA"]});
    let leg = json!({"origin": "JFK", "destination": "ATL", "flight_number": "HAT001", "date": "2024-05-20", "price": 90});
    let reservation = json!({"reservation_id": "AAAAAA", "user_id": "ann_lee_1", "origin": "JFK", "destination": "ATL",
        "flight_type": "one_way", "cabin": "economy", "flights": [leg], "passengers": [passenger("Ann"), passenger("Bo")],
        "payment_history": [{"payment_id": "gift_card_1", "amount": 180}], "created_at": "2024-05-01T00:00:00",
        "total_baggages": 1, "nonfree_baggages": 0, "insurance": "no"});
    Airline {
        set,
        flights: table(vec![
            flight(
                "HAT001",
                ["JFK", "ATL"],
                ["19:00:00", "23:00:00"],
                json!({
                "2024-05-20": available(5, 100), "2024-05-14": landed, "2024-05-21": {"status": "cancelled"}}),
            ),
            flight(
                "HAT002",
                ["ATL", "SEA"],
                ["23:30:00", "03:00:00+1"],
                json!({"2024-05-20": available(1, 40)}),
            ),
            flight(
                "HAT003",
                ["ATL", "SEA"],
                ["22:00:00", "23:50:00"],
                json!({"2024-05-20": available(9, 30)}),
            ),
        ]),
        users: table(vec![("ann_lee_1".to_owned(), user)]),
        reservations: table(vec![("AAAAAA".to_owned(), reservation)]),
    }
}

fn read(said: Said) -> Value {
    serde_json::from_str(&said.unwrap()).unwrap()
}

fn gift_card(airline: &Airline) -> i64 {
    airline.users.get("ann_lee_1").unwrap().payment_methods["gift_card_1"].amount().unwrap()
}

fn seats(airline: &Airline) -> Value {
    serde_json::to_value(airline.flights.get("HAT001").unwrap()).unwrap()["dates"]["2024-05-20"]["available_seats"]["economy"].clone()
}

#[test]
fn what_is_looked_up_is_found() {
    let mut airline = airline(Set::Tau2);
    let way = |from: &str, to: &str| json!({"origin": from, "destination": to, "date": "2024-05-20"});
    for (name, arguments, said) in [
        ("get_user_details", json!({"user_id": "bob"}), Err("User bob not found")),
        ("get_reservation_details", json!({"reservation_id": "BBBBBB"}), Err("Reservation BBBBBB not found")),
        ("get_flight_status", json!({"flight_number": "HAT001", "date": "2024-05-14"}), Ok("landed")),
        (
            "get_flight_status",
            json!({"flight_number": "HAT009", "date": "2024-05-14"}),
            Err("Flight HAT009 not found"),
        ),
        (
            "get_flight_status",
            json!({"flight_number": "HAT001", "date": "2024-06-14"}),
            Err("Flight HAT001 not found on date 2024-06-14"),
        ),
        ("search_direct_flight", way("JFK", "SEA"), Ok("[]")),
        ("calculate", json!({"expression": "2 * 90"}), Ok("180.0")),
        ("close", json!({}), Err("Tool 'close' not found.")),
    ] {
        assert_eq!(
            airline.call(name, &arguments),
            said.map(str::to_owned).map_err(str::to_owned),
            "{name} {arguments}"
        );
    }
    let direct = read(airline.call("search_direct_flight", &way("JFK", "ATL")));
    assert_eq!(
        (&direct[0]["flight_number"], &direct[0]["prices"]["economy"]),
        (&json!("HAT001"), &json!(200))
    );
    assert_eq!(direct[0].get("dates"), None);
    let pairs = read(airline.call("search_onestop_flight", &way("JFK", "SEA")));
    let numbers: Vec<&Value> =
        pairs.as_array().unwrap().iter().map(|pair| &pair[1]["flight_number"]).collect();
    assert_eq!(numbers, ["HAT002"], "HAT003 leaves too early");
    assert_eq!(pairs[0][1]["date"], "2024-05-20");
    assert_eq!(read(airline.call("list_all_airports", &json!({}))).as_array().unwrap().len(), 20);
}

fn booking(changes: Value) -> Value {
    let mut given = json!({"user_id": "ann_lee_1", "origin": "JFK", "destination": "ATL", "flight_type": "one_way",
        "cabin": "economy", "flights": [{"flight_number": "HAT001", "date": "2024-05-20"}],
        "passengers": [passenger("Ann"), passenger("Bo")], "total_baggages": 1, "nonfree_baggages": 1, "insurance": "yes",
        "payment_methods": [{"payment_id": "certificate_1", "amount": 400}, {"payment_id": "gift_card_1", "amount": 110}]});
    for (key, value) in changes.as_object().unwrap() {
        given[key] = value.clone();
    }
    given
}

#[test]
fn a_booking_costs_what_it_costs_and_is_paid_in_full() {
    let on = |number: &str, date: &str| json!([{"flight_number": number, "date": date}]);
    for (changes, problem) in [
        (json!({"user_id": "bob"}), "User bob not found"),
        (json!({"flights": on("HAT009", "2024-05-20")}), "Flight HAT009 not found"),
        (json!({"flights": on("HAT001", "2024-05-30")}), "Flight HAT001 not found on date 2024-05-30"),
        (json!({"flights": on("HAT001", "2024-05-21")}), "Flight HAT001 not available on date 2024-05-21"),
        (json!({"cabin": "business"}), "Not enough seats on flight HAT001"),
        (
            json!({"payment_methods": [{"payment_id": "paypal_1", "amount": 510}]}),
            "Payment method paypal_1 not found",
        ),
        (
            json!({"payment_methods": [{"payment_id": "gift_card_1", "amount": 510}]}),
            "Not enough balance in payment method gift_card_1",
        ),
        (
            json!({"payment_methods": [{"payment_id": "credit_card_1", "amount": 500}]}),
            "Payment amount does not add up, total price is 510, but paid 500",
        ),
        (json!({"insurance": "no"}), "Payment amount does not add up, total price is 450, but paid 510"),
        (
            json!({"cabin": "first"}),
            "Invalid arguments: unknown variant `first`, expected one of `basic_economy`, `economy`, `business`",
        ),
    ] {
        assert_eq!(airline(Set::Tau2).call("book_reservation", &booking(changes)), Err(problem.to_owned()));
    }
    for (set, left) in [(Set::Tau2, 3), (Set::Tau, 5)] {
        let mut airline = airline(set);
        let said = read(airline.call("book_reservation", &booking(json!({}))));
        assert_eq!((&said["reservation_id"], &said["flights"][0]["price"]), (&json!("HATHAT"), &json!(200)));
        assert_eq!((gift_card(&airline), seats(&airline)), (40, json!(left)));
        let user = airline.users.get("ann_lee_1").unwrap();
        assert!(!user.payment_methods.contains_key("certificate_1"), "a certificate is used up");
        assert_eq!(user.reservations, ["AAAAAA", "HATHAT"]);
        assert_eq!(read(airline.call("get_reservation_details", &json!({"reservation_id": "HATHAT"}))), said);
        let again = booking(json!({"payment_methods": [{"payment_id": "credit_card_1", "amount": 200}],
            "passengers": [passenger("Bo")], "insurance": "no", "nonfree_baggages": 0}));
        for id in ["HATHAU", "HATHAV"] {
            assert_eq!(read(airline.call("book_reservation", &again))["reservation_id"], id);
        }
        assert_eq!(airline.call("book_reservation", &again), Err("Too many reservations".to_owned()));
    }
}

#[test]
fn a_reservation_changes_as_the_versions_say() {
    let given = |cabin: &str, numbers: &[&str], payment: &str| {
        let flights: Vec<Value> =
            numbers.iter().map(|number| json!({"flight_number": number, "date": "2024-05-20"})).collect();
        json!({"reservation_id": "AAAAAA", "cabin": cabin, "flights": flights, "payment_id": payment})
    };
    let tool = "update_reservation_flights";
    for (given, problem) in [
        (given("economy", &["HAT001"], "certificate_1"), "Certificate cannot be used to update reservation"),
        (given("economy", &["HAT001"], "gift_card_9"), "Payment method not found"),
        (given("basic_economy", &["HAT002"], "credit_card_1"), "Not enough seats on flight HAT002"),
        (given("business", &["HAT001"], "credit_card_1"), "Not enough seats on flight HAT001"),
        (given("economy", &["HAT001", "HAT003", "HAT003"], "gift_card_1"), "Gift card balance is not enough"),
    ] {
        assert_eq!(airline(Set::Tau2).call(tool, &given), Err(problem.to_owned()), "{given}");
    }
    let mut kept = airline(Set::Tau2);
    let said = read(kept.call(tool, &given("economy", &["HAT001", "HAT003"], "gift_card_1")));
    assert_eq!((&said["flights"][0]["price"], &said["flights"][1]["price"]), (&json!(90), &json!(60)));
    assert_eq!((said["payment_history"][1]["amount"].clone(), gift_card(&kept)), (json!(120), 30));
    assert_eq!(seats(&kept), 5, "seats are taken elsewhere");
    for (set, cabin) in [(Set::Tau2, "basic_economy"), (Set::Tau, "economy")] {
        let mut airline = airline(set);
        let said = read(airline.call(tool, &given("basic_economy", &["HAT001"], "gift_card_1")));
        assert_eq!((&said["cabin"], &said["flights"][0]["price"]), (&json!(cabin), &json!(100)));
        assert_eq!(gift_card(&airline), 130, "two passengers pay 10 more each");
    }
    let mut same = airline(Set::Tau2);
    let said = read(same.call(tool, &given("economy", &["HAT001"], "credit_card_1")));
    assert_eq!(said["payment_history"].as_array().unwrap().len(), 1, "nothing is paid for what stays");
}

#[test]
fn bags_passengers_cancellations_and_certificates() {
    let mut airline = airline(Set::Tau2);
    let bags = |nonfree: i64, payment: &str| json!({"reservation_id": "AAAAAA", "total_baggages": 4, "nonfree_baggages": nonfree, "payment_id": payment});
    let tool = "update_reservation_baggages";
    assert_eq!(
        airline.call(tool, &bags(4, "gift_card_1")),
        Err("Gift card balance is not enough".to_owned())
    );
    assert_eq!(
        airline.call(tool, &bags(1, "certificate_1")),
        Err("Certificate cannot be used to update reservation".to_owned())
    );
    let said = read(airline.call(tool, &bags(2, "gift_card_1")));
    assert_eq!((&said["total_baggages"], &said["nonfree_baggages"]), (&json!(4), &json!(2)));
    assert_eq!(gift_card(&airline), 50);
    let said = read(airline.call(tool, &bags(0, "gift_card_1")));
    assert_eq!(
        (said["payment_history"].as_array().unwrap().len(), gift_card(&airline)),
        (2, 50),
        "nothing comes back"
    );

    let passengers = |names: &[&str]| {
        let passengers: Vec<Value> = names.iter().map(|name| passenger(name)).collect();
        json!({"reservation_id": "AAAAAA", "passengers": passengers})
    };
    let tool = "update_reservation_passengers";
    assert_eq!(
        airline.call(tool, &passengers(&["Cy"])),
        Err("Number of passengers does not match".to_owned())
    );
    assert_eq!(read(airline.call(tool, &passengers(&["Cy", "Di"])))["passengers"][1]["first_name"], "Di");

    let said = read(airline.call("cancel_reservation", &json!({"reservation_id": "AAAAAA"})));
    let amounts: Vec<&Value> =
        said["payment_history"].as_array().unwrap().iter().map(|it| &it["amount"]).collect();
    assert_eq!(
        (&said["status"], amounts),
        (&json!("cancelled"), vec![&json!(180), &json!(100), &json!(-180), &json!(-100)])
    );
    assert_eq!(gift_card(&airline), 50, "refunds take days");
    assert_eq!(
        airline.call("cancel_reservation", &json!({"reservation_id": "X"})),
        Err("Reservation X not found".to_owned())
    );

    let give = |user: &str| json!({"user_id": user, "amount": 50});
    assert_eq!(airline.call("send_certificate", &give("bob")), Err("User bob not found".to_owned()));
    let said = airline.call("send_certificate", &give("ann_lee_1"));
    assert_eq!(
        said,
        Ok("Certificate certificate_3221322 added to user ann_lee_1 with amount 50.".to_owned())
    );
    for _ in 0..2 {
        airline.call("send_certificate", &give("ann_lee_1")).unwrap();
    }
    assert_eq!(airline.call("send_certificate", &give("ann_lee_1")), Err("Too many certificates".to_owned()));
    let huge = json!({"user_id": "ann_lee_1", "amount": 1e300});
    assert!(
        airline
            .call("send_certificate", &huge)
            .unwrap_err()
            .starts_with("Invalid arguments: 1e+300 is not a whole number")
    );
}

fn calls() -> impl Strategy<Value = FunctionCall> {
    let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
    let method = proptest::sample::select(vec!["credit_card_1", "gift_card_1", "certificate_1", "x"]);
    let id = proptest::sample::select(vec!["AAAAAA", "HATHAT", "x"]);
    let number = proptest::sample::select(vec!["HAT001", "HAT002", "HAT003", "x"]);
    let cabin = proptest::sample::select(vec!["basic_economy", "economy", "business"]);
    let names = proptest::sample::select(names);
    (names, id, number, cabin, method, 0i64..600, 0i64..3).prop_map(
        |(name, id, number, cabin, method, amount, bags)| {
            let mut arguments =
                booking(json!({"flights": [{"flight_number": number, "date": "2024-05-20"}], "cabin": cabin,
            "payment_methods": [{"payment_id": method, "amount": amount * 10}], "nonfree_baggages": bags}));
            for (key, value) in [
                ("reservation_id", id),
                ("payment_id", method),
                ("flight_number", number),
                ("date", "2024-05-20"),
                ("expression", "1"),
                ("summary", ""),
                ("thought", ""),
            ] {
                arguments[key] = value.into();
            }
            arguments["amount"] = amount.into();
            FunctionCall { name: name.to_owned(), arguments }
        },
    )
}

proptest! {
    /// Reading changes nothing, nor does a refusal; what has changed decides on the digest, and nothing else.
    #[test]
    fn reads_and_refusals_change_nothing(calls in proptest::collection::vec(calls(), 0..12), second: bool) {
        let start = World::Airline(Box::new(airline(if second { Set::Tau2 } else { Set::Tau })));
        let mut world = start.clone();
        for call in calls {
            let before = world.clone();
            let said = world.call(&call);
            let reads = TOOLS.iter().any(|tool| tool.name == call.name && tool.effect == Effect::Reads);
            if reads || said.is_err() {
                prop_assert!(world.differences(&before).is_empty());
                prop_assert_eq!(world.digest(), before.digest());
            }
            prop_assert_eq!(world.digest() == start.digest(), world.differences(&start).is_empty());
            if let World::Airline(airline) = &world {
                prop_assert!(gift_card(airline) >= 0 && seats(airline).as_i64() >= Some(0));
            }
        }
    }
}
