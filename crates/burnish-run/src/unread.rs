//! Warns of tools that a policy would not see.

use burnish_core::{Message, ToolSpec};
use burnish_data::Row;
use burnish_env::Generator;
use burnish_model::ChatTemplate;

use crate::offline::{Corpus, Given};
use crate::tasks::Tasks;

/// What to tell a person if rows have tools but the policy's chat template writes none of them.
pub(crate) fn tools(tasks: &Tasks, corpus: &Corpus, template: &ChatTemplate) -> Option<String> {
    let played = |generator: &dyn Generator, tasks: &[burnish_core::Task]| {
        let rows = generator.rows()?;
        let row = |task| rows.row(task).map(|(_, row)| row).filter(|row: &Row| !row.tools.is_empty());
        tasks.iter().find_map(row).map(|row| (row.prompt, row.tools))
    };
    let trained = || played(tasks.generator().ok()?, &tasks.train);
    let imitated = || {
        let first = (corpus.len() > 0).then(|| corpus.get(0).ok()).flatten();
        match first? {
            Given::Conversation { messages, tools, .. } if !tools.is_empty() => Some((messages, tools)),
            Given::Conversation { .. } | Given::Text(_) => None,
        }
    };
    let evaluated = || tasks.evaluations.iter().find_map(|set| played(&*set.generator, &set.tasks));
    let (messages, tools) = trained().or_else(imitated).or_else(evaluated)?;
    is_unread(template, &messages, &tools).then(|| {
        format!(
            "rows have tools ({} ...), but the policy's chat template writes none of them, so it will not read them; take a \
             policy whose template does, or put them into the prompt with columns.prompt_template",
            tools[0].name
        )
    })
}

fn is_unread(template: &ChatTemplate, messages: &[Message], tools: &[ToolSpec]) -> bool {
    // If the template refuses this, the error is reported where the conversation is rendered.
    let text = |tools: &[ToolSpec]| template.render(messages, tools, true).ok();
    text(tools).is_some_and(|with| Some(with) == text(&[]))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_template_that_writes_no_tools_is_told_from_one_that_does() {
        let tool = ToolSpec {
            name: "add".into(),
            description: "Adds.".into(),
            parameters: serde_json::json!({}),
            more: Default::default(),
        };
        let template = |source: &str| ChatTemplate::new(source, Path::new("t.jinja")).unwrap();
        let messages = [Message::user("q")];
        let blind = template("{% for message in messages %}{{ message.content }}{% endfor %}");
        assert!(is_unread(&blind, &messages, std::slice::from_ref(&tool)));
        let seeing = template("{% if tools %}{{ tools | tojson }}{% endif %}{{ messages[0].content }}");
        assert!(!is_unread(&seeing, &messages, &[tool]));
    }
}
