//! The user: by rules, or as the brief of somebody who plays it.
//!
//! The rule's user is strict: it says sentences of its instruction, in the first person, and a few phrases of its own that
//! hold no fact ([`Phrase`]). Each sentence leaves only if it is asked for, or as the next request when the last has been
//! dealt with. It invents nothing and never leaves with a request unsaid.

mod facts;
mod words;

use burnish_core::Message;

use super::case::Brief;
use facts::{FACTS, Fact};
use words::{CONFIRM, sentences, spoken, topics};

/// What ends a conversation, if the user says it.
pub(super) const STOP: &str = "###STOP###";
/// What a user says who has been handed to somebody else, or who has nothing to go by; both end the conversation.
const OTHER_STOPS: [&str; 2] = ["###TRANSFER###", "###OUT-OF-SCOPE###"];

/// The opening of a user whose rest somebody else says.
pub(super) const HELLO: &str = "Hello, I need some help.";

/// Least words that a question shares with a sentence that answers it.
const SHARED_MIN: usize = 2;

/// What the rule's user says of its own.
struct Phrase;

impl Phrase {
    const YES: &str = "Yes.";
    const DONE: &str = "No, that is all.";
    const DONT_KNOW: &str = "I don't know.";
}

/// What a sentence of an instruction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// The user wants it done.
    Request,
    /// Said if asked for.
    Known,
    /// Says what the user does not know.
    Unknown,
    /// Said if the condition before it comes about.
    Conditional,
}

#[derive(Debug, Clone)]
struct Line {
    text: String,
    purpose: Use,
    /// Of a conditional: what its condition is about.
    condition: Vec<String>,
    was_said: bool,
}

/// The rule's user, with what it has said so far.
#[derive(Debug, Clone)]
pub(super) struct RuleUser {
    lines: Vec<Line>,
}

/// Beginnings of sentences that say how the user behaves, not what it says.
const BEHAVIOR: &[&str] = &[
    "always ",
    "be ",
    "but do not ",
    "do not ",
    "don't ",
    "insist ",
    "make sure",
    "never ",
    "otherwise",
    "remember ",
    "under no ",
    "unless ",
    "when ",
    "you are reactive",
    "you randomly",
    "you do not want to be transferred",
    "in the middle of",
];

/// Parts of sentences that are not to be said.
const SECRETS: &[&str] = &[
    "do not reveal",
    "don't reveal",
    "do not mention",
    "don't mention",
    "do not tell",
    "don't tell",
    "without mentioning",
];

/// Beginnings of sentences that say something for the case that something comes about.
const CASES: &[&str] =
    &["if ", "but if ", "but when ", "when you are asked", "when the agent ", "once the agent "];

/// Beginnings of sentences that say what the user wants.
const REQUEST: &[&str] = &[
    "you want",
    "you'd like",
    "you would like",
    "you need",
    "you also",
    "you wish",
    "you have to",
    "tell the agent",
    "mention ",
    "ask ",
    "first, ",
    "then ",
    "after this",
    "lastly",
    "you are contacting",
    "you are trying",
];

/// Texts that ask for a yes.
const CONFIRMS: &[&str] = &[
    "confirm",
    "proceed",
    "(yes",
    "would you like me to",
    "is that correct",
    "is this correct",
    "shall i",
    "should i",
    "go ahead",
    "do you want me to",
    "do you agree",
];

/// Texts that ask for whatever the user wants next.
const OPEN: &[&str] = &[
    "anything else",
    "any other",
    "how can i",
    "how may i",
    "what can i",
    "what would you like",
    "further assist",
    "help you with",
    "assist you with",
];

/// Texts that ask without a question mark.
const ASKS: &[&str] = &[
    "please provide",
    "please share",
    "please tell",
    "please confirm",
    "let me know",
    "i need your",
    "i'll need",
];

/// Texts of one who hands the user to somebody else.
const HANDS_OVER: &[&str] = &["being transferred to a human", "transferred you to a human", "please hold on"];

impl RuleUser {
    pub(super) fn new(brief: &Brief) -> Self {
        let mut lines = Vec::new();
        let mut add = |text: &Option<String>, purpose: Option<Use>| {
            for sentence in text.iter().flat_map(|text| sentences(text)) {
                lines.extend(RuleUser::lines_of(&sentence, purpose));
            }
        };
        // In tau2-bench every sentence of the reason counts as a request, whatever its beginning.
        add(&brief.reason, Some(Use::Request));
        add(&brief.known, Some(Use::Known));
        add(&brief.unknown, Some(Use::Unknown));
        add(&Some(brief.instructions.clone()), None);
        RuleUser { lines }
    }

    /// A sentence of an instruction as lines; `purpose` is `None` where the sentence itself shows it.
    fn lines_of(sentence: &str, purpose: Option<Use>) -> Vec<Line> {
        let line = |text: &str, purpose| Line {
            text: spoken(text),
            purpose,
            condition: Vec::new(),
            was_said: false,
        };
        let lower = sentence.to_lowercase();
        if SECRETS.iter().any(|secret| lower.contains(secret)) {
            return Vec::new();
        }
        let is_case = CASES.iter().any(|begins| lower.starts_with(begins));
        if !is_case && BEHAVIOR.iter().any(|begins| lower.starts_with(begins)) {
            return Vec::new();
        }
        if is_case {
            let Some((condition, then)) = sentence.split_once(", ") else { return Vec::new() };
            let then_lower = then.to_lowercase();
            if BEHAVIOR.iter().any(|begins| then_lower.starts_with(begins)) {
                return Vec::new();
            }
            let condition = topics(condition).into_iter().collect();
            return vec![Line { condition, ..line(then, Use::Conditional) }];
        }
        if let Some(purpose) = purpose {
            return vec![line(sentence, purpose)];
        }
        // "You are ann_lee_1234 and you want to cancel": who the user is, and what comes after it.
        if let Some((who, rest)) = identity(sentence) {
            let mut lines = vec![line(who, Use::Known)];
            if let Some(rest) = rest {
                // What follows is why the user is here.
                let wants = RuleUser::lines_of(rest, None).into_iter().map(|line| match line.purpose {
                    Use::Known => Line { purpose: Use::Request, ..line },
                    _ => line,
                });
                lines.extend(wants);
            }
            return lines;
        }
        let is_request =
            REQUEST.iter().any(|begins| lower.starts_with(begins)) || lower.contains(" you want ");
        vec![line(sentence, if is_request { Use::Request } else { Use::Known })]
    }

    /// What opens the conversation: the first request.
    pub(super) fn opening(&mut self) -> String {
        self.next_request().unwrap_or_else(|| HELLO.to_owned())
    }

    fn next_request(&mut self) -> Option<String> {
        let mut open = self.lines.iter_mut().filter(|line| line.purpose == Use::Request && !line.was_said);
        let line = open.next()?;
        line.was_said = true;
        Some(line.text.clone())
    }

    /// The answer to what the policy says. It ends with [`STOP`] if the user has nothing more to say.
    pub(super) fn reply(&mut self, said: &str) -> String {
        let lower = said.to_lowercase();
        if HANDS_OVER.iter().any(|text| lower.contains(text)) {
            return STOP.to_owned();
        }
        let questions = questions(said);
        let wants_yes = questions.iter().any(|question| wants_yes(question));
        let mut answer = self.conditionals(said, wants_yes);
        if questions.is_empty() {
            if answer.is_empty() {
                answer.extend(self.next_request());
            }
            return if answer.is_empty() { format!("{} {STOP}", Phrase::DONE) } else { answer.join(" ") };
        }
        if wants_yes {
            // Whatever was to be said in this case takes the place of a yes.
            return if answer.is_empty() { Phrase::YES.to_owned() } else { answer.join(" ") };
        }
        let questions = questions.join(" ");
        answer.extend(self.asked(&questions));
        if answer.is_empty() && OPEN.iter().any(|text| questions.contains(text)) {
            return self.next_request().unwrap_or_else(|| format!("{} {STOP}", Phrase::DONE));
        }
        if answer.is_empty() {
            answer.push(Phrase::DONT_KNOW.to_owned());
        }
        answer.join(" ")
    }

    /// What is to be said because a condition has come about, each once.
    fn conditionals(&mut self, said: &str, wants_yes: bool) -> Vec<String> {
        let mut about = topics(said);
        about.extend(wants_yes.then(|| CONFIRM.to_owned()));
        let mut found = Vec::new();
        for line in self.lines.iter_mut().filter(|line| line.purpose == Use::Conditional && !line.was_said) {
            let met = line.condition.iter().filter(|topic| about.contains(*topic)).count();
            if met > 0 && met * 3 >= line.condition.len() * 2 {
                line.was_said = true;
                found.push(line.text.clone());
            }
        }
        found
    }

    /// The sentences that answer questions: those that have a fact that is asked for, and those about the same things.
    fn asked(&mut self, questions: &str) -> Vec<String> {
        let about = topics(questions);
        let facts: Vec<&Fact> = FACTS.iter().filter(|fact| fact.is_asked(questions)).collect();
        let mut said = Vec::new();
        for line in self.lines.iter_mut().filter(|line| matches!(line.purpose, Use::Request | Use::Known)) {
            let has_fact = facts.iter().any(|fact| (fact.is_in)(&line.text));
            let shares = topics(&line.text).intersection(&about).count() >= SHARED_MIN;
            if has_fact || (shares && !line.was_said) {
                line.was_said = true;
                said.push(line.text.clone());
            }
        }
        // One of several things is enough.
        if !said.is_empty() && questions.contains(" or ") {
            return said;
        }
        for fact in facts {
            if self.lines.iter().any(|line| line.purpose != Use::Unknown && (fact.is_in)(&line.text)) {
                continue;
            }
            let about = topics(fact.name);
            let unknown = self.lines.iter().filter(|line| line.purpose == Use::Unknown);
            let mut known_not =
                unknown.filter(|line| topics(&line.text).intersection(&about).next().is_some());
            let text = known_not
                .next()
                .map_or_else(|| format!("I don't know the {}.", fact.name), |line| line.text.clone());
            if !said.contains(&text) {
                said.push(text);
            }
        }
        said
    }
}

/// The sentences of a message that ask something, in lower case.
fn questions(said: &str) -> Vec<String> {
    let asks = |sentence: &String| sentence.ends_with('?') || ASKS.iter().any(|text| sentence.contains(text));
    sentences(&said.to_lowercase()).into_iter().filter(asks).collect()
}

/// Whether a question, in lower case, wants a yes: it is none for a thing.
fn wants_yes(question: &str) -> bool {
    let for_a_thing = ["which", "what", "how", "who", "where", "when", "confirm your"];
    CONFIRMS.iter().any(|text| question.contains(text))
        && !for_a_thing.iter().any(|text| question.contains(text))
}

/// Who the user is, if a sentence begins with it, and the rest of the sentence.
fn identity(sentence: &str) -> Option<(&str, Option<&str>)> {
    let rest = sentence.strip_prefix("You are ").or_else(|| sentence.strip_prefix("You're "))?;
    let name = rest.trim_start().trim_start_matches('\'');
    let is_id = name
        .split(|sign: char| !(sign.is_alphanumeric() || sign == '_'))
        .next()
        .is_some_and(|id| id.contains('_'));
    if !is_id && !name.starts_with(|sign: char| sign.is_uppercase()) {
        return None;
    }
    let cuts =
        [", and ", ", ", " and "].into_iter().filter_map(|cut| sentence.find(cut).map(|at| (at, cut.len())));
    // The earliest; of those at the same place, the longest.
    let cut = cuts.min_by_key(|(at, length)| (*at, usize::MAX - length));
    let (at, length) = match cut {
        Some(cut) if sentence[cut.0 + cut.1..].to_lowercase().starts_with("you") => cut,
        _ => return Some((sentence, None)),
    };
    Some((&sentence[..at], Some(&sentence[at + length..])))
}

/// What a user says before the sign that ends the conversation; `None` if the sign is not there.
pub(super) fn before_stop(said: &str) -> Option<&str> {
    let mut signs = OTHER_STOPS.into_iter().chain([STOP]);
    let at = signs.find_map(|sign| said.find(sign))?;
    Some(said[..at].trim())
}

/// The messages that whoever plays the user reads: its instruction, the conversation so far, and what it is to answer.
pub(super) fn user_reads(brief: &Brief, heard: &[(String, String)], said: &str) -> Vec<Message> {
    let mut parts = vec![
        "You are a customer who writes to a service agent. Play this customer and nobody else, one message at a time.".to_owned(),
    ];
    let labelled = [
        ("Who you are", &brief.persona),
        ("Why you write", &brief.reason),
        ("What you know", &brief.known),
        ("What you do not know", &brief.unknown),
    ];
    for (label, text) in labelled {
        if let Some(text) = text {
            parts.push(format!("{label}: {}", text.trim()));
        }
    }
    parts.push(format!("What you are told: {}", brief.instructions.trim()));
    parts.push(format!(
        "Rules:\n- Say what you are asked for and what you want next, and nothing beyond that.\n- Say only what stands above. If you are \
         asked for something that does not, you don't know it; make nothing up.\n- Use your own words, and be as brief as people are \
         in a chat.\n- When all that you want is done, or clearly can't be, answer {STOP} and nothing else. If you are handed to \
         another agent, answer {} and nothing else.",
        OTHER_STOPS[0]
    ));
    let mut messages = vec![
        Message::system(parts.join("\n\n")),
        Message::user("Hi! How can I help you today?"),
        Message::assistant(HELLO),
    ];
    for (agent, user) in heard {
        messages.extend([Message::user(agent), Message::assistant(user)]);
    }
    messages.push(Message::user(said));
    messages
}

#[cfg(test)]
mod tests;
