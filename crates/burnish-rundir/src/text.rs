//! Makes text safe for people: control characters that a terminal or a page must not obey, and words that a shell
//! must not interpret.

use std::borrow::Cow;
use std::path::Path;

/// Replaces every character that could control a terminal or reorder a line by a visible sign. Line ends and tabs
/// stay. Use it for everything that comes from data, models, files and servers, and for messages that quote them.
pub fn visible(text: &str) -> Cow<'_, str> {
    replaced(text, |character| match character {
        '\n' | '\t' => None,
        // Unicode has signs for control characters, such as ␛ for the one that starts escape sequences.
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(character)).map(String::from),
        '\u{7f}' => Some("␡".to_owned()),
        _ if steers(character) => Some(format!("<U+{:04X}>", u32::from(character))),
        _ => None,
    })
}

/// As [`visible`], but on one line: for names and labels inside a line.
pub fn visible_line(text: &str) -> String {
    visible(text).replace('\n', "␊").replace('\t', "␉")
}

/// The same JSON value, with every character that [`visible`] replaces written as an escape.
pub fn plain_json(json: &str) -> Cow<'_, str> {
    // Outside strings, JSON has none of these characters except line ends and tabs; inside strings, control
    // characters are never raw.
    replaced(json, |character| steers(character).then(|| format!("\\u{:04x}", u32::from(character))))
}

/// Whether a terminal takes the character for a command, or it changes the order in which a line is shown. Besides
/// the control characters below the blank, these are DEL, the characters of ISO 6429's second set (0x9b starts a
/// sequence as `ESC [` does), line and paragraph separators, and characters that embed, override or isolate a writing
/// direction.
fn steers(character: char) -> bool {
    let is_direction = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    is_direction || matches!(character, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

fn replaced(text: &str, by: impl Fn(char) -> Option<String>) -> Cow<'_, str> {
    if text.chars().all(|character| by(character).is_none()) {
        return Cow::Borrowed(text);
    }
    let shown = |character| by(character).map_or(Cow::Owned(String::from(character)), Cow::Owned);
    Cow::Owned(text.chars().map(shown).collect())
}

/// A time in seconds since 1970 as a date, `2026-03-01 12:30 UTC`.
pub fn utc(seconds: i64) -> String {
    let time = chrono::DateTime::from_timestamp(seconds, 0);
    time.map_or_else(|| format!("{seconds} s"), |time| time.format("%Y-%m-%d %H:%M UTC").to_string())
}

/// A duration as people say it: `42 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    let two = |large: u64, unit: &str, small: u64, smaller: &str| match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {smaller}"),
    };
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => two(whole / 60, "min", whole % 60, "s"),
        3600..86_400 => two(whole / 3600, "h", whole % 3600 / 60, "min"),
        _ => two(whole / 86_400, "d", whole % 86_400 / 3600, "h"),
    }
}

/// Quotes a word for a shell, so that a command that is shown can be pasted.
pub fn shell_word(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=,:+@%".contains(&byte);
    if !word.is_empty() && !word.starts_with('=') && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    if word.chars().any(|character| character.is_control() || steers(character)) {
        return escaped_word(word.as_bytes());
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// As [`shell_word`]; a path that a program could mistake for an option gets `./` in front.
pub fn shell_path(path: &Path) -> String {
    let Some(text) = path.to_str() else { return escaped_word(path.as_os_str().as_encoded_bytes()) };
    if text.starts_with('-') { shell_word(&format!("./{text}")) } else { shell_word(text) }
}

/// For words that can't be written out, such as names that are not UTF-8: `$'...'`, which POSIX has had since 2024,
/// and every common shell for longer.
fn escaped_word(word: &[u8]) -> String {
    let escaped = |byte: &u8| match byte {
        b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
        b' '..=b'~' => char::from(*byte).to_string(),
        // Always three digits, because the next character may be a digit.
        byte => format!("\\{byte:03o}"),
    };
    format!("$'{}'", word.iter().map(escaped).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn what_steers_a_terminal_is_shown_and_all_else_stays() {
        for plain in ["", "a\n\tb", "π ≤ ½, „ü“", "日本語", "שלום", "\u{200d}👩\u{200d}🚀"]
        {
            assert_eq!(visible(plain), plain);
        }
        assert_eq!(visible("\u{1b}[2J\u{1b}]0;x\u{7}"), "␛[2J␛]0;x␇");
        assert_eq!(visible("a\r\nb\u{8}\0\u{7f}"), "a␍\nb␈␀␡");
        assert_eq!(visible("\u{9b}31m\u{202e}b\u{2066}"), "<U+009B>31m<U+202E>b<U+2066>");
        assert_eq!(visible_line("a\nb\tc\u{1b}"), "a␊b␉c␛");
    }

    #[test]
    fn times_are_told_as_people_say_them() {
        assert_eq!(utc(1_772_368_200), "2026-03-01 12:30 UTC");
        assert!(utc(i64::MAX).ends_with(" s"));
        for (seconds, text) in [
            (0.4, "0 s"),
            (59.6, "1 min"),
            (185.0, "3 min 5 s"),
            (7800.0, "2 h 10 min"),
            (273_600.0, "3 d 4 h"),
            (f64::NAN, "0 s"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn every_control_character_is_shown() {
        for character in ('\0'..='\u{10ffff}').filter(|character| character.is_control()) {
            let is_layout = matches!(character, '\n' | '\t');
            assert_eq!(visible(&character.to_string()).contains(character), is_layout, "{character:?}");
        }
    }

    #[test]
    fn json_keeps_its_value() {
        let value = serde_json::json!({"a\u{9b}": "\u{202e}\u{1b}[31m\n\u{7f}\\ \" ü", "n": [1, null]});
        for json in [value.to_string(), serde_json::to_string_pretty(&value).unwrap_or_default()] {
            let plain = plain_json(&json);
            assert!(!plain.chars().any(|character| steers(character) || character == '\u{1b}'), "{plain}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&plain).unwrap(), value);
        }
    }

    /// How the shells of this machine read a word.
    #[cfg(unix)]
    #[test]
    fn a_shell_takes_a_word_as_it_is() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let words: [&[u8]; 10] = [
            b"runs/x-1.2_a",
            b"",
            b"my runs/it's",
            b"policy.lora={rank=4, alpha=8}",
            b"$HOME `ls` \"x\" \\ !",
            b"~/x",
            b"*?[a]",
            "grüße/日本".as_bytes(),
            b"a\nb\x1b[31m'7",
            b"\xff\xfe9 x",
        ];
        for word in words {
            let path = Path::new(OsStr::from_bytes(word));
            let written = shell_path(path);
            let script = format!("printf %s {written}");
            let Ok(output) = Command::new("bash").arg("-c").arg(&script).output() else {
                println!("skipped: no bash, or python3, to try words with");
                return;
            };
            assert_eq!(output.stdout, word, "{written}");
            assert!(!written.chars().any(char::is_control), "{written:?}");
        }
        assert_eq!(shell_path(Path::new("-x")), "./-x");
        assert_eq!(shell_word("run.seed=2"), "run.seed=2");
    }
}
