//! `{a \over b}` and `{n \choose k}`: in TeX both take all that is in the group around them.

use crate::lex::{Bracket, Token};

/// The tokens with `\over` as `\frac` and `\choose` as `\binom`. `None` where a group holds two of them.
pub(crate) fn prefixed(mut tokens: Vec<Token>) -> Option<Vec<Token>> {
    while let Some(at) = tokens.iter().position(is_infix) {
        let (before, after) = (&tokens[..at], &tokens[at + 1..]);
        let open = bracket(before.iter().rev(), is_close, is_open).map(|back| at - 1 - back);
        let close = bracket(after.iter(), is_open, is_close).map(|ahead| at + 1 + ahead);
        let (first, end) = (open.map_or(0, |open| open + 1), close.unwrap_or(tokens.len()));
        if open.is_some() != close.is_some() {
            return None;
        }
        let (opened, closed) = (Token::Open(Bracket::Group), Token::Close(Bracket::Group));
        let command = if tokens[at] == Token::Over { Token::Frac } else { Token::Binomial };
        let mut prefix = vec![command, opened.clone()];
        prefix.extend_from_slice(&tokens[first..at]);
        prefix.extend([closed.clone(), opened.clone()]);
        let bottom = &tokens[at + 1..end];
        if bracket(bottom.iter(), is_open, is_infix).is_some() {
            return None;
        }
        prefix.extend_from_slice(bottom);
        prefix.push(closed);
        // The group itself is used up; other brackets stay.
        let group = usize::from(open.is_some_and(|open| tokens[open] == opened));
        tokens.splice(first - group..end + group, prefix);
    }
    Some(tokens)
}

fn is_infix(token: &Token) -> bool {
    matches!(token, Token::Over | Token::Choose)
}

fn is_open(token: &Token) -> bool {
    matches!(token, Token::Open(_))
}

fn is_close(token: &Token) -> bool {
    matches!(token, Token::Close(_))
}

/// Where the first token that `is_wanted` is, outside of the brackets that `is_inner` begins.
fn bracket<'t>(
    tokens: impl Iterator<Item = &'t Token>,
    is_inner: fn(&Token) -> bool,
    is_wanted: fn(&Token) -> bool,
) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, token) in tokens.enumerate() {
        if depth == 0 && is_wanted(token) {
            return Some(index);
        }
        if is_inner(token) {
            depth += 1;
        } else if matches!(token, Token::Open(_) | Token::Close(_)) {
            depth = depth.saturating_sub(1);
        }
    }
    None
}
