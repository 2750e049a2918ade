//! Chat templates, as `apply_chat_template` of `transformers` runs them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;
use std::time::SystemTime;

use burnish_core::{Message, ToolSpec};
use serde_json::json;

use crate::answers::{self, Marks};
use crate::jinja::Template;
use crate::{CallFormat, ChatError, ModelError, TextTokens, files};

mod parts;

/// The ChatML template: each message between `<|im_start|>ROLE\n` and `<|im_end|>\n`, nothing else.
pub const CHATML: &str = include_str!("chatml.jinja");

/// Name of the template for all conversations without a template of their own.
const DEFAULT: &str = "default";
/// Name of the template for conversations with tools, if there is one.
const TOOL_USE: &str = "tool_use";

/// A compiled chat template with its variables.
///
/// The environment is that of `transformers` 5.23 (`docs/chat-templates.md`); `{% generation %}` blocks mark the assistant's
/// text.
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    /// The templates by name, as given.
    sources: BTreeMap<String, String>,
    /// The templates that are used for rendering.
    templates: BTreeMap<&'static str, Template>,
    /// The time that `strftime_now` reports, in seconds since 1970 (UTC).
    now: i64,
    /// Special tokens and options that the template may read.
    variables: BTreeMap<String, serde_json::Value>,
    /// How control tokens in the texts of messages are read.
    text_tokens: TextTokens,
    /// The format in which it writes calls, detected once.
    calls: OnceLock<Option<CallFormat>>,
    /// Of which roles it prints a content in parts, detected once.
    parts: [OnceLock<bool>; 4],
}

/// A rendered conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// The byte ranges of the text that generation blocks wrote, in order and disjoint: what the assistant says. Empty
    /// if the template has no such blocks.
    pub assistant: Vec<Range<usize>>,
}

impl ChatTemplate {
    /// Compiles a template. `path` is named in errors.
    ///
    /// # Errors
    /// If the template does not compile.
    pub fn new(source: impl Into<String>, path: &Path) -> Result<Self, ModelError> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let template = ChatTemplate {
            sources: BTreeMap::new(),
            templates: BTreeMap::new(),
            now: 0,
            variables: BTreeMap::new(),
            text_tokens: TextTokens::default(),
            calls: OnceLock::new(),
            parts: Default::default(),
        };
        template.at(now.as_secs() as i64).with_named(DEFAULT, source, path)
    }

    /// Reads and compiles the template in a file.
    ///
    /// # Errors
    /// Names the file if it can't be read or does not compile.
    pub fn read(path: &Path) -> Result<Self, ModelError> {
        ChatTemplate::new(files::read_text(path)?, path)
    }

    /// Adds a template by name. The one named `tool_use` is used for conversations with tools, as in `transformers`;
    /// any other is only kept, so that saving loses none. `path` is named in errors.
    ///
    /// # Errors
    /// If the template does not compile.
    pub fn with_named(
        mut self,
        name: &str,
        source: impl Into<String>,
        path: &Path,
    ) -> Result<Self, ModelError> {
        let source = source.into();
        if let Some(name) = [DEFAULT, TOOL_USE].into_iter().find(|known| *known == name) {
            let template = Template::new(&source)
                .map_err(|problem| ModelError::Template { path: path.into(), problem })?;
            self.templates.insert(name, template);
        }
        self.sources.insert(name.into(), source);
        (self.calls, self.parts) = Default::default();
        Ok(self)
    }

    /// The ChatML template.
    ///
    /// # Errors
    /// None in practice, although the signature allows a compile error.
    pub fn chatml() -> Result<Self, ModelError> {
        ChatTemplate::new(CHATML, Path::new("the built-in ChatML template"))
    }

    /// Sets the time that `strftime_now` reports, in seconds since 1970 (UTC). By default it is the time when the
    /// template was compiled. A run sets the time of its start, so that resuming it renders the same prompts.
    pub fn at(mut self, unix_seconds: i64) -> Self {
        self.now = unix_seconds;
        self
    }

    /// Gives the template a variable, such as `enable_thinking`.
    pub fn with_variable(mut self, name: &str, value: serde_json::Value) -> Self {
        self.variables.insert(name.into(), value);
        (self.calls, self.parts) = Default::default();
        self
    }

    /// Says how control tokens are read that stand in the texts of messages and tools.
    pub fn with_text_tokens(mut self, text_tokens: TextTokens) -> Self {
        self.text_tokens = text_tokens;
        self
    }

    pub(crate) fn text_tokens(&self) -> TextTokens {
        self.text_tokens
    }

    /// The template's text.
    pub fn source(&self) -> &str {
        self.sources.get(DEFAULT).map_or("", String::as_str)
    }

    /// The templates other than the default one, by name.
    pub(crate) fn others(&self) -> impl Iterator<Item = (&str, &str)> {
        let others = self.sources.iter().filter(|(name, _)| *name != DEFAULT);
        others.map(|(name, source)| (name.as_str(), source.as_str()))
    }

    /// Does the template mark the assistant's text with generation blocks?
    pub fn marks_answers(&self, tools: &[ToolSpec]) -> bool {
        self.templates.get(self.name(tools)).is_some_and(Template::has_generation)
    }

    /// The format in which it writes calls; `None` if it writes none or the format is unknown.
    pub fn call_format(&self) -> Option<&CallFormat> {
        self.calls.get_or_init(|| CallFormat::of(self)).as_ref()
    }

    /// Renders a conversation. With `add_generation_prompt` the text ends where the assistant speaks next.
    ///
    /// # Errors
    /// What the template raised, or which unsupported feature it uses.
    pub fn render(
        &self,
        messages: &[Message],
        tools: &[ToolSpec],
        add_generation_prompt: bool,
    ) -> Result<String, ChatError> {
        let context = self.context(messages, tools, add_generation_prompt);
        self.render_in(self.name(tools), &context, None)
    }

    /// Renders a conversation and finds what its generation blocks wrote.
    ///
    /// # Errors
    /// As [`ChatTemplate::render`]; also if the template cuts, repeats or nests the text of its blocks.
    pub fn render_with_answers(
        &self,
        messages: &[Message],
        tools: &[ToolSpec],
        add_generation_prompt: bool,
    ) -> Result<Rendered, ChatError> {
        let text = self.render(messages, tools, add_generation_prompt)?;
        if !self.marks_answers(tools) {
            return Ok(Rendered { text, assistant: Vec::new() });
        }
        let context = self.context(messages, tools, add_generation_prompt);
        let given = json!(context).to_string();
        let texts = self.sources.values().map(String::as_str).chain([given.as_str(), text.as_str()]);
        let unclear = || ChatError::Render("it is not clear what its generation blocks write".into());
        let marks = Marks::absent_from(texts).ok_or_else(unclear)?;
        let marked = self.render_in(self.name(tools), &context, Some(marks))?;
        match answers::take_out(&marked, marks) {
            Some((unmarked, assistant)) if unmarked == text => Ok(Rendered { text, assistant }),
            _ => Err(unclear()),
        }
    }

    /// The name of the template for a conversation.
    fn name(&self, tools: &[ToolSpec]) -> &'static str {
        if !tools.is_empty() && self.sources.contains_key(TOOL_USE) { TOOL_USE } else { DEFAULT }
    }

    fn render_in(
        &self,
        name: &str,
        context: &BTreeMap<&str, serde_json::Value>,
        marks: Option<Marks>,
    ) -> Result<String, ChatError> {
        let Some(template) = self.templates.get(name) else {
            return Err(ChatError::Render(format!("there is no template `{name}`")));
        };
        let variables = context.iter().map(|(name, json)| (*name, json));
        template.render(variables, self.now, marks).map_err(ChatError::Render)
    }

    fn context(
        &self,
        messages: &[Message],
        tools: &[ToolSpec],
        add_generation_prompt: bool,
    ) -> BTreeMap<&str, serde_json::Value> {
        let mut context: BTreeMap<&str, serde_json::Value> =
            self.variables.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let message = |message: &Message| {
            let mut json = message_json(message);
            if let Some(parts) = message.parts().filter(|_| self.takes_parts(message.role)) {
                json["content"] = parts::json(parts);
            }
            json
        };
        context.insert("messages", messages.iter().map(message).collect());
        context.insert(
            "tools",
            if tools.is_empty() { json!(null) } else { tools.iter().map(tool_json).collect() },
        );
        context.insert("documents", json!(null));
        context.insert("add_generation_prompt", json!(add_generation_prompt));
        context
    }
}

/// A value as templates write it with `tojson`.
///
/// # Errors
/// None in practice, although the signature allows an error of the template.
pub(crate) fn to_json(json: &serde_json::Value) -> Result<String, ChatError> {
    let template = Template::new("{{ value | tojson }}").map_err(ChatError::Render)?;
    template.render([("value", json)], 0, None).map_err(ChatError::Render)
}

/// A message as templates read it: `tool_calls` only if there are any, and thoughts only if they are kept apart, under
/// both names that templates use.
fn message_json(message: &Message) -> serde_json::Value {
    let mut json = json!({});
    // transformers puts the second name first.
    if let Some(thoughts) = &message.reasoning_content {
        json["thinking"] = json!(thoughts);
    }
    json["role"] = json!(message.role);
    json["content"] = json!(message.content);
    if let Some(thoughts) = &message.reasoning_content {
        json["reasoning_content"] = json!(thoughts);
    }
    if !message.tool_calls.is_empty() {
        json["tool_calls"] = message
            .tool_calls
            .iter()
            .map(|call| {
                let mut json = json!({ "type": "function", "function": call.function });
                if let Some(id) = &call.id {
                    json["id"] = json!(id);
                }
                json
            })
            .collect();
    }
    if let Some(id) = &message.tool_call_id {
        json["tool_call_id"] = json!(id);
    }
    if let Some(name) = &message.name {
        json["name"] = json!(name);
    }
    json
}

/// A tool as an OpenAI function schema.
fn tool_json(tool: &ToolSpec) -> serde_json::Value {
    json!({ "type": "function", "function": tool })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(source: &str) -> ChatTemplate {
        ChatTemplate::new(source, Path::new("test.jinja")).unwrap()
    }

    fn render(source: &str) -> Result<String, ChatError> {
        template(source).render(&[Message::user("a<b")], &[], true)
    }

    #[test]
    fn blocks_are_trimmed_and_nothing_is_escaped() {
        let source = "  {% for m in messages %}\n  {{ m.content }}\n  {% endfor %}\nend\n";
        assert_eq!(render(source).unwrap(), "  a<b\nend");
    }

    #[test]
    fn line_ends_of_windows_are_line_feeds() {
        assert_eq!(render("a\r\n{% if true %}\r\nb\rc{% endif %}\r\n").unwrap(), "a\nb\nc");
    }

    #[test]
    fn constants_and_floats_print_as_in_python() {
        assert_eq!(
            render("{{ true }} {{ false }} {{ none }} {{ missing }} {{ 1 }} {{ 1e-5 }} {{ true|string }}")
                .unwrap(),
            "True False None  1 1e-05 True"
        );
    }

    #[test]
    fn a_loop_over_none_is_an_error_as_in_python() {
        assert_eq!(render("{% for x in missing %}{% else %}none{% endfor %}").unwrap(), "none");
        let error = render("{% for tool in tools %}{% endfor %}").unwrap_err().to_string();
        assert!(error.contains("looped over"), "{error}");
    }

    #[test]
    fn what_a_template_raises_is_reported() {
        let error = render("{{ raise_exception('roles must alternate') }}").unwrap_err().to_string();
        assert!(error.contains("roles must alternate"), "{error}");
    }

    #[test]
    fn a_template_that_does_not_compile_names_its_file_and_line() {
        let error =
            ChatTemplate::new("a\n{% if %}", Path::new("dir/chat_template.jinja")).unwrap_err().to_string();
        assert!(error.starts_with("dir/chat_template.jinja: ") && error.contains("(line 2)"), "{error}");
    }

    fn answers(source: &str, messages: &[Message]) -> Result<(String, Vec<String>), ChatError> {
        let rendered = template(source).render_with_answers(messages, &[], false)?;
        let answers = rendered.assistant.iter().map(|range| rendered.text[range.clone()].into()).collect();
        Ok((rendered.text, answers))
    }

    #[test]
    fn generation_blocks_are_found_and_change_no_text() {
        let source = "{% for m in messages %}{%- generation -%} {{ m.content }}{{ loop.index }} \
                      {%- endgeneration %} {% if m.content == 'b' %}{% break %}{% endif %}{% endfor %}";
        let messages = [Message::user("a<\u{f0000}"), Message::assistant("b"), Message::user("c")];
        let (text, found) = answers(source, &messages).unwrap();
        assert_eq!(text, "a<\u{f0000}1 b2 ");
        assert_eq!(found, ["a<\u{f0000}1", "b2"]);
        assert_eq!(template(source).render(&messages, &[], false).unwrap(), text);
        let lines = "{% generation %}\n  {% if true %}\n  x\n  {% endif %}\n{% endgeneration %}\ny";
        assert_eq!(answers(lines, &messages).unwrap(), ("  x\ny".into(), vec!["  x\n".into()]));
    }

    #[test]
    fn a_generation_block_is_a_scope_of_its_own() {
        let source = "{% set a = 1 %}{% set n = namespace(b=1) %}{% generation %}{% set a = 2 %}{% set n.b = 2 %}\
                      {{ a }}{% endgeneration %}{{ a }}{{ n.b }}";
        assert_eq!(answers(source, &[]).unwrap(), ("212".into(), vec!["2".into()]));
    }

    #[test]
    fn a_generation_block_sees_its_surroundings() {
        let source = "{% for m in messages %}{% set x = m.content %}{% generation %}{% set x = x + '!' %}{{ x }}\
                      {% for n in messages[loop.index:] %}{{ n.content }}{% endfor %}{% endgeneration %}{{ x }} {% endfor %}";
        let messages = [Message::user("a"), Message::user("b")];
        assert_eq!(
            answers(source, &messages).unwrap(),
            ("a!ba b!b ".into(), vec!["a!b".into(), "b!".into()])
        );
    }

    #[test]
    fn generation_blocks_whose_text_is_changed_are_refused() {
        for source in [
            "{% set x %}{% generation %}ab{% endgeneration %}{% endset %}{{ x[1:] }}",
            "{% generation %}a{% generation %}b{% endgeneration %}{% endgeneration %}",
            "{% set x %}{% generation %}ab{% endgeneration %}{% endset %}{{ x|length }}",
        ] {
            let error = answers(source, &[]).unwrap_err().to_string();
            assert!(error.contains("generation blocks"), "{error}");
        }
        assert_eq!(answers("no blocks", &[]).unwrap(), ("no blocks".into(), vec![]));
    }

    #[test]
    fn conversations_with_tools_have_their_own_template_where_there_is_one() {
        let path = Path::new("test");
        let two = template("{% generation %}a{% endgeneration %}").with_named("tool_use", "b", path).unwrap();
        let three = two.with_named("rag", "{% if %}", path).unwrap();
        let tool = ToolSpec {
            name: "t".into(),
            description: String::new(),
            parameters: json!({}),
            more: serde_json::Map::new(),
        };
        assert_eq!(three.render(&[], &[], false).unwrap(), "a");
        assert_eq!(three.render(&[], std::slice::from_ref(&tool), false).unwrap(), "b");
        assert!(three.marks_answers(&[]) && !three.marks_answers(&[tool]));
        assert_eq!(three.others().collect::<Vec<_>>(), [("rag", "{% if %}"), ("tool_use", "b")]);
        let error = three.with_named("tool_use", "{% if %}", Path::new("tools.jinja")).unwrap_err();
        assert!(error.to_string().starts_with("tools.jinja: "), "{error}");
    }

    #[test]
    fn now_is_what_it_was_set_to() {
        let template = template("{{ strftime_now('%d %b %Y') }}").at(951_827_696);
        assert_eq!(template.render(&[], &[], false).unwrap(), "29 Feb 2000");
    }

    #[test]
    fn variables_reach_the_template() {
        let template = template("{{ bos_token }}").with_variable("bos_token", json!("<s>"));
        assert_eq!(template.render(&[], &[], false).unwrap(), "<s>");
    }
}
