//! Converts between messages and the token-exact record of one agent.
//!
//! A sampled token is never tokenised again. Before each turn the whole conversation is rendered. The deepest node of
//! the trace whose text is a prefix of that rendering is kept with its ids, and only the rest is tokenised, as one
//! context node. So what the policy reads at turn k+1 begins with exactly the tokens that it read and sampled at turn
//! k, even if the tokenizer would split that text differently. If a template rewrites history (Qwen3 drops earlier
//! thoughts), the deepest node that fits is an earlier one, and the trace forks there.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use burnish_core::{LATENT, Message, Node, NodeId, Piece, Role, Sampled, Source, ToolSpec, Trace};
use serde_json::{Map, Value, json};

use crate::conversation::Conversation;
use crate::generation::GenerationConfig;
use crate::{
    ChatError, ChatTemplate, Encoded, GenerationDefaults, ModelError, TextTokens, Tokenizer, chat_files,
    provenance,
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
    /// A chat from its parts. The template closes an answer with the first of `end_tokens`.
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

    /// The same chat with another template, which gets the special tokens as variables.
    #[must_use]
    pub fn with_template(self, template: ChatTemplate) -> Self {
        Chat { template: with_special_tokens(template, &self.tokenizer_config), ..self }
    }

    /// The same chat, in which the control tokens of texts are read so. Text without a template keeps its own.
    #[must_use]
    pub fn with_text_tokens(self, text_tokens: TextTokens) -> Self {
        match text_tokens {
            TextTokens::Literal => self,
            TextTokens::AsTransformers => {
                Chat { template: self.template.with_text_tokens(text_tokens), ..self }
            }
        }
    }

    /// Ids that end an answer.
    pub fn end_ids(&self) -> &[u32] {
        &self.end_ids
    }

    /// The sampling parameters that the model's makers recommend; all `None` without a `generation_config.json`.
    ///
    /// # Errors
    /// Names the key of the file that is malformed or unknown, or asks for something that the engine does not do.
    pub fn generation_defaults(&self) -> Result<GenerationDefaults, ModelError> {
        self.generation_config
            .as_ref()
            .map_or_else(|| Ok(GenerationDefaults::default()), GenerationConfig::defaults)
    }

    /// Can the policy sample this id? The id of latent steps ([`LATENT`](burnish_core::LATENT)) marks a place and is
    /// never sampled, and heads may have rows for ids that the tokenizer does not know.
    pub fn can_be_sampled(&self, id: u32) -> bool {
        self.tokenizer.id_exists(id) && self.tokenizer.token_id(LATENT) != Some(id)
    }

    /// Extends the trace to the point where the policy speaks next, and returns all ids that the policy reads there. If
    /// the template rewrote history, the trace forks.
    ///
    /// # Errors
    /// If the conversation can't be rendered or tokenised; the trace then stays as it was.
    pub fn extend(
        &self,
        trace: &mut Trace,
        messages: &[Message],
        tools: &[ToolSpec],
    ) -> Result<Vec<u32>, ChatError> {
        let rendered = self.render(messages, tools, true)?;
        self.follow(trace, messages, tools, &rendered)?;
        Ok(trace.head_ids())
    }

    /// Appends the assistant's messages of a conversation as answers to imitate.
    ///
    /// If the template has generation blocks, they decide what is imitated: the conversation up to its last answer is
    /// one new branch, rendered and tokenised as a whole, with a mask as [`Chat::encode_with_mask`] makes it.
    ///
    /// If it has none, each answer follows the prompt before it, as [`Chat::extend`] makes it, up to its end token.
    /// What the template writes after that belongs to the next prompt.
    ///
    /// # Errors
    /// As [`Chat::extend`]; also if the template renders an answer that does not continue its own generation prompt, or
    /// if the imitated text has no end token. The trace then stays as it was.
    pub fn demonstrate(
        &self,
        trace: &mut Trace,
        messages: &[Message],
        tools: &[ToolSpec],
    ) -> Result<(), ChatError> {
        self.demonstrate_from(trace, messages, 0, tools)
    }

    /// As [`Chat::demonstrate`], for the messages from index `first` on: earlier assistant messages are part of the
    /// prompt.
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
            let prompt = self.render(&messages[..at], tools, true)?;
            let parent = self.follow(&mut grown, &messages[..at], tools, &prompt)?;
            let answered = self.render(&messages[..=at], tools, false)?.rendered.text;
            let rest = answered.strip_prefix(&prompt.rendered.text);
            let rest = rest.ok_or(ChatError::AnswerLeavesPrompt { message: at })?;
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

    /// As [`Chat::demonstrate`], with the template's generation blocks.
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
        let conversation = self.render_with_answers(messages, tools)?;
        let encoded =
            self.tokenizer.encode_literal(&conversation.rendered.text, &conversation.breaks_from(0))?;
        let rendered = conversation.rendered;
        // Only an end token that is imitated teaches the policy to stop.
        let final_answer =
            rendered.assistant.last().and_then(|range| self.through_end_token(&rendered.text[range.clone()]));
        if final_answer.is_none() {
            return Err(ChatError::NoEndToken { message: last, end_tokens: self.end_texts.clone() });
        }
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

    /// The ids of a whole conversation, and which of them the template's generation blocks wrote: the `input_ids` and
    /// `assistant_masks` of `apply_chat_template` with `return_assistant_tokens_mask`. Without such blocks the mask is
    /// false everywhere. Arguments of calls and control tokens in texts are taken as they are, as there.
    ///
    /// # Errors
    /// As [`ChatTemplate::render_with_answers`]; also if the text can't be tokenised, or if no token holds the last
    /// character of a block (`transformers` then counts everything after it as the assistant's).
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

    /// Appends the given beginning of an answer at the trace's head, one node per piece. The policy continues from it.
    ///
    /// # Errors
    /// If a piece's sampling record does not fit it; the trace then stays as it was.
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

    /// Appends what the policy sampled at the trace's head, after `begun` ([`Chat::begin_answer`]), and returns both as
    /// a message: their text without the end token. Bytes that are not UTF-8 become U+FFFD in the text; the ids are
    /// kept.
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
        push_sampled(trace, format!("{said}{end}"), ids, None, sampled)?;
        Ok(message)
    }

    /// The text of `ids` after `begun`, and the text of the end token after it.
    pub(crate) fn said_after(&self, begun: &[Piece], ids: &[u32]) -> Result<(String, &str), ChatError> {
        let (said, end) = self.split_end(ids);
        let begun_ids = begun.iter().flat_map(|piece| &piece.ids);
        let both: Vec<u32> = begun_ids.chain(said).copied().collect();
        // A character may begin in one part and end in the other.
        let whole = self.tokenizer.decode(&both, false)?;
        let said = match whole.strip_prefix(text_of(begun).as_str()) {
            Some(rest) => rest.to_owned(),
            // The tokenizer writes the beginning of this text differently.
            None => self.tokenizer.decode(said, false)?,
        };
        Ok((said, end.unwrap_or_default()))
    }

    /// Moves the trace's head to the end of `rendered`, the template's text for the messages.
    fn follow(
        &self,
        trace: &mut Trace,
        messages: &[Message],
        tools: &[ToolSpec],
        conversation: &Conversation,
    ) -> Result<Option<NodeId>, ChatError> {
        let rendered = &*conversation.rendered.text;
        let (parent, kept) = self.deepest(trace, rendered);
        if kept == rendered.len() && parent == trace.head() {
            return Ok(parent);
        }
        let text = &rendered[kept..];
        let encoded = self.tokenizer.encode_literal(text, &conversation.breaks_from(kept))?;
        let whose = provenance::locate(&self.template, messages, tools, true, rendered);
        let sources =
            encoded.bytes.iter().map(|bytes| whose.of(kept + bytes.start..kept + bytes.end)).collect();
        let node = Node { parent, text: text.into(), ids: encoded.ids, sources, sampled: None };
        Ok(Some(trace.push(node)?))
    }

    /// The node to continue from, and the number of bytes at the beginning of `rendered` that its path covers. This is
    /// the head if the conversation only grew. Otherwise it is the node that covers most; of equals, one on the head's
    /// path, then the newest.
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

    /// The number of bytes at the beginning of `text` that a node covers; `None` if `text` begins differently.
    ///
    /// A policy may end its answer with an end token other than the one that the template writes (`<|endoftext|>` for
    /// `<|im_end|>`). The answer is still the same, so the node fits without its end token.
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

    /// The ids without the end token, and the text of the end token.
    fn split_end<'a>(&self, ids: &'a [u32]) -> (&'a [u32], Option<&str>) {
        let last = ids.split_last().and_then(|(last, said)| {
            let at = self.end_ids.iter().position(|end| end == last)?;
            Some((said, self.end_texts[at].as_str()))
        });
        last.map_or((ids, None), |(said, end)| (said, Some(end)))
    }

    /// `text` up to and including its last end token.
    fn through_end_token<'a>(&self, text: &'a str) -> Option<&'a str> {
        let ends = self.end_texts.iter().filter_map(|end| Some(text.rfind(end.as_str())? + end.len()));
        ends.max().map(|end| &text[..end])
    }

    /// `text` up to its last end token.
    pub(crate) fn before_end_token<'a>(&self, text: &'a str) -> Option<&'a str> {
        let through = self.through_end_token(text)?;
        // One end token may be a suffix of another.
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
    sources: Option<Vec<Source>>,
    sampled: Sampled,
) -> Result<(), ChatError> {
    let sources = sources.unwrap_or_else(|| vec![Source::Policy; ids.len()]);
    trace.push(Node { parent: trace.head(), text, ids, sources, sampled: Some(sampled) })?;
    Ok(())
}

/// Which tokens belong to `answers`, given as byte ranges: for each range, from the first token that holds its first
/// character to the first that holds its last, as in `transformers`.
fn answer_mask(encoded: &Encoded, answers: &[Range<usize>]) -> Result<Vec<bool>, ChatError> {
    let holding = |byte: usize| encoded.bytes.iter().position(|bytes| bytes.contains(&byte));
    let mut mask = vec![false; encoded.ids.len()];
    for answer in answers.iter().filter(|answer| !answer.is_empty()) {
        let (Some(first), Some(last)) = (holding(answer.start), holding(answer.end - 1)) else {
            let problem = "no token covers the beginning or the end of an answer".into();
            return Err(ChatError::Tokenizer(problem));
        };
        mask[first..=last].fill(true);
    }
    Ok(mask)
}
