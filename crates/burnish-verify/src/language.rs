//! Which of MGSM's eleven languages is a text in?
//!
//! A language's share of the *weight* of a text's words decides:
//!
//! 1. Numbers, LaTeX (commands with their braces, `\(..\)`, `\[..\]`, `$..$`), code between backticks, tags, single
//!    letters and words with digits in them belong to no language.
//! 2. Outside of the Latin script, every letter is evidence for the language of its script; each script has one. Han is
//!    Japanese in a sentence with kana, Chinese in one with a sign that only Chinese has, and otherwise the language of
//!    the other sentences.
//! 3. The Latin words of a sentence are evidence for the language that knows most of them: its function words, and
//!    words in no list that have a letter of its own (`ß`, `ñ`, `ç`). If two languages know equally many, or the best
//!    knows fewer than one in eight, the words are names, units or fragments, and count for no language.
//! 4. A letter weighs 1, kana 2 and Han 3, so that a sentence weighs about the same in every language.
//!
//! [`Finding::is_in`] asks for four fifths of the weight: some foreign words are no drift, one foreign sentence in four
//! is. A quotation counts as the language that it is in. A text without evidence (only digits and formulas) is
//! *undecided* and in no language: an answer that leaves out all words has not kept to a language, and must not be
//! rewarded for it.
//!
//! This is our own code because no small crate does it. whatlang and whichlang do not know Swahili (whichlang does not
//! know Bengali, Telugu and Thai either); lingua needs 23 crates that burnish does not have, most of them with its
//! language models; and none of them knows formulas or says how much of a text is in which language.
//! `docs/verifiers.md` compares figures with theirs.
//!
//! Limits: scripts stand for the one language of MGSM that they write (Ukrainian is taken for Russian, Assamese for
//! Bengali); other languages in the Latin script are recognised only by letters that none of the five has.

mod text;

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use text::prose;

/// A language of MGSM (arXiv:2210.03057).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Language {
    #[serde(rename = "bn")]
    Bengali,
    #[serde(rename = "de")]
    German,
    #[serde(rename = "en")]
    English,
    #[serde(rename = "es")]
    Spanish,
    #[serde(rename = "fr")]
    French,
    #[serde(rename = "ja")]
    Japanese,
    #[serde(rename = "ru")]
    Russian,
    #[serde(rename = "sw")]
    Swahili,
    #[serde(rename = "te")]
    Telugu,
    #[serde(rename = "th")]
    Thai,
    #[serde(rename = "zh")]
    Chinese,
}

use Language::{
    Bengali, Chinese, English, French, German, Japanese, Russian, Spanish, Swahili, Telugu, Thai,
};

impl Language {
    /// All of them, by code.
    pub const ALL: [Language; 11] =
        [Bengali, German, English, Spanish, French, Japanese, Russian, Swahili, Telugu, Thai, Chinese];

    /// Its code (ISO 639-1), as in the names of MGSM's files.
    pub fn code(self) -> &'static str {
        match self {
            Bengali => "bn",
            German => "de",
            English => "en",
            Spanish => "es",
            French => "fr",
            Japanese => "ja",
            Russian => "ru",
            Swahili => "sw",
            Telugu => "te",
            Thai => "th",
            Chinese => "zh",
        }
    }

    /// The language with this code.
    pub fn of(code: &str) -> Option<Self> {
        Language::ALL.into_iter().find(|language| language.code() == code)
    }
}

/// Share of a text's weight that must be in a language for the text to be in it.
pub const SHARE: f64 = 0.8;

/// Of this many Latin words of a sentence, at least one must be known to its language.
const KNOWN: usize = 8;

/// Index of the weight that is in a language, but in none of the eleven.
const OTHER: usize = Language::ALL.len();

/// The languages of the Latin script.
const LATIN: [Language; 5] = [German, English, Spanish, French, Swahili];

/// Function words of the languages of [`LATIN`], and words that are frequent in solutions. A word of several languages
/// is listed with each of them. Single letters are left out, because formulas have them too.
const WORDS: [&str; 5] = [
    "der die das den dem des ein eine einen einem einer eines und oder aber auch als am an auf aus bei beim bis da damit \
     dann dass daher durch er sie es wir ich ihr ihre ihren ihrem ihrer sein seine seinen seinem für gibt hat hatte haben \
     ist im in insgesamt also jede jeden jeder jedes jedem kann kostet man mal mehr mit nach nicht noch nur nun pro sich \
     sind so um und uns über unter viel viele vom von vor war waren was weil wenn werden wie wird wurde zu zum zur zwei \
     drei vier danach antwort schritt zuerst müssen beträgt welche welcher welches welchen welchem wer wen wem wann wo warum \
     wieso weshalb wozu wofür worauf woran wovon",
    "the of and to in is it that for was on are as with his they at be this have has from or had by but not all were \
     we when your can there an each which she he do does how their if will would up other about out many much then them \
     these those so some her him into than been who its no my per every after before because since therefore also first \
     next let us need left more could should while you our answer step did get got only just how \
     what why whom whose",
    "el la los las de del un una unos unas en que es por para con su sus se al lo como más pero no si cuánto cuántos \
     cuánta cuántas cada todo todos toda todas entonces luego después antes son fue era ha han hay tiene tienen está \
     están cuando entre también muy dos tres cuatro este esta estos estas ese esa eso le les nos qué ella él ellos ellas \
     durante sobre sin hasta desde hace ya donde dónde porque quién quiénes cuál cuáles \
     según hacia mientras respuesta paso día días me mi",
    "le la les de des du un une et est en que qui dans pour par sur au aux avec ce cet cette ces il elle ils elles on ne \
     pas plus sont son sa ses leur leurs se nous vous je tu mais ou où si comme combien chaque tous tout toute toutes donc \
     alors puis ensuite deux trois quatre fait été avoir être avait ont reste peut après avant quand entre même aussi \
     fois jour jours réponse étape nombre faut me no",
    "ya wa na kwa ni za la katika kila kama ngapi au lakini yake wake zake lake chake vyake wao yao huyo hiyo hizo hii \
     hizi hili hilo huu huo ambayo ambao ambaye ambazo ana wana ina kuna kiasi jumla sana pia kisha baada kabla kwamba \
     hivyo yeye sisi mimi mbili tatu nne mara siku cha vya watu nusu zaidi kati basi ikiwa alikuwa ilikuwa walikuwa \
     kuwa pamoja hadi jibu hatua sasa tu bado ile yule moja mmoja wote yote zote nyingine kutoka kwanza hivi si",
];

/// Letters that one of [`LATIN`] has and the others do not have, or hardly ever; `é` belongs to two.
const LETTERS: [&str; 5] = ["äöüß", "", "áíóúñé", "àâçèéêëîïôùûœ", ""];

/// Signs of simplified or traditional Chinese that Japanese does not have.
const CHINESE: &str = "这们个吗么还为她它呢从对给让样总计几两岁说问买卖钱你您吧啊谁哪怎时间块张场页车价费头过开剩這們嗎麼從對讓樣總兩說錢歲沒";

/// Which of [`LATIN`] know a word; one bit each.
static KNOWN_BY: LazyLock<HashMap<&str, u8>> = LazyLock::new(|| {
    let mut known = HashMap::new();
    for (index, words) in WORDS.iter().enumerate() {
        for word in words.split_whitespace() {
            *known.entry(word).or_default() |= 1 << index;
        }
    }
    known
});

/// What was found in a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finding {
    /// By the index in [`Language::ALL`]; the last one is for all other languages together.
    weights: [u64; OTHER + 1],
}

impl Finding {
    fn weight(&self) -> u64 {
        self.weights.iter().sum()
    }

    /// Is there any evidence?
    pub fn is_decided(&self) -> bool {
        self.weight() > 0
    }

    /// The language with the largest share; of equal ones, the first by code. `None` if the text is undecided, or if
    /// most of it is in none of the eleven languages.
    pub fn language(&self) -> Option<Language> {
        let most = self.weights.iter().copied().max().filter(|most| *most > 0)?;
        Language::ALL
            .into_iter()
            .zip(self.weights)
            .find(|(_, weight)| *weight == most)
            .map(|(language, _)| language)
    }

    /// The language's share of the weight of the text, 0 to 1; 0 if the text is undecided.
    pub fn share(&self, language: Language) -> f64 {
        self.weights[language as usize] as f64 / self.weight().max(1) as f64
    }

    /// Is the text in this language, that is, at least [`SHARE`] of its weight?
    pub fn is_in(&self, language: Language) -> bool {
        self.share(language) >= SHARE
    }

    /// The code of [`Finding::language`]; `other` or `undecided` if there is none.
    pub fn name(&self) -> &'static str {
        match self.language() {
            Some(language) => language.code(),
            None if self.is_decided() => "other",
            None => "undecided",
        }
    }
}

/// Which language is a text in? See the head of this file.
pub fn identify(text: &str) -> Finding {
    let mut finding = Finding::default();
    // Weight of Han in sentences that may be Japanese or Chinese.
    let mut open = 0;
    for sentence in sentences(&prose(text)) {
        let words = Words::of(sentence);
        for (weight, more) in finding.weights.iter_mut().zip(words.weights) {
            *weight += more;
        }
        if let Some(index) = words.latin_language() {
            finding.weights[index] += words.latin_letters;
        }
        let han = 3 * words.han;
        match (words.has_kana, words.is_chinese) {
            (true, _) => finding.weights[Japanese as usize] += han,
            (false, true) => finding.weights[Chinese as usize] += han,
            (false, false) => open += han,
        }
    }
    let is_japanese = finding.weights[Japanese as usize] > finding.weights[Chinese as usize];
    finding.weights[if is_japanese { Japanese } else { Chinese } as usize] += open;
    finding
}

/// The words of a sentence.
#[derive(Default)]
struct Words {
    /// Weight by language in scripts that decide by themselves, kana included.
    weights: [u64; OTHER + 1],
    han: u64,
    has_kana: bool,
    is_chinese: bool,
    /// Latin words, and their letters.
    latin: usize,
    latin_letters: u64,
    /// Latin words known to each of [`LATIN`]; the last count is of words with a letter that none of them has.
    known: [usize; LATIN.len() + 1],
}

/// What a letter says about its language.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Script {
    Latin,
    Han,
    Kana,
    /// A language's own script, whose letters count one by one.
    Of(Language),
    /// A script whose letters formulas use too, so only words count.
    Spaced(usize),
}

fn script(c: char) -> Option<Script> {
    if !c.is_alphabetic() {
        return None;
    }
    Some(match u32::from(c) {
        0x41..=0x7A | 0xC0..=0x24F | 0x1E00..=0x1EFF => Script::Latin,
        0x400..=0x52F => Script::Spaced(Russian as usize),
        0x980..=0x9FF => Script::Of(Bengali),
        0xC00..=0xC7F => Script::Of(Telugu),
        0xE00..=0xE7F => Script::Of(Thai),
        0x3041..=0x3096 | 0x30A1..=0x30FA => Script::Kana,
        0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x323AF => Script::Han,
        // Letters of formulas, and marks.
        0xAA..=0xBA | 0x2B0..=0x36F | 0x1D2C..=0x1D7F | 0x2070..=0x24FF | 0x3005..=0x30FF => return None,
        0xFF00..=0xFFEF | 0x1D400..=0x1D7FF => return None,
        _ => Script::Spaced(OTHER),
    })
}

impl Words {
    fn of(sentence: &str) -> Self {
        let mut words = Words::default();
        // The current run of letters of one script, and the character before it.
        let (mut letters, mut run, mut before) = (String::new(), None, ' ');
        let mut previous = ' ';
        for c in sentence.chars().filter(|c| !matches!(*c, '\u{300}'..='\u{36F}')).chain([' ']) {
            let script = script(c);
            if script != run {
                words.add(run, &letters, [before, c]);
                letters.clear();
                (run, before) = (script, previous);
            }
            match script {
                None => {}
                Some(Script::Latin | Script::Spaced(_)) => letters.push(c),
                Some(Script::Of(language)) => words.weights[language as usize] += 1,
                Some(Script::Kana) => {
                    words.has_kana = true;
                    words.weights[Japanese as usize] += 2;
                }
                Some(Script::Han) => {
                    words.han += 1;
                    words.is_chinese |= CHINESE.contains(c);
                }
            }
            previous = c;
        }
        words
    }

    /// Adds a run of letters if it is a word: more than one letter, and not next to a digit.
    fn add(&mut self, script: Option<Script>, letters: &str, around: [char; 2]) {
        let count = letters.chars().count();
        if count < 2 || around.iter().any(|c| c.is_numeric() || *c == '_') {
            return;
        }
        if let Some(Script::Spaced(language)) = script {
            self.weights[language] += count as u64;
            return;
        }
        self.latin += 1;
        self.latin_letters += count as u64;
        let word = letters.to_lowercase();
        let by = KNOWN_BY.get(word.as_str());
        for (index, own) in LETTERS.iter().enumerate() {
            let is_known = by.map_or_else(|| word.contains(|c| own.contains(c)), |by| by & 1 << index != 0);
            self.known[index] += usize::from(is_known);
        }
        let is_foreign = |c: char| !c.is_ascii() && !LETTERS.iter().any(|own| own.contains(c));
        self.known[LATIN.len()] += usize::from(word.contains(is_foreign));
    }

    /// The language of the Latin words, as an index of weights.
    fn latin_language(&self) -> Option<usize> {
        let (best, most) = self.known.iter().copied().enumerate().max_by_key(|(_, known)| *known)?;
        let is_only = self.known.iter().filter(|known| **known == most).count() == 1;
        let is_dense = most > 0 && most * KNOWN >= self.latin;
        (is_only && is_dense).then(|| LATIN.get(best).map_or(OTHER, |language| *language as usize))
    }
}

/// The sentences of a text: each goes up to a line break, or to a stop followed by space.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut chars = rest.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let is_last = chars.peek().is_none_or(|(_, next)| next.is_whitespace());
            let is_end =
                matches!(c, '\n' | '。' | '！' | '？' | '।') || (matches!(c, '.' | '!' | '?') && is_last);
            if is_end {
                let (sentence, after) = rest.split_at(at + c.len_utf8());
                rest = after;
                return Some(sentence);
            }
        }
        Some(std::mem::take(&mut rest)).filter(|sentence| !sentence.is_empty())
    })
}
