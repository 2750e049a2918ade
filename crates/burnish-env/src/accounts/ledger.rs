//! The ledger: accounts, and the tools that read and change them.

use burnish_core::{FunctionCall, Repeating, ToolSpec};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The tools.
pub(super) const ACCOUNTS: &str = "accounts";
pub(super) const BALANCE: &str = "balance";
pub(super) const TRANSFER: &str = "transfer";

/// The result of a successful transfer.
const OK: &str = "ok";

/// One account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Account {
    pub(super) name: String,
    pub(super) balance: u64,
}

/// A transfer from one account to another, both given by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) amount: u64,
}

/// All accounts, in the order in which they are listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ledger {
    pub(super) accounts: Vec<Account>,
}

/// How everything begins that a tool refuses.
pub(super) const REFUSED: &str = "refused: ";

impl Ledger {
    pub(super) fn name(&self, at: usize) -> &str {
        &self.accounts[at].name
    }

    pub(super) fn balance(&self, at: usize) -> u64 {
        self.accounts[at].balance
    }

    /// The names of all.
    pub(super) fn names(&self) -> String {
        self.accounts.iter().map(|account| account.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Carries out a transfer.
    ///
    /// # Errors
    /// Why not, in words for the policy; nothing has changed then.
    pub(super) fn transfer(&mut self, Transfer { from, to, amount }: Transfer) -> Result<(), String> {
        if from == to {
            return Err(format!("refused: {} can't pay itself", self.name(from)));
        }
        if amount == 0 {
            return Err("refused: the amount must be above 0".to_owned());
        }
        let has = self.balance(from);
        let left = has.checked_sub(amount);
        let left = left.ok_or_else(|| format!("refused: {} has only {has}", self.name(from)))?;
        let full = || format!("refused: {} can't hold that much", self.name(to));
        let sum = self.balance(to).checked_add(amount).ok_or_else(full)?;
        self.accounts[from].balance = left;
        self.accounts[to].balance = sum;
        Ok(())
    }

    /// Runs a tool and returns its result.
    ///
    /// # Errors
    /// Why the tool refuses, in words for the policy.
    pub(super) fn call(&mut self, call: &FunctionCall) -> Result<String, String> {
        let argument = |key: &str| call.arguments.get(key).cloned().unwrap_or_default();
        match call.name.as_str() {
            ACCOUNTS => Ok(self.names()),
            BALANCE => Ok(self.balance(self.find(&argument("name"))?).to_string()),
            TRANSFER => {
                let (from, to) = (self.find(&argument("from"))?, self.find(&argument("to"))?);
                let amount = amount(&argument("amount"))?;
                self.transfer(Transfer { from, to, amount }).map(|()| OK.to_owned())
            }
            other => Err(format!("refused: there is no tool {other}")),
        }
    }

    /// The account with this name.
    fn find(&self, name: &Value) -> Result<usize, String> {
        let name = name.as_str().unwrap_or_default();
        self.accounts
            .iter()
            .position(|account| account.name == name)
            .ok_or_else(|| format!("refused: there is no account {name}; there are {}", self.names()))
    }
}

/// An integer amount of any size. One that is too large for any account becomes the largest number, which nobody has.
fn amount(value: &Value) -> Result<u64, String> {
    match (value.as_u64(), value.as_f64()) {
        (Some(amount), _) => Ok(amount),
        // `20.0` is an integer in JSON schemas. A float beyond the largest number becomes that number.
        (None, Some(amount)) if amount >= 0.0 && amount.fract() == 0.0 => Ok(amount as u64),
        (None, Some(amount)) if amount < 0.0 => Err("refused: the amount must be above 0".to_owned()),
        _ => Err("refused: the amount must be a whole number".to_owned()),
    }
}

/// The tools that may be called.
pub(super) fn tools() -> Vec<ToolSpec> {
    let account = |what: &str| json!({"type": "string", "description": what});
    let tool = |name: &str, description: &str, properties: Value| {
        let required: Vec<&String> = properties.as_object().into_iter().flat_map(Map::keys).collect();
        let parameters = json!({"type": "object", "properties": properties, "required": required});
        ToolSpec { name: name.into(), description: description.into(), parameters, more: Map::new() }
    };
    vec![
        tool(ACCOUNTS, "The names of all accounts.", json!({})),
        tool(BALANCE, "How much money an account has.", json!({"name": account("the account")})),
        tool(
            TRANSFER,
            "Moves money from one account to another.",
            json!({
                "from": account("who pays"),
                "to": account("who is paid"),
                "amount": {"type": "integer", "description": "how much, above 0"},
            }),
        ),
    ]
}

/// What it means to repeat a call.
pub(super) fn repeating(tool: &str) -> Option<Repeating> {
    match tool {
        ACCOUNTS | BALANCE => Some(Repeating::Repeatable),
        TRANSFER => Some(Repeating::Rebuilt),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        let account = |(name, balance): (&str, u64)| Account { name: name.into(), balance };
        Ledger { accounts: [("Ann", 40), ("Bob", 3), ("Cid", u64::MAX - 1)].map(account).into() }
    }

    fn said(ledger: &mut Ledger, name: &str, arguments: Value) -> Result<String, String> {
        ledger.call(&FunctionCall { name: name.into(), arguments })
    }

    #[test]
    fn tools_look_and_move_and_say_why_not() {
        let mut ledger = ledger();
        let transfer = |from: &str, to: &str, amount: Value| {
            ("transfer", json!({"from": from, "to": to, "amount": amount}))
        };
        for ((name, arguments), wanted) in [
            (("accounts", json!({})), Ok("Ann, Bob, Cid")),
            (("balance", json!({"name": "Ann"})), Ok("40")),
            (transfer("Ann", "Bob", json!(15)), Ok("ok")),
            (("balance", json!({"name": "Ann"})), Ok("25")),
            (transfer("Bob", "Ann", json!(18.0)), Ok("ok")),
            (transfer("Bob", "Ann", json!(1)), Err("refused: Bob has only 0")),
            (transfer("Ann", "Bob", json!(1e300)), Err("refused: Ann has only 43")),
            (transfer("Ann", "Bob", json!(0)), Err("refused: the amount must be above 0")),
            (transfer("Ann", "Bob", json!(-5)), Err("refused: the amount must be above 0")),
            (transfer("Ann", "Bob", json!(0.5)), Err("refused: the amount must be a whole number")),
            (transfer("Ann", "Bob", json!("5")), Err("refused: the amount must be a whole number")),
            (transfer("Ann", "Ann", json!(5)), Err("refused: Ann can't pay itself")),
            (transfer("Ann", "Cid", json!(5)), Err("refused: Cid can't hold that much")),
            (
                transfer("Ann", "bob", json!(5)),
                Err("refused: there is no account bob; there are Ann, Bob, Cid"),
            ),
            (("balance", json!(null)), Err("refused: there is no account ; there are Ann, Bob, Cid")),
            (("close", json!({})), Err("refused: there is no tool close")),
        ] {
            let wanted = wanted.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(said(&mut ledger, name, arguments), wanted);
        }
        assert_eq!((ledger.balance(0), ledger.balance(1)), (43, 0));
    }

    #[test]
    fn every_tool_may_be_repeated_in_its_way_and_has_a_schema() {
        for tool in tools() {
            assert!(repeating(&tool.name).is_some(), "{}", tool.name);
            assert!(jsonschema::validator_for(&tool.parameters).is_ok());
        }
        assert_eq!(repeating("close"), None);
    }
}
