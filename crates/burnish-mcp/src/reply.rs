//! What a policy reads of a tool's result.

use burnish_core::json;
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// What it says.
    pub text: String,
    /// Does the server say that the call failed?
    pub is_error: bool,
}

impl Reply {
    /// A result in words: its texts, and what else it holds by kind. Structured content is read where there is no other.
    pub(crate) fn of(result: CallToolResult, bytes_max: usize) -> Self {
        let is_error = result.is_error.unwrap_or(false);
        let said: Vec<String> = result.content.iter().map(in_words).collect();
        let text = match (said.is_empty(), result.structured_content) {
            (true, Some(structured)) => json::line(&structured),
            (true, None) if is_error => "The call failed; the tool does not say why.".to_owned(),
            _ => said.join("\n"),
        };
        Reply { text: shortened(text, bytes_max), is_error }
    }

    /// An error of the protocol: the server did not run the tool, or the tool failed.
    pub(crate) fn refused(error: ErrorData, bytes_max: usize) -> Self {
        let data = error.data.map(|data| format!(" ({})", json::line(&data))).unwrap_or_default();
        Reply { text: shortened(format!("Error: {}{data}", error.message), bytes_max), is_error: true }
    }
}

fn in_words(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => format!("[image: {}]", image.mime_type),
        ContentBlock::Audio(audio) => format!("[audio: {}]", audio.mime_type),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { text, .. } => text.clone(),
            ResourceContents::BlobResourceContents { uri, .. } => format!("[resource: {uri}]"),
            _ => "[resource]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[resource: {}]", link.uri),
        _ => "[something that is no text]".to_owned(),
    }
}

/// The beginning of a text that is too long, and how much there is.
fn shortened(mut text: String, bytes_max: usize) -> String {
    let all = text.len();
    if all <= bytes_max {
        return text;
    }
    let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    text.truncate(end);
    text + &format!("\n[cut: the first {end} of {all} bytes]")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use rmcp::model::ErrorCode;
    use serde_json::json;

    use super::*;

    fn reply(result: serde_json::Value, bytes_max: usize) -> Reply {
        Reply::of(serde_json::from_value(result).unwrap(), bytes_max)
    }

    #[test]
    fn everything_that_a_result_may_hold_is_put_in_words() {
        let content = json!([
            { "type": "text", "text": "one" },
            { "type": "image", "data": "AAAA", "mimeType": "image/png" },
            { "type": "audio", "data": "AAAA", "mimeType": "audio/wav" },
            { "type": "resource", "resource": { "uri": "x://1", "text": "inside" } },
            { "type": "resource", "resource": { "uri": "x://2", "blob": "AAAA" } },
            { "type": "resource_link", "uri": "x://3", "name": "three" },
        ]);
        let said =
            "one\n[image: image/png]\n[audio: audio/wav]\ninside\n[resource: x://2]\n[resource: x://3]";
        assert_eq!(reply(json!({ "content": content }), 1000), Reply { text: said.into(), is_error: false });
        let structured = json!({ "content": [], "structuredContent": { "a": 1 } });
        assert_eq!(reply(structured, 1000).text, r#"{"a":1}"#);
        assert_eq!(reply(json!({ "content": [] }), 1000).text, "");
        assert!(reply(json!({ "content": [], "isError": true }), 1000).text.starts_with("The call failed"));
        let error = ErrorData::new(ErrorCode::INVALID_PARAMS, "no such file", Some(json!({ "path": "x" })));
        let refused = Reply::refused(error, 1000);
        assert_eq!(refused, Reply { text: r#"Error: no such file ({"path":"x"})"#.into(), is_error: true });
    }

    #[test]
    fn a_long_result_is_cut_between_characters() {
        let long = json!({ "content": [{ "type": "text", "text": "é".repeat(10) }] });
        assert_eq!(reply(long.clone(), 20).text, "é".repeat(10));
        assert_eq!(reply(long, 5).text, "éé\n[cut: the first 4 of 20 bytes]");
    }
}
