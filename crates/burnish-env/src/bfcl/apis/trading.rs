//! A trading account: stocks, orders, a watch list, transactions.

use serde_json::{Map, Value, json};

use super::{Api, Given, Outcome, Scenario, number_of, refusal};
use crate::bfcl::python::shown;
use crate::bfcl::random::Random;

/// Seconds from midnight to the time that it always is: 10:30 on 1 September 2024.
const NOW: u64 = (10 * 60 + 30) * 60;
const DAY: u64 = 24 * 60 * 60;

/// The account.
#[derive(Debug, Clone)]
pub(super) struct Trading {
    random: Random,
    /// Orders by their ids.
    orders: Map<String, Value>,
    account: Map<String, Value>,
    is_in: bool,
    market: String,
    counter: i64,
    stocks: Map<String, Value>,
    watch_list: Vec<Value>,
    transactions: Vec<Value>,
}

impl Trading {
    pub(super) fn new(scenario: &Scenario<'_>) -> Result<Self, String> {
        let account =
            json!({ "account_id": 12345, "balance": 10000.0, "binding_card": 1_974_202_140_965_533_i64 });
        Ok(Trading {
            random: Random::new(scenario.seed(1_053_520)?),
            orders: scenario.object("orders", default_orders())?,
            account: scenario.object("account_info", account)?,
            is_in: scenario.flag("authenticated", false)?,
            market: scenario.text("market_status", "Closed")?,
            counter: scenario.whole("order_counter", 12446)?,
            stocks: scenario.object("stocks", default_stocks())?,
            watch_list: scenario.list("watch_list", json!(["NVDA"]))?,
            transactions: scenario.list("transaction_history", json!([]))?,
        })
    }

    /// Ids of orders, in their order; a key that is no number stays a text.
    fn ids(&self) -> Value {
        let id = |key: &String| key.parse::<i64>().map_or_else(|_| json!(key), |id| json!(id));
        Value::Array(self.orders.keys().map(id).collect())
    }

    fn order(&self, given: &Given<'_>) -> Outcome {
        let id = given.whole("order_id")?;
        match self.orders.get(&id.to_string()) {
            Some(order) => Ok(order.clone()),
            None => {
                let ids = shown(&self.ids());
                refusal(format!("Order with ID {id} not found.Here is the list of orders_id: {ids}"))
            }
        }
    }

    fn cancel(&mut self, given: &Given<'_>) -> Outcome {
        let id = given.whole("order_id")?;
        let Some(order) = self.orders.get_mut(&id.to_string()) else {
            return refusal(format!("Order with ID {id} not found."));
        };
        let order = order.as_object_mut().filter(|order| order.contains_key("status")).ok_or("'status'")?;
        if order["status"] == "Completed" {
            return refusal(format!("Can't cancel order {id}. Order is already completed."));
        }
        order.insert("status".to_owned(), json!("Cancelled"));
        Ok(json!({ "order_id": id, "status": "Cancelled" }))
    }

    fn place(&mut self, given: &Given<'_>) -> Outcome {
        let (kind, symbol) = (given.text("order_type")?, given.text("symbol")?);
        let (price, amount) = (given.number("price")?.float(), given.number("amount")?);
        if !self.stocks.contains_key(symbol) {
            return refusal(format!("Invalid stock symbol: {symbol}"));
        }
        if price <= 0.0 || amount.float() <= 0.0 {
            return refusal("Price and amount must be positive values.");
        }
        if kind.to_lowercase() == "buy" {
            let cost = price * amount.float().trunc();
            let balance = self.account.get("balance").and_then(Value::as_f64).unwrap_or(0.0);
            if cost > balance {
                let problem = format!("required ${cost:.2} but only ${balance:.2} available.");
                return refusal(format!("Insufficient funds: {problem}"));
            }
        }
        let (id, amount) = (self.counter, amount.value()?);
        self.counter += 1;
        let order = json!({ "id": id, "order_type": kind, "symbol": symbol, "price": price, "amount": amount,
            "status": "Open" });
        self.orders.insert(id.to_string(), order);
        // It is told as pending, and open when it is looked at.
        Ok(
            json!({ "order_id": id, "order_type": kind, "status": "Pending", "price": price, "amount": amount }),
        )
    }

    /// Pays in or out.
    fn pay(&mut self, given: &Given<'_>, is_in: bool) -> Outcome {
        let amount = given.number("amount")?;
        if !is_in && self.market != "Open" {
            return refusal("Market is closed. Transactions are not allowed.");
        }
        if amount.float() <= 0.0 {
            let what = if is_in { "Funding" } else { "Transaction" };
            return refusal(format!("{what} amount must be positive."));
        }
        let balance = number_of(&self.account, "balance")?;
        if !is_in && amount.float() > balance.float() {
            return refusal("Insufficient funds for withdrawal.");
        }
        let balance = if is_in { balance.plus(amount) } else { balance.minus(amount) }.value()?;
        self.account.insert("balance".to_owned(), balance.clone());
        let kind = if is_in { "deposit" } else { "withdrawal" };
        let time = self.time();
        self.transactions.push(json!({ "type": kind, "amount": amount.value()?, "timestamp": time }));
        let status = if is_in { "Account funded successfully" } else { "Withdrawal successful" };
        Ok(json!({ "status": status, "new_balance": balance }))
    }

    /// The time of a transaction: within a day from now.
    fn time(&mut self) -> String {
        let seconds = NOW + self.random.between(0, DAY);
        let (day, rest) = (1 + seconds / DAY, seconds % DAY);
        format!("2024-09-{day:02} {:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60)
    }

    fn history(&self, given: &Given<'_>) -> Outcome {
        let day = |key: &str| match given.maybe_text(key)?.filter(|text| !text.is_empty()) {
            None => Ok(None),
            Some(text) => {
                let wrong = || format!("time data '{text}' does not match format '%Y-%m-%d'");
                date(text).map(Some).ok_or_else(wrong)
            }
        };
        let (start, end): (Result<_, String>, Result<_, String>) = (day("start_date"), day("end_date"));
        let (start, end) = (start?, end?);
        let mut found = Vec::new();
        for transaction in &self.transactions {
            let time = transaction.get("timestamp").and_then(Value::as_str).ok_or("'timestamp'")?;
            let wrong = || format!("time data '{time}' does not match format '%Y-%m-%d %H:%M:%S'");
            let (day, clock) = time.split_once(' ').ok_or_else(wrong)?;
            let day = date(day).ok_or_else(wrong)?;
            let is_midnight = clock.chars().all(|letter| matches!(letter, '0' | ':'));
            // The end is the beginning of its day.
            let is_before = end.is_none_or(|end| day < end || (day == end && is_midnight));
            if is_before && start.is_none_or(|start| day >= start) {
                found.push(transaction);
            }
        }
        Ok(json!({ "transaction_history": found }))
    }

    fn by_price(&self, given: &Given<'_>) -> Outcome {
        let (least, most) = (given.number("min_price")?.float(), given.number("max_price")?.float());
        let price = |symbol: &str| {
            let stock = self.stocks.get(symbol);
            stock.and_then(|stock| stock.get("price")).and_then(Value::as_f64).unwrap_or(0.0)
        };
        let mut stocks = given.texts("stocks")?;
        stocks.retain(|symbol| (least..=most).contains(&price(symbol)));
        Ok(json!({ "filtered_stocks": stocks }))
    }

    fn notify(&self, given: &Given<'_>) -> Outcome {
        let threshold = given.number("threshold")?.float();
        let mut changed = Vec::new();
        for symbol in given.texts("stocks")? {
            let Some(stock) = self.stocks.get(symbol) else { continue };
            let change = stock.get("percent_change").and_then(Value::as_f64).ok_or("'percent_change'")?;
            if change.abs() >= threshold {
                changed.push(symbol);
            }
        }
        Ok(json!({ "notification": match changed.is_empty() {
            true => "No significant price changes in the selected stocks.".to_owned(),
            false => format!("Stocks {} have significant price changes.", changed.join(", ")),
        }}))
    }

    fn unwatch(&mut self, symbol: &str) -> Outcome {
        let Some(at) = self.watch_list.iter().position(|known| known == symbol) else {
            return refusal(format!("Stock {symbol} not found in watchlist."));
        };
        self.watch_list.remove(at);
        Ok(json!({ "status": format!("Stock {symbol} removed from watchlist successfully.") }))
    }

    fn watch(&mut self, symbol: &str) -> Value {
        if self.stocks.contains_key(symbol) && !self.watch_list.iter().any(|known| known == symbol) {
            self.watch_list.push(json!(symbol));
        }
        json!({ "watchlist": self.watch_list })
    }

    /// What is refused to whoever is not logged in.
    fn forbidden(method: &str) -> Option<Value> {
        let refused = |what: &str| {
            Some(json!({ "error": format!("User not authenticated. Please log in to {what}.") }))
        };
        match method {
            "place_order" => refused("place an order"),
            "withdraw_funds" => refused("make a transaction"),
            "get_account_info" => refused("view account information"),
            "fund_account" => refused("fund the account"),
            "remove_stock_from_watchlist" => refused("modify the watchlist"),
            "get_watchlist" => {
                Some(json!(["Error: User not authenticated. Please log in to view the watchlist."]))
            }
            "get_order_history" => refused("view order history").map(|refused| json!([refused])),
            "get_transaction_history" => refused("view transaction history").map(|refused| json!([refused])),
            _ => None,
        }
    }
}

/// Year, month and day of `2024-9-1`.
fn date(text: &str) -> Option<(u32, u32, u32)> {
    let mut parts = text.split('-').map(|part| part.parse::<u32>().ok());
    match (parts.next()??, parts.next()??, parts.next()??, parts.next()) {
        (year, month @ 1..=12, day @ 1..=31, None) => Some((year, month, day)),
        _ => None,
    }
}

const SYMBOLS: [(&str, &str); 13] = [
    ("Apple", "AAPL"),
    ("Google", "GOOG"),
    ("Tesla", "TSLA"),
    ("Microsoft", "MSFT"),
    ("Nvidia", "NVDA"),
    ("Zeta Corp", "ZETA"),
    ("Alpha Tech", "ALPH"),
    ("Omega Industries", "OMEG"),
    ("Quasar Ltd.", "QUAS"),
    ("Neptune Systems", "NEPT"),
    ("Synex Solutions", "SYNX"),
    ("Amazon", "AMZN"),
    ("Gorilla", "GORI"),
];

/// Symbol, price, change in percent, volume, moving averages of 5 and 20 days.
const STOCKS: [(&str, [f64; 5]); 11] = [
    ("AAPL", [227.16, 0.17, 2.552, 227.11, 227.09]),
    ("GOOG", [2840.34, 0.24, 1.123, 2835.67, 2842.15]),
    ("TSLA", [667.92, -0.12, 1.654, 671.15, 668.2]),
    ("MSFT", [310.23, 0.09, 3.234, 309.88, 310.11]),
    ("NVDA", [220.34, 0.34, 1.234, 220.45, 220.67]),
    ("ALPH", [1320.45, -0.08, 1.567, 1321.12, 1325.78]),
    ("OMEG", [457.23, 0.12, 2.345, 456.78, 458.12]),
    ("QUAS", [725.89, -0.03, 1.789, 726.45, 728.0]),
    ("NEPT", [88.34, 0.19, 0.654, 88.21, 88.67]),
    ("SYNX", [345.67, 0.11, 2.112, 345.34, 346.12]),
    ("ZETA", [22.09, -0.05, 0.789, 22.12, 22.34]),
];

fn default_stocks() -> Value {
    let stock = |(symbol, [price, change, volume, five, twenty]): &(&str, [f64; 5])| {
        let stock = json!({ "price": price, "percent_change": change, "volume": volume, "MA(5)": five,
            "MA(20)": twenty });
        ((*symbol).to_owned(), stock)
    };
    Value::Object(STOCKS.iter().map(stock).collect())
}

fn default_orders() -> Value {
    json!({
        "12345": { "id": 12345, "order_type": "Buy", "symbol": "AAPL", "price": 210.65, "amount": 10,
            "status": "Completed" },
        "12446": { "id": 12446, "order_type": "Sell", "symbol": "GOOG", "price": 2840.56, "amount": 5,
            "status": "Pending" },
    })
}

impl Api for Trading {
    fn call(&mut self, method: &str, given: &Given<'_>) -> Option<Outcome> {
        if let Some(refused) = Trading::forbidden(method).filter(|_| !self.is_in) {
            return Some(Ok(refused));
        }
        let text = |key: &str| given.text(key);
        Some(match method {
            "get_current_time" => Ok(json!({ "current_time": "10:30 AM" })),
            "get_symbol_by_name" => text("name").map(|name| {
                let symbol = SYMBOLS.iter().find(|(known, _)| *known == name).map(|(_, symbol)| *symbol);
                json!({ "symbol": symbol.unwrap_or("Stock not found") })
            }),
            "get_stock_info" => text("symbol").and_then(|symbol| match self.stocks.get(symbol) {
                Some(stock) => Ok(stock.clone()),
                None => refusal(format!("Stock with symbol '{symbol}' not found.")),
            }),
            "get_order_details" => self.order(given),
            "cancel_order" => self.cancel(given),
            "place_order" => self.place(given),
            "withdraw_funds" => self.pay(given, false),
            "fund_account" => self.pay(given, true),
            "get_account_info" => Ok(Value::Object(self.account.clone())),
            "trading_login" => Ok(match std::mem::replace(&mut self.is_in, true) {
                true => json!({ "status": "Already logged in" }),
                false => json!({ "status": "Logged in successfully" }),
            }),
            "trading_get_login_status" => Ok(json!({ "status": self.is_in })),
            "trading_logout" => Ok(match std::mem::replace(&mut self.is_in, false) {
                true => json!({ "status": "Logged out successfully" }),
                false => json!({ "status": "No user is currently logged in" }),
            }),
            "remove_stock_from_watchlist" => text("symbol").and_then(|symbol| self.unwatch(symbol)),
            "get_watchlist" => Ok(json!({ "watchlist": self.watch_list })),
            "get_order_history" => Ok(json!({ "history": self.ids() })),
            "get_transaction_history" => self.history(given),
            "get_available_stocks" => text("sector").map(|sector| {
                let stocks: &[&str] = match sector {
                    "Technology" => &["AAPL", "GOOG", "MSFT", "NVDA"],
                    "Automobile" => &["TSLA", "F", "GM"],
                    _ => &[],
                };
                json!({ "stock_list": stocks })
            }),
            "filter_stocks_by_price" => self.by_price(given),
            "add_to_watchlist" => text("stock").map(|symbol| self.watch(symbol)),
            "notify_price_change" => self.notify(given),
            _ => return None,
        })
    }

    fn state(&self) -> Value {
        let Trading { orders, account, is_in, market, counter, stocks, watch_list, transactions, .. } = self;
        json!({ "orders": orders, "account_info": account, "authenticated": is_in, "market_status": market,
            "order_counter": counter, "stocks": stocks, "watch_list": watch_list,
            "transaction_history": transactions })
    }

    fn copy(&self) -> Box<dyn Api> {
        Box::new(self.clone())
    }
}
