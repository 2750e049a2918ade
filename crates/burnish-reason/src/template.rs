//! Texts with places that are filled.

use burnish_core::{Message, Role};

/// `template` with each place, such as `{prompt}`, filled by its text. What is filled in is not looked at again, so a text
/// may hold the names of places.
pub(crate) fn fill(template: &str, places: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    loop {
        let found = places.iter().filter_map(|(place, with)| Some((rest.find(place)?, *place, *with)));
        let Some((at, place, with)) = found.min_by_key(|(at, ..)| *at) else { break };
        text += &rest[..at];
        text += with;
        rest = &rest[at + place.len()..];
    }
    text + rest
}

/// `messages` with the last message of the user filled into `template` as `{prompt}`, and the other places.
pub(crate) fn posed(messages: &[Message], template: &str, places: &[(&str, &str)]) -> Vec<Message> {
    let mut messages = messages.to_vec();
    let last = messages.iter().rposition(|message| message.role == Role::User);
    let prompt = last.map_or("", |at| messages[at].content.as_str());
    let places: Vec<(&str, &str)> =
        [("{prompt}", prompt)].into_iter().chain(places.iter().copied()).collect();
    let content = fill(template, &places);
    match last {
        Some(at) => messages[at].content = content,
        None => messages.push(Message::user(content)),
    }
    messages
}

/// A conversation as one text: the only message of a user as it is, several with who says them.
pub(crate) fn transcript(messages: &[Message]) -> String {
    if let [message] = messages {
        return message.content.clone();
    }
    let line = |message: &Message| {
        let speaker = match message.role {
            Role::System => "System",
            Role::User => "User",
            Role::Assistant => "Assistant",
            Role::Tool => "Tool",
        };
        format!("{speaker}: {}", message.content)
    };
    messages.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_in_is_not_filled_again() {
        let places = [("{a}", "{b}"), ("{b}", "2")];
        assert_eq!(fill("{a}-{b}-{a}-{c}", &places), "{b}-2-{b}-{c}");
        assert_eq!(fill("", &places), "");
    }

    #[test]
    fn the_last_message_of_the_user_takes_the_template() {
        let said =
            [Message::system("s"), Message::user("one"), Message::assistant("a"), Message::user("two")];
        let posed = posed(&said, "{prompt}|{drafts}|{prompt}", &[("{drafts}", "{prompt}")]);
        assert_eq!(posed[..3], said[..3]);
        assert_eq!(posed[3].content, "two|{prompt}|two");
        assert_eq!(transcript(&said[..2]), "System: s\nUser: one");
    }
}
