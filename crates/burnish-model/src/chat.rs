//! Between messages and the token-exact record of one agent.
//!
//! A sampled token is never tokenised again. Before each turn the whole conversation is rendered; the deepest
//! node of the trace whose text begins that rendering is kept with its ids, and only what follows is tokenised,
//! as one context node. So what the policy reads at turn k+1 begins with what it read and sampled at turn k,
//! whether or not the tokenizer would cut that text in the same way. Where a template rewrites history (Qwen3
//! drops earlier thoughts), an earlier node is the deepest that fits, and the trace forks there.

use std::path::Path;

use burnish_core::{Message, Node, NodeId, Role, Sampled, Source, ToolSpec, Trace};
use serde_json::{Map, Value, json};

use crate::{ChatError, ChatTemplate, ModelError, Tokenizer, files, provenance};

/// A tokenizer, a chat template, and the tokens that end an answer.
#[derive(Debug, Clone)]
pub struct Chat {
    /// Text to ids and back.
    pub tokenizer: Tokenizer,
    /// Messages to text.
    pub template: ChatTemplate,
    end_ids: Vec<u32>,
    /// Text of each end id.
    end_texts: Vec<String>,
    tokenizer_config: Map<String, Value>,
    generation_config: Option<Value>,
}

impl Chat {
    /// A chat of its own making. The first of `end_tokens` is the one that the template closes an answer with.
    ///
    /// # Errors
    /// Names the tokens that the tokenizer does not have.
    pub fn new(
        tokenizer: Tokenizer,
        template: ChatTemplate,
        end_tokens: &[&str],
        pad_token: &str,
    ) -> Result<Self, ModelError> {
        let end_ids = tokenizer.token_ids(end_tokens, "end tokens")?;
        let pad_ids = tokenizer.token_ids(&[pad_token], "pad token")?;
        let tokenizer_config = Map::from_iter([
            ("tokenizer_class".to_string(), json!("PreTrainedTokenizerFast")),
            ("eos_token".to_string(), json!(end_tokens.first())),
            ("pad_token".to_string(), json!(pad_token)),
            ("clean_up_tokenization_spaces".to_string(), json!(false)),
        ]);
        let generation_config = json!({ "eos_token_id": end_ids, "pad_token_id": pad_ids.first() });
        Chat::assemble(tokenizer, template, end_ids, tokenizer_config, Some(generation_config), "end tokens")
    }

    /// Reads `tokenizer.json`, the template (`chat_template.jinja`, else `chat_template` in
    /// `tokenizer_config.json`) and the end tokens (`eos_token_id` in `generation_config.json`, else in
    /// `config.json`, else `eos_token` in `tokenizer_config.json`) of a model directory.
    ///
    /// # Errors
    /// Names the file, and what is missing or wrong in it.
    pub fn load(dir: &Path) -> Result<Self, ModelError> {
        let tokenizer = Tokenizer::load(&dir.join("tokenizer.json"))?;
        let tokenizer_config = read_object(&dir.join("tokenizer_config.json"))?;
        let template = load_template(dir, &tokenizer_config)?;
        let generation_config = files::read_json_if_there(&dir.join("generation_config.json"))?;
        let (end_ids, place) = read_end_ids(dir, &tokenizer, &tokenizer_config, generation_config.as_ref())?;
        Chat::assemble(tokenizer, template, end_ids, tokenizer_config, generation_config, &place)
    }

    fn assemble(
        tokenizer: Tokenizer,
        template: ChatTemplate,
        end_ids: Vec<u32>,
        tokenizer_config: Map<String, Value>,
        generation_config: Option<Value>,
        place: &str,
    ) -> Result<Self, ModelError> {
        let absent: Vec<String> = match end_ids.as_slice() {
            [] => vec!["an end token".into()],
            ids => ids.iter().filter(|id| !tokenizer.id_exists(**id)).map(|id| format!("id {id}")).collect(),
        };
        if !absent.is_empty() {
            return Err(ModelError::MissingTokens { place: place.into(), tokens: absent });
        }
        let end_texts = end_ids
            .iter()
            .map(|id| tokenizer.decode(&[*id], false))
            .collect::<Result<_, _>>()
            .map_err(|error| ModelError::malformed(Path::new(place), error.to_string()))?;
        let template = special_tokens(&tokenizer_config)
            .fold(template, |template, (name, token)| template.with_variable(name, json!(token)));
        Ok(Chat { tokenizer, template, end_ids, end_texts, tokenizer_config, generation_config })
    }

    /// Ids that end an answer.
    pub fn end_ids(&self) -> &[u32] {
        &self.end_ids
    }

    /// Writes `tokenizer.json`, `tokenizer_config.json`, `chat_template.jinja` and, where there is one,
    /// `generation_config.json`, so that `transformers` loads them.
    ///
    /// # Errors
    /// If a file can't be written; what stood under its name before then stays.
    pub fn save(&self, dir: &Path) -> Result<(), ModelError> {
        files::create_directory(dir)?;
        self.tokenizer.save(&dir.join("tokenizer.json"))?;
        let config = Value::Object(self.tokenizer_config.clone());
        files::write_json(&dir.join("tokenizer_config.json"), &config)?;
        files::write_text(&dir.join("chat_template.jinja"), self.template.source())?;
        match &self.generation_config {
            Some(config) => files::write_json(&dir.join("generation_config.json"), config),
            None => Ok(()),
        }
    }

    /// Brings the trace to the point where the policy speaks next, and returns all ids that it reads there.
    /// Where the template rewrote history, the trace forks.
    ///
    /// # Errors
    /// If the conversation can't be rendered or tokenised; the trace then stays as it was.
    pub fn extend(
        &self,
        trace: &mut Trace,
        messages: &[Message],
        tools: &[ToolSpec],
    ) -> Result<Vec<u32>, ChatError> {
        let rendered = self.template.render(messages, tools, true)?;
        self.follow(trace, messages, tools, &rendered)?;
        Ok(trace.head_ids())
    }

    /// Appends the assistant's messages of a conversation as answers to be imitated: each with the prompt before
    /// it, as [`Chat::extend`] makes it, and with its end token. What the template writes after the end token
    /// belongs to the next prompt.
    ///
    /// # Errors
    /// As [`Chat::extend`], and if the template renders an answer so that it does not follow its own generation
    /// prompt or has no end token. The trace then stays as it was.
    pub fn demonstrate(
        &self,
        trace: &mut Trace,
        messages: &[Message],
        tools: &[ToolSpec],
    ) -> Result<(), ChatError> {
        self.demonstrate_from(trace, messages, 0, tools)
    }

    /// As [`Chat::demonstrate`], of the messages from index `first` on: an assistant's message before it is part
    /// of the prompt.
    ///
    /// # Errors
    /// As [`Chat::demonstrate`].
    pub fn demonstrate_from(
        &self,
        trace: &mut Trace,
        messages: &[Message],
        first: usize,
        tools: &[ToolSpec],
    ) -> Result<(), ChatError> {
        let mut grown = trace.clone();
        let answers = messages.iter().enumerate().skip(first);
        for (at, _) in answers.filter(|(_, message)| message.role == Role::Assistant) {
            let prompt = self.template.render(&messages[..at], tools, true)?;
            let parent = self.follow(&mut grown, &messages[..at], tools, &prompt)?;
            let answered = self.template.render(&messages[..=at], tools, false)?;
            let rest = answered.strip_prefix(&prompt).ok_or(ChatError::AnswerLeavesPrompt { message: at })?;
            let text = self
                .through_end_token(rest)
                .ok_or_else(|| ChatError::NoEndToken { message: at, end_tokens: self.end_texts.clone() })?;
            let ids = self.tokenizer.encode(text)?;
            let sources = vec![Source::Demonstration; ids.len()];
            grown.push(Node { parent, text: text.into(), ids, sources, sampled: None })?;
        }
        *trace = grown;
        Ok(())
    }

    /// Appends what the policy sampled at the trace's head, and returns it as a message: its text without the
    /// end token. Bytes that are not UTF-8 become U+FFFD in the text; the ids stay.
    ///
    /// # Errors
    /// If the ids can't be decoded, or `sampled` does not fit them; the trace then stays as it was.
    pub fn record(&self, trace: &mut Trace, ids: Vec<u32>, sampled: Sampled) -> Result<Message, ChatError> {
        let (said, end) = self.split_end(&ids);
        let content = self.tokenizer.decode(said, false)?;
        let text = format!("{content}{}", end.unwrap_or_default());
        let sources = vec![Source::Policy; ids.len()];
        trace.push(Node { parent: trace.head(), text, ids, sources, sampled: Some(sampled) })?;
        Ok(Message::assistant(content))
    }

    /// Moves the trace's head to the end of `rendered`, which is what the template made of the messages.
    fn follow(
        &self,
        trace: &mut Trace,
        messages: &[Message],
        tools: &[ToolSpec],
        rendered: &str,
    ) -> Result<Option<NodeId>, ChatError> {
        let (parent, kept) = self.deepest(trace, rendered);
        if kept == rendered.len() && parent == trace.head() {
            return Ok(parent);
        }
        let text = &rendered[kept..];
        let encoded = self.tokenizer.encode_with_offsets(text)?;
        let whose = provenance::locate(&self.template, messages, tools, rendered);
        let sources =
            encoded.bytes.iter().map(|bytes| whose.of(kept + bytes.start..kept + bytes.end)).collect();
        let node = Node { parent, text: text.into(), ids: encoded.ids, sources, sampled: None };
        Ok(Some(trace.push(node)?))
    }

    /// The node to go on from, and how many bytes at the beginning of `rendered` its path stands for: the head,
    /// where the conversation only grew; else the node that covers most, and of equals one on the head's path,
    /// then the newest.
    fn deepest(&self, trace: &Trace, rendered: &str) -> (Option<NodeId>, usize) {
        let head_path = trace.head().map(|head| trace.path(head)).unwrap_or_default();
        let mut covered: Vec<Option<usize>> = Vec::with_capacity(trace.nodes().len());
        for node in trace.nodes() {
            let begin = match node.parent {
                Some(NodeId(parent)) => covered[parent],
                None => Some(0),
            };
            covered.push(begin.and_then(|begin| Some(begin + self.length_in(node, &rendered[begin..])?)));
        }
        if let Some((head, length)) = trace.head().and_then(|head| Some((head, covered[head.0]?))) {
            return (Some(head), length);
        }
        (0..covered.len())
            .filter_map(|at| Some((covered[at]?, head_path.contains(&NodeId(at)), at)))
            .max()
            .map_or((None, 0), |(length, _, at)| (Some(NodeId(at)), length))
    }

    /// How many bytes at the beginning of `text` a node stands for; `None` if `text` begins otherwise.
    ///
    /// A policy may end its answer with another end token than the template writes (`<|endoftext|>` for
    /// `<|im_end|>`). That is no other answer, so the node fits without its end token.
    fn length_in(&self, node: &Node, text: &str) -> Option<usize> {
        if text.starts_with(&node.text) {
            return Some(node.text.len());
        }
        node.sampled.as_ref()?;
        let (_, end) = self.split_end(&node.ids);
        let content = node.text.strip_suffix(end?)?;
        let after = text.strip_prefix(content)?;
        self.tokenizer.starts_special(after).then_some(content.len())
    }

    /// What was said, and the text of the end token after it.
    fn split_end<'a>(&self, ids: &'a [u32]) -> (&'a [u32], Option<&str>) {
        let last = ids.split_last().and_then(|(last, said)| {
            let at = self.end_ids.iter().position(|end| end == last)?;
            Some((said, self.end_texts[at].as_str()))
        });
        last.map_or((ids, None), |(said, end)| (said, Some(end)))
    }

    /// `text` up to and with its last end token.
    fn through_end_token<'a>(&self, text: &'a str) -> Option<&'a str> {
        let ends = self.end_texts.iter().filter_map(|end| Some(text.rfind(end.as_str())? + end.len()));
        ends.max().map(|end| &text[..end])
    }
}

fn read_object(path: &Path) -> Result<Map<String, Value>, ModelError> {
    match files::read_json_if_there(path)? {
        Some(Value::Object(map)) => Ok(map),
        Some(_) => Err(ModelError::malformed(path, "not a JSON object")),
        None => Ok(Map::new()),
    }
}

fn load_template(dir: &Path, tokenizer_config: &Map<String, Value>) -> Result<ChatTemplate, ModelError> {
    let path = dir.join("chat_template.jinja");
    if path.exists() {
        return ChatTemplate::new(files::read_text(&path)?, &path);
    }
    let path = dir.join("tokenizer_config.json");
    let source = match tokenizer_config.get("chat_template") {
        Some(Value::String(source)) => Some(source.as_str()),
        // Several by name; `default` is the one that transformers takes.
        Some(Value::Array(list)) => {
            list.iter().find(|entry| entry["name"] == "default").and_then(|entry| entry["template"].as_str())
        }
        _ => None,
    };
    let Some(source) = source else {
        let problem = "there is no chat template: neither chat_template.jinja, nor `chat_template` in \
                       tokenizer_config.json";
        return Err(ModelError::malformed(dir, problem));
    };
    ChatTemplate::new(source, &path)
}

/// The special tokens of `tokenizer_config.json` by name, such as `bos_token`, which templates may read.
fn special_tokens(config: &Map<String, Value>) -> impl Iterator<Item = (&str, &str)> {
    config.iter().filter(|(name, _)| name.ends_with("_token")).filter_map(|(name, value)| {
        let token = value.as_str().or_else(|| value["content"].as_str())?;
        Some((name.as_str(), token))
    })
}

/// The end ids, and where they stand.
fn read_end_ids(
    dir: &Path,
    tokenizer: &Tokenizer,
    tokenizer_config: &Map<String, Value>,
    generation_config: Option<&Value>,
) -> Result<(Vec<u32>, String), ModelError> {
    let config = files::read_json_if_there(&dir.join("config.json"))?;
    let places = [("generation_config.json", generation_config), ("config.json", config.as_ref())];
    for (name, json) in places {
        let Some(value) = json.and_then(|json| json.get("eos_token_id")).filter(|value| !value.is_null())
        else {
            continue;
        };
        let path = dir.join(name);
        let ids = one_or_more_ids(value).ok_or_else(|| {
            ModelError::malformed(
                &path,
                format!("`eos_token_id` is {value}; it must be an id or a list of ids"),
            )
        })?;
        return Ok((ids, format!("{}: eos_token_id", path.display())));
    }
    let path = dir.join("tokenizer_config.json");
    let place = format!("{}: eos_token", path.display());
    match special_tokens(tokenizer_config).find(|(name, _)| *name == "eos_token") {
        Some((_, token)) => Ok((tokenizer.token_ids(&[token], &place)?, place)),
        None => Err(ModelError::malformed(
            dir,
            "nothing says which token ends an answer: neither `eos_token_id` in generation_config.json or \
             config.json, nor `eos_token` in tokenizer_config.json",
        )),
    }
}

fn one_or_more_ids(value: &Value) -> Option<Vec<u32>> {
    let id = |value: &Value| u32::try_from(value.as_u64()?).ok();
    match value {
        Value::Array(list) if !list.is_empty() => list.iter().map(id).collect(),
        _ => Some(vec![id(value)?]),
    }
}
