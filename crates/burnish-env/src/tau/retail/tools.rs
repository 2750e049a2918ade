//! What the policy reads of the shop's tools.

use crate::tau::wire::Effect::{Reads, Writes};
use crate::tau::wire::Tool;

const ORDER: &str = "Id of the order, with the sign # before it, such as '#W0000000'.";
const USER: &str = "Id of the user, such as 'sara_doe_496'.";
const METHOD: &str = "Id of the payment method for the price difference, such as 'gift_card_0000000'; user and order \
    details show it.";

/// An address.
macro_rules! with_address {
    ($first:expr) => {
        &[
            $first,
            ("address1", "text", "First line of the address, such as '123 Main St'."),
            ("address2", "text", "Second line of the address, such as 'Apt 1', or ''."),
            ("city", "text", "City, such as 'San Francisco'."),
            ("state", "text", "State, such as 'CA'."),
            ("country", "text", "Country, such as 'USA'."),
            ("zip", "text", "Zip code, such as '12345'."),
        ]
    };
}

/// All tools.
pub(in crate::tau) const TOOLS: &[Tool] = &[
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
        name: "cancel_pending_order",
        effect: Writes,
        description: "Cancels a pending order; the status becomes 'cancelled' and payments are refunded: gift cards at once, \
            others in 5 to 7 business days. Explain the details and get the user's explicit yes first.",
        arguments: &[
            ("order_id", "text", ORDER),
            ("reason", "text", "Why: 'no longer needed' or 'ordered by mistake'."),
        ],
    },
    Tool {
        name: "exchange_delivered_order_items",
        effect: Writes,
        description: "Exchanges items of a delivered order for items of the same products. An order can be returned or exchanged \
            only once. Explain the details and get the user's explicit yes first.",
        arguments: &[
            ("order_id", "text", ORDER),
            (
                "item_ids",
                "texts",
                "Ids of the items to give back, such as '1008292230'; an id may occur more than once.",
            ),
            (
                "new_item_ids",
                "texts",
                "Ids of the items to get for them, in the same order, each of the same product.",
            ),
            ("payment_method_id", "text", METHOD),
        ],
    },
    Tool {
        name: "find_user_id_by_email",
        effect: Reads,
        description: "Finds a user's id by email.",
        arguments: &[("email", "text", "Email of the user, such as 'something@example.com'.")],
    },
    Tool {
        name: "find_user_id_by_name_zip",
        effect: Reads,
        description: "Finds a user's id by first name, last name and zip code. Use it only if the user can't be found by email or does \
            not remember it.",
        arguments: &[
            ("first_name", "text", "First name, such as 'John'."),
            ("last_name", "text", "Last name, such as 'Doe'."),
            ("zip", "text", "Zip code, such as '12345'."),
        ],
    },
    Tool {
        name: "get_item_details",
        effect: Reads,
        description: "Shows an item: options, availability and price.",
        arguments: &[("item_id", "text", "Id of the item, such as '1008292230'; not that of its product.")],
    },
    Tool {
        name: "get_order_details",
        effect: Reads,
        description: "Shows an order with its status.",
        arguments: &[("order_id", "text", ORDER)],
    },
    Tool {
        name: "get_product_details",
        effect: Reads,
        description: "Shows a product with all its items.",
        arguments: &[("product_id", "text", "Id of the product, such as '6086499569'; not that of an item.")],
    },
    Tool {
        name: "get_user_details",
        effect: Reads,
        description: "Shows a user with payment methods and the ids of orders.",
        arguments: &[("user_id", "text", USER)],
    },
    Tool {
        name: "list_all_product_types",
        effect: Reads,
        description: "Lists the names and ids of all products. Each product has many items with ids and options of their own.",
        arguments: &[],
    },
    Tool {
        name: "modify_pending_order_address",
        effect: Writes,
        description: "Changes the shipping address of a pending order. Explain the details and get the user's explicit yes first.",
        arguments: with_address!(("order_id", "text", ORDER)),
    },
    Tool {
        name: "modify_pending_order_items",
        effect: Writes,
        description: "Changes items of a pending order to items of the same products. It can be called only once per order. Explain \
            the details and get the user's explicit yes first.",
        arguments: &[
            ("order_id", "text", ORDER),
            (
                "item_ids",
                "texts",
                "Ids of the items to change, such as '1008292230'; an id may occur more than once.",
            ),
            (
                "new_item_ids",
                "texts",
                "Ids of the items to get instead, in the same order, each of the same product.",
            ),
            ("payment_method_id", "text", METHOD),
        ],
    },
    Tool {
        name: "modify_pending_order_payment",
        effect: Writes,
        description: "Changes the payment method of a pending order. Explain the details and get the user's explicit yes first.",
        arguments: &[
            ("order_id", "text", ORDER),
            (
                "payment_method_id",
                "text",
                "Id of the new payment method, such as 'gift_card_0000000'; user details show it.",
            ),
        ],
    },
    Tool {
        name: "modify_user_address",
        effect: Writes,
        description: "Changes the default address of a user. Explain the details and get the user's explicit yes first.",
        arguments: with_address!(("user_id", "text", USER)),
    },
    Tool {
        name: "return_delivered_order_items",
        effect: Writes,
        description: "Returns items of a delivered order; the status becomes 'return requested', and the user is told by email how to \
            return them. Explain the details and get the user's explicit yes first.",
        arguments: &[
            ("order_id", "text", ORDER),
            (
                "item_ids",
                "texts",
                "Ids of the items to return, such as '1008292230'; an id may occur more than once.",
            ),
            (
                "payment_method_id",
                "text",
                "Id of the payment method for the refund: the original one or a gift card, such as 'gift_card_0000000'.",
            ),
        ],
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
];
