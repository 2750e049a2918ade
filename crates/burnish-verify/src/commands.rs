//! LaTeX commands that are understood; any other makes an answer unreadable.

use crate::lex::{Bracket, Token};
use crate::syntax::{Constant, Function, Relation};

/// What a command does.
pub(crate) enum Command {
    Token(Token),
    /// Space, size or font: no meaning.
    Nothing,
    /// `\left`, `\right`: the bracket that follows counts, an invisible one is skipped.
    Delimiter,
    /// Its braced argument is skipped as well.
    Argument,
    /// `\begin`, `\end`.
    Environment(Token),
    /// `\text{...}`.
    Text,
}

/// Functions by name.
pub(crate) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "sin" => Function::Sin,
        "cos" => Function::Cos,
        "tan" | "tg" => Function::Tan,
        "cot" | "ctg" => Function::Cot,
        "sec" => Function::Sec,
        "csc" | "cosec" => Function::Csc,
        "arcsin" | "asin" => Function::Arcsin,
        "arccos" | "acos" => Function::Arccos,
        "arctan" | "atan" => Function::Arctan,
        "sinh" => Function::Sinh,
        "cosh" => Function::Cosh,
        "tanh" => Function::Tanh,
        "ln" => Function::Ln,
        "log" => Function::Log,
        "exp" => Function::Exp,
        "abs" => Function::Abs,
        _ => return None,
    })
}

/// Whether the content of `\text{...}` is words: more than one letter, or a letter that mathematics could not mean.
pub(crate) fn is_wordlike(content: &str) -> bool {
    let letters = content.chars().filter(|c| c.is_alphabetic()).count();
    letters > 1 || (letters == 1 && !content.chars().any(|c| c.is_ascii_digit()))
}

const GREEK: &[&str] = &[
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu",
    "nu", "xi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
];
const GREEK_LETTERS: &str = "αβγδεζηθικλμνξρστυφχψω";

/// Space, size, font: nothing that a value depends on.
const NOTHING: &[&str] = &[
    "displaystyle",
    "textstyle",
    "scriptstyle",
    "quad",
    "qquad",
    "thinspace",
    "enspace",
    "limits",
    "nolimits",
    "mathbf",
    "boldsymbol",
    "bm",
    "vec",
    "hat",
    "bar",
    "overline",
    "underline",
    "mathcal",
    "mathscr",
    "mathfrak",
    "mathop",
    "big",
    "Big",
    "bigg",
    "Bigg",
    "rm",
    "bf",
    "it",
    "boxed",
    "fbox",
    "ensuremath",
    "mathord",
    "mathstrut",
    "Large",
    "large",
    "small",
    "tiny",
    "tilde",
    "widehat",
    "overrightarrow",
    "mathbb",
    "bigl",
    "bigr",
    "Bigl",
    "Bigr",
];

/// The command `\name`.
pub(crate) fn command(name: &str) -> Option<Command> {
    if let Some(index) = GREEK.iter().position(|greek| *greek == name.trim_start_matches("var")) {
        return GREEK_LETTERS.chars().nth(index).map(|c| Command::Token(Token::Symbol(c.to_string())));
    }
    if let Some(function) = function(name) {
        return Some(Command::Token(Token::Function(function)));
    }
    if name == "ell" {
        return Some(Command::Token(Token::Symbol("l".to_owned())));
    }
    if NOTHING.contains(&name) {
        return Some(Command::Nothing);
    }
    Some(Command::Token(match name {
        "left" | "right" | "mleft" | "mright" | "middle" => return Some(Command::Delimiter),
        "hspace" | "phantom" | "hphantom" | "vphantom" | "label" | "tag" => return Some(Command::Argument),
        "begin" => return Some(Command::Environment(Token::Begin)),
        "end" => return Some(Command::Environment(Token::End)),
        "text" | "mbox" | "textbf" | "textit" | "textrm" | "textnormal" | "mathrm" | "mathit" | "mathsf"
        | "mathtt" | "operatorname" | "hbox" | "texttt" | "textsf" | "emph" => return Some(Command::Text),
        "frac" | "dfrac" | "tfrac" | "cfrac" | "nicefrac" | "sfrac" => Token::Frac,
        "over" => Token::Over,
        "choose" => Token::Choose,
        "binom" | "dbinom" | "tbinom" => Token::Binomial,
        "sqrt" => Token::Sqrt,
        "pi" => Token::Constant(Constant::Pi),
        "imath" => Token::Constant(Constant::I),
        "infty" => Token::Infinity,
        "cdot" | "times" | "ast" => Token::Times,
        "div" => Token::Divide,
        "pm" => Token::PlusMinus(true),
        "mp" => Token::PlusMinus(false),
        "circ" | "degree" => Token::Degree,
        "prime" => Token::Prime,
        "percent" => Token::Percent,
        "cup" | "bigcup" => Token::Union,
        "lor" | "vee" => Token::Or,
        "colon" => Token::Colon,
        "in" => Token::In,
        "eq" | "equiv" => Token::Relation(Relation::Equal),
        "approx" | "sim" | "simeq" => Token::Relation(Relation::Approx),
        "ne" | "neq" => Token::Relation(Relation::NotEqual),
        "lt" => Token::Relation(Relation::Less),
        "gt" => Token::Relation(Relation::Greater),
        "le" | "leq" | "leqslant" => Token::Relation(Relation::LessEqual),
        "ge" | "geq" | "geqslant" => Token::Relation(Relation::GreaterEqual),
        "lbrace" => Token::Open(Bracket::Set),
        "rbrace" => Token::Close(Bracket::Set),
        "lbrack" => Token::Open(Bracket::Square),
        "rbrack" => Token::Close(Bracket::Square),
        "langle" => Token::Open(Bracket::Angle),
        "rangle" => Token::Close(Bracket::Angle),
        "lfloor" => Token::Open(Bracket::Floor),
        "rfloor" => Token::Close(Bracket::Floor),
        "lceil" => Token::Open(Bracket::Ceiling),
        "rceil" => Token::Close(Bracket::Ceiling),
        "lvert" => Token::Open(Bracket::Bar),
        "rvert" => Token::Close(Bracket::Bar),
        "vert" | "mid" => Token::Bar,
        "emptyset" | "varnothing" => Token::Symbol("∅".to_owned()),
        "Gamma" => Token::Symbol("Γ".to_owned()),
        "Delta" | "triangle" => Token::Symbol("Δ".to_owned()),
        "Theta" => Token::Symbol("Θ".to_owned()),
        "Lambda" => Token::Symbol("Λ".to_owned()),
        "Sigma" => Token::Symbol("Σ".to_owned()),
        "Phi" => Token::Symbol("Φ".to_owned()),
        "Psi" => Token::Symbol("Ψ".to_owned()),
        "Omega" => Token::Symbol("Ω".to_owned()),
        "pounds" => Token::Currency(crate::units::currency('£')?),
        "euro" => Token::Currency(crate::units::currency('€')?),
        "dollar" => Token::Currency(crate::units::currency('$')?),
        _ => return None,
    }))
}
