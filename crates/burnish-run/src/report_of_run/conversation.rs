//! An episode as people read it: who said what, without the marks that a chat template puts around it.

use burnish_core::{Episode, Node, Source, StopReason, Task, Trace};
use burnish_model::Tokenizer;
use burnish_rundir::report::Said;

/// What was said in an episode, as the policy read it. Without a tokenizer, the marks of the chat template stay.
pub(super) fn of(task: &Task, episode: &Episode, tokenizer: Option<&Tokenizer>) -> Vec<Said> {
    let has_many = episode.traces.len() > 1;
    let mut all = Vec::new();
    for (at, trace) in episode.traces.iter().enumerate() {
        let mut said = of_trace(trace, tokenizer);
        if has_many {
            said.iter_mut().for_each(|said| said.who = format!("agent {at}: {}", said.who));
        }
        all.append(&mut said);
    }
    if all.is_empty() {
        // No turn took place, or its tokens are not known.
        let said = task.prompt.iter().chain(&episode.answers);
        all.extend(said.map(|message| Said {
            who: format!("{:?}", message.role).to_lowercase(),
            text: message.content.clone(),
            is_sampled: false,
        }));
    }
    all
}

fn of_trace(trace: &Trace, tokenizer: Option<&Tokenizer>) -> Vec<Said> {
    let Some(head) = trace.head() else { return Vec::new() };
    // Where a template has rewritten history, the last branch holds all that was said, as it was last read.
    let path = trace.path(head);
    let nodes = path.iter().filter_map(|id| trace.nodes().get(id.0));
    nodes.flat_map(|node| of_node(node, tokenizer).unwrap_or_else(|| vec![as_it_stands(node)])).collect()
}

fn as_it_stands(node: &Node) -> Said {
    let is_sampled = node.sampled.is_some();
    let who = if is_sampled { "policy" } else { "context" };
    Said { who: who.to_owned(), text: node.text.clone(), is_sampled }
}

/// `None` if the tokens can't be read.
fn of_node(node: &Node, tokenizer: Option<&Tokenizer>) -> Option<Vec<Said>> {
    let tokenizer = tokenizer?;
    if let Some(sampled) = &node.sampled {
        let ends = usize::from(sampled.stop == StopReason::EndToken);
        let said = &node.ids[..node.ids.len().saturating_sub(ends)];
        let text = tokenizer.decode(said, false).ok()?;
        return Some(vec![Said { who: "policy".to_owned(), text, is_sampled: true }]);
    }
    let mut said = Vec::new();
    let mut at = 0;
    for part in node.sources.chunk_by(|one, other| one == other) {
        let ids = node.ids.get(at..at + part.len())?;
        at += part.len();
        let Some(who) = part.first().and_then(|source| speaker(*source)) else { continue };
        let text = tokenizer.decode(ids, false).ok()?;
        said.push(Said { who: who.to_owned(), text, is_sampled: false });
    }
    Some(said)
}

/// Nobody speaks the marks of the template.
fn speaker(source: Source) -> Option<&'static str> {
    Some(match source {
        Source::Scaffold => return None,
        Source::System => "system",
        Source::User => "user",
        Source::Tool => "tool",
        Source::History => "policy, before",
        Source::Demonstration => "demonstration",
        Source::Hint => "hint",
        Source::Teacher => "teacher",
        Source::Patch => "put in its place",
        // The text has `<latent>` for each step.
        Source::Policy | Source::Latent => "policy",
    })
}
