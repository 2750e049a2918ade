//! Python's properties of characters.

use std::sync::OnceLock;

use fancy_regex::Regex;

/// Python's `isspace`, which `strip` and `split` use.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// Does `splitlines` begin a new line after this character?
pub(crate) fn ends_line(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// A class of characters, given by a regular expression.
struct Class(&'static str, OnceLock<Option<Regex>>);

impl Class {
    const fn new(pattern: &'static str) -> Self {
        Class(pattern, OnceLock::new())
    }

    fn has(&self, c: char) -> bool {
        let regex = self.1.get_or_init(|| Regex::new(self.0).ok());
        let mut buffer = [0; 4];
        let text = c.encode_utf8(&mut buffer);
        regex.as_ref().is_some_and(|regex| regex.is_match(text).unwrap_or(false))
    }
}

static LETTER: Class = Class::new(r"\p{L}");
static DECIMAL: Class = Class::new(r"\p{Nd}");
/// Digits that are not part of a decimal number: Unicode's `Numeric_Type=Digit`.
static DIGIT: Class = Class::new(
    "[\u{b2}\u{b3}\u{b9}\u{1369}-\u{1371}\u{19da}\u{2070}\u{2074}-\u{2079}\u{2080}-\u{2089}\u{2460}-\u{2468}\
     \u{2474}-\u{247c}\u{2488}-\u{2490}\u{24ea}\u{24f5}-\u{24fd}\u{24ff}\u{2776}-\u{277e}\u{2780}-\u{2788}\
     \u{278a}-\u{2792}\u{10a40}-\u{10a43}\u{10e60}-\u{10e68}\u{11052}-\u{1105a}\u{1f100}-\u{1f10a}]",
);
static NUMERIC: Class = Class::new(
    r"[\p{N}㐅㒃㠪㭍一七万三九二五亖亿什仟仨伍佰億兆兩八六十千卄卅卌叁参參叄四壱壹幺廾廿弌弍弎弐拾捌柒漆玖百肆萬貮貳贰阡陆陌陸零〇\u{f96b}\u{f973}\u{f978}\u{f9b2}\u{f9d1}\u{f9d3}\u{f9fd}\u{20001}\u{20064}\u{200e2}\u{20121}\u{2092a}\u{20983}\u{2098c}\u{2099c}\u{20aea}\u{20afd}\u{20b19}\u{22390}\u{22998}\u{23b1b}\u{2626d}\u{2f890}]",
);
static TITLE: Class = Class::new(r"\p{Lt}");
static NOT_PRINTABLE: Class = Class::new(r"[\p{C}\p{Z}]");
static WORD_START: Class = Class::new(r"[\p{XID_Start}_]");
static WORD_GOES_ON: Class = Class::new(r"[\p{XID_Continue}]");

pub(crate) fn is_alpha(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphabetic() } else { LETTER.has(c) }
}

pub(crate) fn is_decimal(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_digit() } else { DECIMAL.has(c) }
}

pub(crate) fn is_digit(c: char) -> bool {
    is_decimal(c) || (!c.is_ascii() && DIGIT.has(c))
}

pub(crate) fn is_numeric(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_digit() } else { NUMERIC.has(c) }
}

pub(crate) fn is_alnum(c: char) -> bool {
    is_alpha(c) || is_numeric(c)
}

pub(crate) fn is_title(c: char) -> bool {
    !c.is_ascii() && TITLE.has(c)
}

pub(crate) fn is_printable(c: char) -> bool {
    if c.is_ascii() { (' '..='~').contains(&c) } else { !NOT_PRINTABLE.has(c) }
}

pub(crate) fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    let starts = |c: char| if c.is_ascii() { c.is_ascii_alphabetic() || c == '_' } else { WORD_START.has(c) };
    let goes_on =
        |c: char| if c.is_ascii() { c.is_ascii_alphanumeric() || c == '_' } else { WORD_GOES_ON.has(c) };
    chars.next().is_some_and(starts) && chars.all(goes_on)
}

/// The value of a decimal digit of any script.
pub(crate) fn decimal_value(c: char) -> Option<u32> {
    if c.is_ascii() {
        return c.to_digit(10);
    }
    if !is_decimal(c) {
        return None;
    }
    // Decimal digits come in runs of ten, from 0 to 9; several runs may follow each other.
    let before = (1..=60).take_while(|back| {
        char::from_u32(u32::from(c) - back).is_some_and(|before| !before.is_ascii() && is_decimal(before))
    });
    Some(before.count() as u32 % 10)
}

/// Python's `casefold` of one character.
pub(crate) fn casefold(c: char, out: &mut String) {
    match c {
        // Cherokee folds to upper case; the dotless i to itself.
        '\u{131}' | '\u{13a0}'..='\u{13f5}' => out.push(c),
        '\u{13f8}'..='\u{13fd}' | '\u{ab70}'..='\u{abbf}' => out.extend(c.to_uppercase()),
        'ẞ' => out.push_str("ss"),
        c => out.extend(c.to_uppercase().flat_map(char::to_lowercase)),
    }
}

/// The character in title case, which for a few letters differs from upper case.
pub(crate) fn titlecase(c: char, out: &mut String) {
    match c {
        'Ǆ' | 'ǅ' | 'ǆ' => out.push('ǅ'),
        'Ǉ' | 'ǈ' | 'ǉ' => out.push('ǈ'),
        'Ǌ' | 'ǋ' | 'ǌ' => out.push('ǋ'),
        'Ǳ' | 'ǲ' | 'ǳ' => out.push('ǲ'),
        // Georgian has no title case.
        '\u{10d0}'..='\u{10fa}' | '\u{10fd}'..='\u{10ff}' => out.push(c),
        'ŉ' => out.push_str("ʼN"),
        // Greek letters with an iota below have their own title case.
        '\u{1f80}'..='\u{1faf}' => out.extend(char::from_u32(u32::from(c) | 8)),
        'ᾳ' | 'ᾼ' => out.push('ᾼ'),
        'ῃ' | 'ῌ' => out.push('ῌ'),
        'ῳ' | 'ῼ' => out.push('ῼ'),
        c => {
            let mut upper = c.to_uppercase();
            out.extend(upper.next());
            // In title case `ß` is `Ss` and `ﬃ` is `Ffi`; other iotas stay below.
            let is_iota = |after: char| after == 'Ι' && ('\u{1f00}'..='\u{1fff}').contains(&c);
            for after in upper {
                if is_iota(after) { out.push('\u{345}') } else { out.extend(after.to_lowercase()) }
            }
        }
    }
}

/// Has the letter a lower and an upper case?
pub(crate) fn is_cased(c: char) -> bool {
    c.is_lowercase() || c.is_uppercase() || is_title(c)
}
