//! Text without a chat template.

use std::path::Path;

use serde_json::json;

use crate::{Chat, ChatError, ChatTemplate, ModelError, TextTokens, Tokenizer};

/// A conversation is the text of its messages, after what the tokenizer puts before every text.
const PLAIN: &str = "{{ begin }}{% for message in messages %}{{ message.content }}{% endfor %}";

impl ChatTemplate {
    /// No template: the policy reads the text of the messages and nothing else. Control tokens in it are control
    /// tokens, because nothing else writes them.
    ///
    /// # Errors
    /// None in practice, although the signature allows a compile error.
    pub fn plain() -> Result<Self, ModelError> {
        let template = ChatTemplate::new(PLAIN, Path::new("text without a template"))?;
        Ok(template.with_variable("begin", json!("")).with_text_tokens(TextTokens::AsTransformers))
    }
}

impl Chat {
    /// The same chat with [`ChatTemplate::plain`]. The text follows what the tokenizer puts before every text, such as
    /// Llama's `<|begin_of_text|>`.
    ///
    /// # Errors
    /// If the tokenizer can't say what that is.
    pub fn without_template(self) -> Result<Self, ModelError> {
        let begin = self.tokenizer.before_text();
        let begin =
            begin.map_err(|error| ModelError::malformed(Path::new("tokenizer.json"), error.to_string()))?;
        let template = ChatTemplate::plain()?.with_variable("begin", json!(begin));
        Ok(self.with_template(template))
    }
}

impl Tokenizer {
    /// The text of the special tokens that it puts before every text; empty if there are none.
    ///
    /// # Errors
    /// If the tokenizer fails.
    pub fn before_text(&self) -> Result<String, ChatError> {
        const TEXT: &str = "a";
        let (bare, whole) = (self.encode(TEXT)?, self.encode_with_special(TEXT)?);
        let at = whole.windows(bare.len().max(1)).position(|ids| ids == bare).unwrap_or(0);
        self.decode(&whole[..at], false)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use burnish_core::{Message, Trace};

    fn chat(is_marked: bool) -> Chat {
        let tokenizer = Tokenizer::train_bpe(&["the answer is"], 300, &["<s>", "</s>"]).unwrap();
        let mut json: serde_json::Value = serde_json::from_str(tokenizer.json()).unwrap();
        if is_marked {
            json["post_processor"] = json!({
                "type": "TemplateProcessing",
                "single": [
                    {"SpecialToken": {"id": "<s>", "type_id": 0}},
                    {"Sequence": {"id": "A", "type_id": 0}},
                    {"SpecialToken": {"id": "</s>", "type_id": 0}},
                ],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {
                    "<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]},
                    "</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]},
                },
            });
        }
        let tokenizer = Tokenizer::from_json(json.to_string()).unwrap();
        Chat::new(tokenizer, ChatTemplate::chatml().unwrap(), &["</s>"], "</s>").unwrap()
    }

    #[test]
    fn plain_text_follows_what_the_tokenizer_puts_before_it() {
        for (is_marked, first) in [(true, "<s>"), (false, "")] {
            let chat = chat(is_marked).without_template().unwrap();
            assert_eq!(chat.tokenizer.before_text().unwrap(), first);
            let mut trace = Trace::new();
            let ids = chat.extend(&mut trace, &[Message::user("the answer")], &[]).unwrap();
            let text = format!("{first}the answer");
            assert_eq!(ids, chat.tokenizer.encode(&text).unwrap());
            assert_eq!(chat.tokenizer.decode(&ids, false).unwrap(), text);
        }
    }
}
