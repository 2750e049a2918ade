//! Between messages and the token-exact record of one agent.
//!
//! A sampled token is never tokenised again. Before each turn the whole conversation is rendered; the deepest
//! node of the trace whose text begins that rendering is kept with its ids, and only what follows is tokenised,
//! as one context node. So what the policy reads at turn k+1 begins with what it read and sampled at turn k,
//! whether or not the tokenizer would cut that text in the same way. Where a template rewrites history (Qwen3
//! drops earlier thoughts), an earlier node is the deepest that fits, and the trace forks there.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use burnish_core::{Message, Node, NodeId, Piece, Role, Sampled, Source, ToolSpec, Trace};
use serde_json::{Map, Value, json};

use crate::generation::GenerationConfig;
use crate::{
    ChatError, ChatTemplate, Encoded, GenerationDefaults, ModelError, Tokenizer, chat_files, provenance,
};

/// A tokenizer, a chat template, and the tokens that end an answer.
#[derive(Debug, Clone)]
pub struct Chat {
    /// Text to ids and back.
    pub tokenizer: Arc<Tokenizer>,
    /// Messages to text.
    pub template: ChatTemplate,
    end_ids: Vec<u32>,
    /// Text of each end id.
    end_texts: Vec<String>,
    pub(crate) tokenizer_config: Map<String, Value>,
    pub(crate) generation_config: Option<GenerationConfig>,
}

fn with_special_tokens(template: ChatTemplate, tokenizer_config: &Map<String, Value>) -> ChatTemplate {
    chat_files::special_tokens(tokenizer_config)
        .fold(template, |template, (name, token)| template.with_variable(name, json!(token)))
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
        let json = Map::from_iter([
            ("eos_token_id".to_string(), json!(end_ids)),
            ("pad_token_id".to_string(), json!(pad_ids.first())),
        ]);
        let generation_config = GenerationConfig { path: "generation_config.json".into(), json };
        Chat::assemble(tokenizer, template, end_ids, tokenizer_config, Some(generation_config), "end tokens")
    }

    pub(crate) fn assemble(
        tokenizer: Tokenizer,
        template: ChatTemplate,
        end_ids: Vec<u32>,
        tokenizer_config: Map<String, Value>,
        generation_config: Option<GenerationConfig>,
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
        let template = with_special_tokens(template, &tokenizer_config);
        let tokenizer = Arc::new(tokenizer);
        Ok(Chat { tokenizer, template, end_ids, end_texts, tokenizer_config, generation_config })
    }

    /// The same chat with another template, which is given the special tokens.
    #[must_use]
    pub fn with_template(self, template: ChatTemplate) -> Self {
        Chat { template: with_special_tokens(template, &self.tokenizer_config), ..self }
    }

    /// Ids that end an answer.
    pub fn end_ids(&self) -> &[u32] {
        &self.end_ids
    }

    /// How the makers of the model sample from it; all `None` without a `generation_config.json`.
    ///
    /// # Errors
    /// Names the key of the file that is malformed, unknown, or asks for what the engine does not do.
    pub fn generation_defaults(&self) -> Result<GenerationDefaults, ModelError> {
        self.generation_config
            .as_ref()
            .map_or_else(|| Ok(GenerationDefaults::default()), GenerationConfig::defaults)
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

    /// Appends the assistant's messages of a conversation as answers to be imitated.
    ///
    /// Where the template has generation blocks, they say what is imitated: the conversation up to its last
    /// answer is one new branch, rendered and tokenised whole, with the mask of [`Chat::encode_with_mask`].
    ///
    /// Where it has none, each answer follows the prompt before it, as [`Chat::extend`] makes it, up to its end
    /// token; what the template writes after that belongs to the next prompt.
    ///
    /// # Errors
    /// As [`Chat::extend`], and if the template renders an answer so that it does not follow its own generation
    /// prompt, or has no end token in what is imitated. The trace then stays as it was.
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
        if first == 0 && self.template.marks_answers(tools) {
            return self.demonstrate_marked(trace, messages, tools);
        }
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

    /// As [`Chat::demonstrate`], by the template's generation blocks.
    fn demonstrate_marked(
        &self,
        trace: &mut Trace,
        messages: &[Message],
        tools: &[ToolSpec],
    ) -> Result<(), ChatError> {
        let Some(last) = messages.iter().rposition(|message| message.role == Role::Assistant) else {
            return Ok(());
        };
        let messages = &messages[..=last];
        let rendered = self.template.render_with_answers(messages, tools, false)?;
        // Only an end token that is imitated teaches to stop.
        let final_answer =
            rendered.assistant.last().and_then(|range| self.through_end_token(&rendered.text[range.clone()]));
        if final_answer.is_none() {
            return Err(ChatError::NoEndToken { message: last, end_tokens: self.end_texts.clone() });
        }
        let encoded = self.tokenizer.encode_with_offsets(&rendered.text)?;
        let mask = answer_mask(&encoded, &rendered.assistant)?;
        let whose = provenance::locate(&self.template, messages, tools, false, &rendered.text);
        let sources = encoded.bytes.iter().zip(mask).map(|(bytes, is_answer)| match is_answer {
            true => Source::Demonstration,
            false => whose.of(bytes.clone()),
        });
        let sources = sources.collect();
        trace.push(Node { parent: None, text: rendered.text, ids: encoded.ids, sources, sampled: None })?;
        Ok(())
    }

    /// The ids of a whole conversation, and which of them the template's generation blocks wrote: the
    /// `input_ids` and `assistant_masks` of `apply_chat_template` with `return_assistant_tokens_mask`. Without
    /// such blocks the mask is false throughout.
    ///
    /// # Errors
    /// As [`ChatTemplate::render_with_answers`], if the text can't be tokenised, or if no token holds the last
    /// character of a block (`transformers` then takes all that follows for the assistant's).
    pub fn encode_with_mask(
        &self,
        messages: &[Message],
        tools: &[ToolSpec],
        add_generation_prompt: bool,
    ) -> Result<(Vec<u32>, Vec<bool>), ChatError> {
        let rendered = self.template.render_with_answers(messages, tools, add_generation_prompt)?;
        let encoded = self.tokenizer.encode_with_offsets(&rendered.text)?;
        let mask = answer_mask(&encoded, &rendered.assistant)?;
        Ok((encoded.ids, mask))
    }

    /// Puts the beginning of an answer at the trace's head, which the policy goes on from: a node for each piece.
    ///
    /// # Errors
    /// If how a piece was sampled does not fit it; the trace then stays as it was.
    pub fn begin_answer(&self, trace: &mut Trace, begun: &[Piece]) -> Result<(), ChatError> {
        let mut grown = trace.clone();
        for Piece { ids, text, sampled } in begun.iter().cloned() {
            let source = if sampled.is_some() { Source::Policy } else { Source::Hint };
            let sources = vec![source; ids.len()];
            grown.push(Node { parent: grown.head(), text, ids, sources, sampled })?;
        }
        *trace = grown;
        Ok(())
    }

    /// Appends what the policy sampled at the trace's head, after `begun` ([`Chat::begin_answer`]), and returns both as a message:
    /// their text without the end token. Bytes that are not UTF-8 become U+FFFD in the text; the ids stay.
    ///
    /// # Errors
    /// If the ids can't be decoded, or `sampled` does not fit them; the trace then stays as it was.
    pub fn record(
        &self,
        trace: &mut Trace,
        begun: &[Piece],
        ids: Vec<u32>,
        sampled: Sampled,
    ) -> Result<Message, ChatError> {
        let (said, end) = self.said_after(begun, &ids)?;
        let message = Message::assistant(text_of(begun) + &said);
        push_sampled(trace, format!("{said}{end}"), ids, sampled)?;
        Ok(message)
    }

    /// The text of `ids` that follow `begun`, and that of the end token after it.
    pub(crate) fn said_after(&self, begun: &[Piece], ids: &[u32]) -> Result<(String, &str), ChatError> {
        let (said, end) = self.split_end(ids);
        let begun_ids = begun.iter().flat_map(|piece| &piece.ids);
        let both: Vec<u32> = begun_ids.chain(said).copied().collect();
        // A character may begin in the one part and end in the other.
        let whole = self.tokenizer.decode(&both, false)?;
        let said = match whole.strip_prefix(text_of(begun).as_str()) {
            Some(rest) => rest.to_owned(),
            // It begins with a text that the tokenizer writes in another way.
            None => self.tokenizer.decode(said, false)?,
        };
        Ok((said, end.unwrap_or_default()))
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
        let whose = provenance::locate(&self.template, messages, tools, true, rendered);
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

    /// `text` up to its last end token.
    pub(crate) fn before_end_token<'a>(&self, text: &'a str) -> Option<&'a str> {
        let through = self.through_end_token(text)?;
        // Of two end tokens, one may end with the other.
        let ends = self.end_texts.iter().filter_map(|end| through.strip_suffix(end.as_str()));
        ends.min_by_key(|before| before.len())
    }
}

pub(crate) fn text_of(begun: &[Piece]) -> String {
    begun.iter().map(|piece| piece.text.as_str()).collect()
}

pub(crate) fn push_sampled(
    trace: &mut Trace,
    text: String,
    ids: Vec<u32>,
    sampled: Sampled,
) -> Result<(), ChatError> {
    let sources = vec![Source::Policy; ids.len()];
    trace.push(Node { parent: trace.head(), text, ids, sources, sampled: Some(sampled) })?;
    Ok(())
}

/// Which tokens stand for `answers`, ranges of bytes: of each, those from the first token that holds its first
/// character to the first that holds its last, as in `transformers`.
fn answer_mask(encoded: &Encoded, answers: &[Range<usize>]) -> Result<Vec<bool>, ChatError> {
    let holding = |byte: usize| encoded.bytes.iter().position(|bytes| bytes.contains(&byte));
    let mut mask = vec![false; encoded.ids.len()];
    for answer in answers.iter().filter(|answer| !answer.is_empty()) {
        let (Some(first), Some(last)) = (holding(answer.start), holding(answer.end - 1)) else {
            let problem = "no token stands for the beginning or the end of an answer".into();
            return Err(ChatError::Tokenizer(problem));
        };
        mask[first..=last].fill(true);
    }
    Ok(mask)
}
