//! Tickets of a company's support.

use serde_json::{Map, Value, json};

use super::{Api, Given, Outcome, Scenario, refusal};
use crate::bfcl::python::{equal, result};

/// The tickets, and who is logged in.
#[derive(Debug, Clone)]
pub(super) struct Tickets {
    queue: Vec<Value>,
    counter: i64,
    user: Value,
}

impl Tickets {
    pub(super) fn new(scenario: &Scenario<'_>) -> Result<Self, String> {
        let queue = scenario.list("ticket_queue", json!([]))?;
        let counter = scenario.whole("ticket_counter", 1)?;
        Ok(Tickets { queue, counter, user: scenario.get("current_user", Value::Null)? })
    }

    fn is_in(&self) -> bool {
        self.user.as_str().is_some_and(|user| !user.is_empty())
    }

    fn create(&mut self, given: &Given<'_>) -> Outcome {
        let (title, description) = (given.text("title")?, given.maybe_text("description")?.unwrap_or(""));
        let priority = if given.maybe("priority").is_some() { given.whole("priority")? } else { 1 };
        if !self.is_in() {
            return refusal("User not authenticated. Please log in to create a ticket.");
        }
        if !(1..=5).contains(&priority) {
            return refusal("Invalid priority. Priority must be between 1 and 5.");
        }
        let ticket = json!({ "id": self.counter, "title": title, "description": description, "status": "Open",
            "priority": priority, "created_by": self.user });
        self.queue.push(ticket.clone());
        self.counter += 1;
        Ok(ticket)
    }

    /// Does something with the ticket that is meant; it returns what is told.
    fn with(
        &mut self,
        given: &Given<'_>,
        act: impl FnOnce(&mut Map<String, Value>, &str) -> Outcome,
    ) -> Outcome {
        let id = given.value("ticket_id")?;
        let shown = result(id);
        for ticket in &mut self.queue {
            // Rows also have tickets that are a text, at which the search fails.
            let ticket = ticket.as_object_mut().ok_or("a ticket is no object")?;
            if equal(field(ticket, "id")?, id) {
                return act(ticket, &shown);
            }
        }
        refusal(format!("Ticket with ID {shown} not found."))
    }

    /// The tickets of whoever is logged in.
    fn own(&self, status: Option<&str>) -> Outcome {
        if !self.is_in() {
            return Ok(json!([{ "error": "User not authenticated. Please log in to view tickets." }]));
        }
        let mut found = Vec::new();
        for ticket in &self.queue {
            let fields = ticket.as_object().ok_or("a ticket is no object")?;
            if field(fields, "created_by")? != &self.user {
                continue;
            }
            let is_asked = match status {
                None => true,
                Some(status) => {
                    let is = field(fields, "status")?.as_str().ok_or("a status is no string")?;
                    is.to_lowercase() == status.to_lowercase()
                }
            };
            if is_asked {
                found.push(ticket.clone());
            }
        }
        Ok(Value::Array(found))
    }
}

/// A field that Python asks for without a default.
fn field<'a>(ticket: &'a Map<String, Value>, key: &str) -> Result<&'a Value, String> {
    ticket.get(key).ok_or_else(|| format!("'{key}'"))
}

/// Fields of a ticket that can be edited.
const EDITABLE: [&str; 4] = ["title", "description", "status", "priority"];

fn edit(ticket: &mut Map<String, Value>, id: &str, updates: &Value) -> Outcome {
    let updates = updates.as_object().ok_or("the argument 'updates' must be an object")?;
    let foreign: Vec<&str> =
        updates.keys().map(String::as_str).filter(|key| !EDITABLE.contains(key)).collect();
    if !foreign.is_empty() {
        return refusal(format!("Invalid fields for update: {}", foreign.join(", ")));
    }
    for (key, value) in updates.iter().filter(|(_, value)| !value.is_null()) {
        ticket.insert(key.clone(), value.clone());
    }
    Ok(json!({ "status": format!("Ticket {id} has been updated successfully.") }))
}

/// Gives a ticket a status that it must not have yet.
fn settle(ticket: &mut Map<String, Value>, id: &str, status: &str, resolution: Option<&str>) -> Outcome {
    let done = status.to_lowercase();
    if field(ticket, "status")? == status {
        return refusal(format!("Ticket with ID {id} is already {done}."));
    }
    ticket.insert("status".to_owned(), json!(status));
    if let Some(resolution) = resolution {
        ticket.insert("resolution".to_owned(), json!(resolution));
    }
    Ok(json!({ "status": format!("Ticket {id} has been {done} successfully.") }))
}

impl Api for Tickets {
    fn call(&mut self, method: &str, given: &Given<'_>) -> Option<Outcome> {
        Some(match method {
            "create_ticket" => self.create(given),
            "get_ticket" => self.with(given, |ticket, _| Ok(Value::Object(ticket.clone()))),
            "close_ticket" => self.with(given, |ticket, id| settle(ticket, id, "Closed", None)),
            "resolve_ticket" => given.text("resolution").and_then(|resolution| {
                self.with(given, |ticket, id| settle(ticket, id, "Resolved", Some(resolution)))
            }),
            "edit_ticket" => {
                let updates = given.value("updates");
                updates.and_then(|updates| self.with(given, |ticket, id| edit(ticket, id, updates)))
            }
            "ticket_login" => given.text("username").and_then(|user| {
                let success = !user.is_empty() && !given.text("password")?.is_empty();
                if success {
                    self.user = json!(user);
                }
                Ok(json!({ "success": success }))
            }),
            "ticket_get_login_status" => Ok(json!({ "login_status": self.is_in() })),
            "logout" => {
                let success = self.is_in();
                if success {
                    self.user = Value::Null;
                }
                Ok(json!({ "success": success }))
            }
            "get_user_tickets" => {
                let status = given.maybe_text("status");
                status.and_then(|status| self.own(status.filter(|status| !status.is_empty())))
            }
            _ => return None,
        })
    }

    fn state(&self) -> Value {
        json!({ "ticket_queue": self.queue, "ticket_counter": self.counter, "current_user": self.user })
    }

    fn copy(&self) -> Box<dyn Api> {
        Box::new(self.clone())
    }
}
