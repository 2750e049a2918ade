//! Messages between the users of a workspace.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{Api, Given, Outcome, Scenario, refusal};
use crate::bfcl::random::Random;

/// A message: who gets it, and what it says, which rows also write as a list or an object.
type Sent = (String, Value);

/// The workspace.
#[derive(Debug, Clone)]
pub(super) struct Messages {
    random: Random,
    ids: BTreeSet<u64>,
    user_count: i64,
    users: Map<String, Value>,
    inbox: Vec<Sent>,
    message_count: i64,
    user: Value,
}

impl Messages {
    pub(super) fn new(scenario: &Scenario<'_>) -> Result<Self, String> {
        let users = json!({ "Alice": "USR001", "Bob": "USR002", "Catherine": "USR003", "Daniel": "USR004" });
        let inbox = json!([
            { "USR002": "My name is Alice. I want to connect." },
            { "USR003": "Could you upload the file?" },
            { "USR004": "Could you upload the file?" },
        ]);
        let sent = |(at, message): (usize, Value)| {
            // Of several fields, the leaderboard's methods see the first.
            let one = message.as_object().and_then(|fields| fields.iter().next());
            let one = one.map(|(to, said)| (to.clone(), said.clone()));
            one.ok_or_else(|| format!("inbox.{at}: must be an object of a receiver and a message"))
        };
        Ok(Messages {
            random: Random::new(scenario.seed(200_191)?),
            ids: BTreeSet::new(),
            user_count: scenario.whole("user_count", 4)?,
            users: scenario.object("user_map", users)?,
            inbox: scenario
                .list("inbox", inbox)?
                .into_iter()
                .enumerate()
                .map(sent)
                .collect::<Result<_, _>>()?,
            message_count: scenario.whole("message_count", 3)?,
            user: scenario.get("current_user", Value::Null)?,
        })
    }

    fn is_id(&self, id: &str) -> bool {
        self.users.values().any(|known| known == id)
    }

    /// Whether somebody is logged in.
    fn is_in(&self) -> bool {
        self.user.as_str().is_some_and(|user| !user.is_empty())
    }

    fn send(&mut self, to: &str, said: &str) -> Outcome {
        if !self.is_id(to) {
            return refusal(format!("Receiver ID '{to}' not found."));
        }
        let id = loop {
            let drawn = self.random.between(10_000, 99_999);
            if self.ids.insert(drawn) {
                break drawn;
            }
        };
        self.inbox.push((to.to_owned(), json!(said)));
        self.message_count += 1;
        Ok(json!({
            "sent_status": true,
            "message_id": { "new_id": id },
            "message": format!("Message sent to '{to}' successfully."),
        }))
    }

    /// The latest message to somebody is looked for, and the earliest that is the same is deleted.
    fn delete(&mut self, to: &str) -> Outcome {
        let latest = self.inbox.iter().rfind(|(known, _)| known == to);
        let Some(at) = latest.and_then(|latest| self.inbox.iter().position(|message| message == latest))
        else {
            return refusal(format!("Receiver ID {to} not found."));
        };
        self.inbox.remove(at);
        Ok(json!({
            "deleted_status": true,
            "receiver_id": to,
            "message": format!("Receiver {to}'s latest message deleted successfully."),
        }))
    }

    fn add(&mut self, name: &str) -> Outcome {
        if self.users.contains_key(name) {
            return refusal(format!("User name '{name}' already exists."));
        }
        self.user_count += 1;
        let id = format!("USR{:03}", self.user_count);
        if self.is_id(&id) {
            return refusal(format!("User ID '{id}' already exists."));
        }
        self.users.insert(name.to_owned(), json!(id));
        let message = format!("Contact '{name}' added successfully.");
        Ok(json!({ "added_status": true, "user_id": id, "message": message }))
    }

    fn log_in(&mut self, id: &str) -> Value {
        if !self.is_id(id) {
            return json!({ "login_status": false, "message": format!("User ID '{id}' not found.") });
        }
        self.user = json!(id);
        json!({ "login_status": true, "message": format!("User '{id}' logged in successfully.") })
    }

    /// A message that is no text can't be searched.
    fn search(&self, keyword: &str) -> Outcome {
        let keyword = keyword.to_lowercase();
        let mut found = Vec::new();
        for (to, said) in &self.inbox {
            let text = said.as_str().ok_or("a message is no string, so it has no attribute 'lower'")?;
            if text.to_lowercase().contains(&keyword) {
                found.push(json!({ "receiver_id": to, "message": text }));
            }
        }
        Ok(json!({ "results": found }))
    }

    /// Messages by receiver, in the order of their first message.
    fn by_receiver(&self) -> Map<String, Value> {
        let mut found: Vec<(&String, Vec<&Value>)> = Vec::new();
        for (to, said) in &self.inbox {
            match found.iter_mut().find(|(known, _)| *known == to) {
                Some((_, messages)) => messages.push(said),
                None => found.push((to, vec![said])),
            }
        }
        found.into_iter().map(|(to, messages)| (to.clone(), json!(messages))).collect()
    }
}

impl Api for Messages {
    fn call(&mut self, method: &str, given: &Given<'_>) -> Option<Outcome> {
        let needs_user = matches!(
            method,
            "send_message"
                | "delete_message"
                | "view_messages_sent"
                | "search_messages"
                | "get_message_stats"
        );
        if needs_user && !self.is_in() {
            return Some(refusal("No user is currently logged in."));
        }
        Some(match method {
            "list_users" => Ok(json!({ "user_list": self.users.keys().collect::<Vec<_>>() })),
            "get_user_id" => given.text("user").and_then(|user| match self.users.get(user) {
                Some(id) => Ok(json!({ "user_id": id })),
                None => refusal(format!("User '{user}' not found in the workspace.")),
            }),
            "message_login" => given.text("user_id").map(|id| self.log_in(id)),
            "message_get_login_status" => Ok(json!({ "login_status": self.is_in() })),
            "send_message" => given.text("receiver_id").and_then(|to| self.send(to, given.text("message")?)),
            "delete_message" => given.text("receiver_id").and_then(|to| self.delete(to)),
            "view_messages_sent" => Ok(json!({ "messages": self.by_receiver() })),
            "add_contact" => given.text("user_name").and_then(|name| self.add(name)),
            "search_messages" => given.text("keyword").and_then(|keyword| self.search(keyword)),
            "get_message_stats" => {
                let contacts: BTreeSet<&String> = self.inbox.iter().map(|(to, _)| to).collect();
                let stats = json!({ "received_count": self.inbox.len(), "total_contacts": contacts.len() });
                Ok(json!({ "stats": stats }))
            }
            _ => return None,
        })
    }

    fn state(&self) -> Value {
        let Messages { ids, user_count, users, inbox, message_count, user, .. } = self;
        json!({ "generated_ids": ids, "user_count": user_count, "user_map": users, "inbox": inbox,
            "message_count": message_count, "current_user": user })
    }

    fn copy(&self) -> Box<dyn Api> {
        Box::new(self.clone())
    }
}
