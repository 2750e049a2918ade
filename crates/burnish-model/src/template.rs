//! Chat templates, as `apply_chat_template` of `transformers` runs them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use burnish_core::{Message, ToolSpec};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State};
use serde_json::json;

use crate::{ChatError, ModelError, clock, pyjson};

/// The ChatML template: each message between `<|im_start|>ROLE\n` and `<|im_end|>\n`, nothing else.
pub const CHATML: &str = include_str!("chatml.jinja");

const NAME: &str = "chat_template";

/// A compiled chat template with the variables that it is given.
///
/// The environment is that of `transformers` 5.23: `trim_blocks`, `lstrip_blocks`, loop controls,
/// `raise_exception`, `strftime_now`, `tojson` as `json.dumps` writes, Python's string methods; booleans and
/// `None` print as in Python. `{% generation %}` tags are kept as plain blocks.
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    source: String,
    environment: Environment<'static>,
    /// Special tokens and options that the template may read.
    variables: BTreeMap<String, serde_json::Value>,
}

impl ChatTemplate {
    /// Compiles a template. `path` is named in errors.
    ///
    /// # Errors
    /// If the template does not compile.
    pub fn new(source: impl Into<String>, path: &Path) -> Result<Self, ModelError> {
        let source = source.into();
        let environment = environment(&source)
            .map_err(|error| ModelError::Template { path: path.into(), problem: explained(&error) })?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(ChatTemplate { source, environment, variables: BTreeMap::new() }.at(now.as_secs() as i64))
    }

    /// The ChatML template.
    ///
    /// # Errors
    /// None in practice; compiling may fail by its type.
    pub fn chatml() -> Result<Self, ModelError> {
        ChatTemplate::new(CHATML, Path::new("the built-in ChatML template"))
    }

    /// Sets what `strftime_now` takes for now, in seconds since 1970 (UTC). Without it, that is the time when the
    /// template was compiled; a run sets the time of its start, so that resuming it renders the same prompts.
    pub fn at(mut self, unix_seconds: i64) -> Self {
        self.environment
            .add_function("strftime_now", move |format: String| clock::strftime(&format, unix_seconds));
        self
    }

    /// Gives the template a variable, such as `enable_thinking`.
    pub fn with_variable(mut self, name: &str, value: serde_json::Value) -> Self {
        self.variables.insert(name.into(), value);
        self
    }

    /// The template's text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders a conversation. With `add_generation_prompt` the text ends where the assistant speaks next.
    ///
    /// # Errors
    /// With what the template raised, or what it does that is not supported.
    pub fn render(
        &self,
        messages: &[Message],
        tools: &[ToolSpec],
        add_generation_prompt: bool,
    ) -> Result<String, ChatError> {
        let mut context: BTreeMap<&str, serde_json::Value> =
            self.variables.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        context.insert("messages", messages.iter().map(message_json).collect());
        context.insert(
            "tools",
            if tools.is_empty() { json!(null) } else { tools.iter().map(tool_json).collect() },
        );
        context.insert("documents", json!(null));
        context.insert("add_generation_prompt", json!(add_generation_prompt));
        self.environment
            .get_template(NAME)
            .and_then(|template| template.render(Value::from(Serde(&context))))
            .map_err(|error| ChatError::Render(explained(&error)))
    }
}

/// A message as templates read it: `tool_calls` only where there are some, thoughts only where they are kept
/// apart, under both names that templates use.
fn message_json(message: &Message) -> serde_json::Value {
    let mut json = json!({ "role": message.role, "content": message.content });
    if let Some(thoughts) = &message.reasoning_content {
        json["reasoning_content"] = json!(thoughts);
        json["thinking"] = json!(thoughts);
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

fn environment(source: &str) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_formatter(print_as_python);
    environment.add_filter("tojson", |value: &Value, kwargs: Kwargs| pyjson::tojson(value, kwargs));
    environment.add_filter("string", |value: &Value| python_text(value).unwrap_or_else(|| value.to_string()));
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    environment.add_function("raise_exception", |problem: String| -> Result<String, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, problem))
    });
    environment.add_template_owned(NAME, without_generation_tags(source))?;
    Ok(environment)
}

fn print_as_python(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    match python_text(value) {
        Some(text) => out.write_str(&text).map_err(Error::from),
        None => minijinja::escape_formatter(out, state, value),
    }
}

/// The text of a value, where Python prints it in another way than the template engine.
fn python_text(value: &Value) -> Option<String> {
    match value.kind() {
        ValueKind::Bool => Some(if value.is_true() { "True" } else { "False" }.into()),
        ValueKind::None => Some("None".into()),
        ValueKind::Number if !value.is_integer() => f64::try_from(value.clone()).ok().map(pyjson::float),
        _ => None,
    }
}

/// Turns `{% generation %}` ... `{% endgeneration %}`, a tag that `transformers` adds to Jinja, into a block that
/// is always there. Whitespace control stays.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, tag, after)) = next_tag(rest) {
        let word = tag.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        let replaced = match word {
            "generation" => tag.replace("generation", "if true"),
            "endgeneration" => tag.replace("endgeneration", "endif"),
            _ => tag.to_string(),
        };
        out.extend([before, "{%", &replaced, "%}"]);
        rest = after;
    }
    out + rest
}

/// Splits at the next `{% tag %}`.
fn next_tag(source: &str) -> Option<(&str, &str, &str)> {
    let (before, inner) = source.split_once("{%")?;
    let (tag, after) = inner.split_once("%}")?;
    Some((before, tag, after))
}

/// An error with its cause, on one line.
fn explained(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
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
    fn constants_and_floats_print_as_in_python() {
        assert_eq!(
            render("{{ true }} {{ false }} {{ none }} {{ missing }} {{ 1 }} {{ 1e-5 }} {{ true|string }}")
                .unwrap(),
            "True False None  1 1e-05 True"
        );
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
        assert!(error.starts_with("dir/chat_template.jinja: ") && error.contains(":2"), "{error}");
    }

    #[test]
    fn generation_tags_are_plain_blocks() {
        let source = "{% for m in messages %}{%- generation -%} {{ m.content }} {%- endgeneration %} {% break %}{% endfor %}";
        assert_eq!(render(source).unwrap(), "a<b ");
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
