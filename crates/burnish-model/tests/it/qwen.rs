//! The tokenizer of the Qwen models: real vocabulary, real merges, added tokens.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use burnish_core::Message;
use burnish_model::{Chat, ChatTemplate};
use serde_json::{Value, json};

/// The word pattern of Qwen2's tokenizer.json.
const WORDS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const ADDED: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];

fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter(|byte| *byte != b'=');
    let (mut out, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for digit in digits {
        bits = bits << 6 | DIGITS.iter().position(|known| *known == digit).unwrap() as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}

/// Bytes as tokenizer.json writes them (GPT-2's table): printable ones as themselves, the others numbered from U+0100
/// on.
fn written(bytes: &[u8]) -> String {
    let is_printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let write = |byte: u8| match is_printable(byte) {
        true => char::from(byte),
        false => {
            let before = (0..byte).filter(|other| !is_printable(*other)).count() as u32;
            char::from_u32(0x100 + before).unwrap()
        }
    };
    bytes.iter().map(|byte| write(*byte)).collect()
}

/// The two tokens that a token was merged from: what the merges of lower rank make of its bytes.
fn halves<'a>(token: &'a [u8], rank: u32, ranks: &HashMap<Vec<u8>, u32>) -> [&'a [u8]; 2] {
    let mut cuts: Vec<usize> = (0..=token.len()).collect();
    while cuts.len() > 3 {
        let pair = |at: usize| ranks.get(&token[cuts[at]..cuts[at + 2]]).filter(|found| **found < rank);
        let (_, best) = (0..cuts.len() - 2).filter_map(|at| Some((pair(at)?, at))).min().unwrap();
        cuts.remove(best + 1);
    }
    [&token[..cuts[1]], &token[cuts[1]..]]
}

fn tokenizer_json(tiktoken: &str) -> Value {
    let lines = tiktoken.lines().map(|line| line.split_once(' ').unwrap());
    let tokens: Vec<(Vec<u8>, u32)> =
        lines.map(|(token, rank)| (base64(token), rank.parse().unwrap())).collect();
    let ranks: HashMap<Vec<u8>, u32> = tokens.iter().cloned().collect();
    let vocab: serde_json::Map<String, Value> =
        tokens.iter().map(|(token, rank)| (written(token), json!(rank))).collect();
    let merges: Vec<[String; 2]> = tokens
        .iter()
        .filter(|(token, _)| token.len() > 1)
        .map(|(token, rank)| halves(token, *rank, &ranks).map(written))
        .collect();
    let added: Vec<Value> = (tokens.len()..)
        .zip(ADDED)
        .map(|(id, content)| {
            json!({ "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true })
        })
        .collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": { "type": "NFC" },
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": [
            { "type": "Split", "pattern": { "Regex": WORDS }, "behavior": "Isolated", "invert": false },
            { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false },
        ] },
        "post_processor": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false },
        "decoder": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false },
        "model": { "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
            "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": merges },
    })
}

#[test]
fn the_tokenizer_of_qwen_gives_its_published_encodings() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/qwen_bpe");
    if !data.is_dir() {
        println!("skipped: {} is not there", data.display());
        return;
    }
    let read = |name: &str| fs::read_to_string(data.join(name)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let json = tokenizer_json(&read("qwen.tiktoken")).to_string();
    fs::write(dir.path().join("tokenizer.json"), json).unwrap();
    let added = json!({ "151643": { "content": ADDED[0] }, "151645": { "content": ADDED[2] } });
    let config = json!({ "eos_token": "<|im_end|>", "added_tokens_decoder": added });
    fs::write(dir.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    fs::write(dir.path().join("generation_config.json"), r#"{"eos_token_id": [151645, 151643]}"#).unwrap();
    fs::write(dir.path().join("chat_template.jinja"), ChatTemplate::chatml().unwrap().source()).unwrap();
    let chat = Chat::load(dir.path()).unwrap();
    assert_eq!(chat.end_ids(), [151645, 151643]);

    let inputs = read("ggml-vocab-qwen2.gguf.inp");
    let texts: Vec<&str> = inputs.split("\n__ggml_vocab_test__\n").collect();
    let outputs = read("ggml-vocab-qwen2.gguf.out");
    let mut checked = 0;
    for (text, line) in texts.iter().zip(outputs.lines()) {
        let expected: Vec<u32> = line.split_whitespace().map(|id| id.parse().unwrap()).collect();
        assert_eq!(chat.tokenizer.encode(text).unwrap(), expected, "{text:?}");
        assert_eq!(chat.tokenizer.decode(&expected, false).unwrap(), *text);
        checked += 1;
    }
    assert_eq!(checked, 46);

    let text = chat.template.render(&[Message::user("Hello world")], &[], true).unwrap();
    let ids = chat.tokenizer.encode(&text).unwrap();
    assert_eq!(ids, [151644, 872, 198, 9707, 1879, 151645, 198, 151644, 77091, 198]);
}
