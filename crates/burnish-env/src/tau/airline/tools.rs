//! What the policy reads of the airline's tools.

use crate::tau::wire::Effect::{Reads, Writes};
use crate::tau::wire::Tool;

const USER: &str = "Id of the user, such as 'sara_doe_496'.";
const RESERVATION: &str = "Id of the reservation, such as 'ZFA04Y'.";
const ORIGIN: &str = "Airport of departure in three letters, such as 'SFO'.";
const DESTINATION: &str = "Airport of arrival in three letters, such as 'JFK'.";
const DATE: &str = "Date of the flight as YYYY-MM-DD, such as '2024-05-01'.";
const METHOD: &str =
    "Id of a payment method in the user's profile, such as 'credit_card_7815826' or 'gift_card_7815826'.";

const CABIN: &str = r#"{"type": "string", "enum": ["basic_economy", "economy", "business"]}"#;
const FLIGHT_TYPE: &str = r#"{"type": "string", "enum": ["one_way", "round_trip"]}"#;
const YES_NO: &str = r#"{"type": "string", "enum": ["yes", "no"]}"#;
const FLIGHTS: &str = r#"{"type": "array", "items": {"type": "object", "properties": {
    "flight_number": {"type": "string", "description": "Flight number, such as 'HAT001'."},
    "date": {"type": "string", "description": "Date of the flight as YYYY-MM-DD."}},
    "required": ["flight_number", "date"]}}"#;
const PASSENGERS: &str = r#"{"type": "array", "items": {"type": "object", "properties": {
    "first_name": {"type": "string", "description": "First name, such as 'Noah'."},
    "last_name": {"type": "string", "description": "Last name, such as 'Brown'."},
    "dob": {"type": "string", "description": "Date of birth as YYYY-MM-DD."}},
    "required": ["first_name", "last_name", "dob"], "additionalProperties": false}}"#;
const PAYMENTS: &str = r#"{"type": "array", "items": {"type": "object", "properties": {
    "payment_id": {"type": "string", "description": "Id of a payment method in the user's profile, such as 'gift_card_7815826'."},
    "amount": {"type": "integer", "minimum": 0, "description": "What it pays, in dollars."}},
    "required": ["payment_id", "amount"], "additionalProperties": false}}"#;

/// All tools.
pub(in crate::tau) const TOOLS: &[Tool] = &[
    Tool {
        name: "book_reservation",
        effect: Writes,
        description: "Books a reservation. The payments must add up to its price.",
        arguments: &[
            ("user_id", "text", USER),
            ("origin", "text", ORIGIN),
            ("destination", "text", DESTINATION),
            ("flight_type", FLIGHT_TYPE, "Type of the trip."),
            ("cabin", CABIN, "Cabin of all flights."),
            ("flights", FLIGHTS, "The flights, one after the other."),
            ("passengers", PASSENGERS, "The passengers."),
            ("payment_methods", PAYMENTS, "What each payment method pays."),
            ("total_baggages", "integer", "Number of bags."),
            ("nonfree_baggages", "integer", "Number of bags that are not free."),
            ("insurance", YES_NO, "Whether it is insured."),
        ],
    },
    Tool {
        name: "calculate",
        effect: Reads,
        description: "Computes an expression and rounds the result to cents.",
        arguments: &[(
            "expression",
            "text",
            "Expression of numbers, +, -, *, /, parentheses and spaces, such as '2 + 2'.",
        )],
    },
    Tool {
        name: "cancel_reservation",
        effect: Writes,
        description: "Cancels a whole reservation.",
        arguments: &[("reservation_id", "text", RESERVATION)],
    },
    Tool {
        name: "get_flight_status",
        effect: Reads,
        description: "Shows the status of a flight on a day.",
        arguments: &[("flight_number", "text", "Flight number, such as 'HAT001'."), ("date", "text", DATE)],
    },
    Tool {
        name: "get_reservation_details",
        effect: Reads,
        description: "Shows a reservation.",
        arguments: &[("reservation_id", "text", RESERVATION)],
    },
    Tool {
        name: "get_user_details",
        effect: Reads,
        description: "Shows a user with payment methods and the ids of reservations.",
        arguments: &[("user_id", "text", USER)],
    },
    Tool {
        name: "list_all_airports",
        effect: Reads,
        description: "Lists all airports with their cities.",
        arguments: &[],
    },
    Tool {
        name: "search_direct_flight",
        effect: Reads,
        description: "Searches direct flights between two airports on a day.",
        arguments: &[
            ("origin", "text", ORIGIN),
            ("destination", "text", DESTINATION),
            ("date", "text", DATE),
        ],
    },
    Tool {
        name: "search_onestop_flight",
        effect: Reads,
        description: "Searches pairs of flights with one stop between two airports on a day.",
        arguments: &[
            ("origin", "text", ORIGIN),
            ("destination", "text", DESTINATION),
            ("date", "text", DATE),
        ],
    },
    Tool {
        name: "send_certificate",
        effect: Writes,
        description: "Gives a user a certificate. Be careful!",
        arguments: &[("user_id", "text", USER), ("amount", "integer", "What it is worth, in dollars.")],
    },
    Tool {
        name: "think",
        effect: Reads,
        description: "Notes a thought. It finds out nothing and changes nothing.",
        arguments: &[("thought", "text", "The thought.")],
    },
    Tool {
        name: "transfer_to_human_agents",
        effect: Reads,
        description: "Transfers the user to a human agent. Only if the user explicitly asks for one, or policy and tools do not allow \
            to solve the user's issue.",
        arguments: &[("summary", "text", "Summary of the user's issue.")],
    },
    Tool {
        name: "update_reservation_baggages",
        effect: Writes,
        description: "Changes the number of bags of a reservation.",
        arguments: &[
            ("reservation_id", "text", RESERVATION),
            ("total_baggages", "integer", "New number of all bags."),
            ("nonfree_baggages", "integer", "New number of bags that are not free."),
            ("payment_id", "text", METHOD),
        ],
    },
    Tool {
        name: "update_reservation_flights",
        effect: Writes,
        description: "Changes the flights or the cabin of a reservation.",
        arguments: &[
            ("reservation_id", "text", RESERVATION),
            ("cabin", CABIN, "Cabin of all flights."),
            ("flights", FLIGHTS, "ALL flights of the changed reservation, also those that stay as they are."),
            ("payment_id", "text", METHOD),
        ],
    },
    Tool {
        name: "update_reservation_passengers",
        effect: Writes,
        description: "Changes the passengers of a reservation; their number stays.",
        arguments: &[
            ("reservation_id", "text", RESERVATION),
            ("passengers", PASSENGERS, "All passengers, in their order."),
        ],
    },
];
