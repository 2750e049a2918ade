//! Other ways to write the references of GSM8K and MATH-500, and answers that differ from them by construction.

use super::Dice;

pub(crate) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0 { format!("-{text}") } else { text }
}

/// Other ways to give an integer.
pub(crate) fn integer_rewritings(n: i64) -> Vec<String> {
    vec![
        n.to_string(),
        grouped(n),
        format!("#### {n}"),
        format!("So that makes \\boxed{{{n}}}."),
        format!("First there are 3, then 17 more.\nThe answer is {}.", grouped(n)),
        format!("**Answer:** ${}", grouped(n)).replace("$-", "-$"),
        format!("\\[ 2 + x = \\boxed{{{n}.00}} \\]"),
        format!("<answer>{n} apples</answer>"),
        format!("The answer is \\(\\frac{{{}}}{{2}}\\).", 2 * n),
        format!("The answer is $x = {}$ dollars", grouped(n).replace(',', "{,}")),
        format!("The final answer to the question is **{n}.0**"),
        format!("He has 12 at first and 5 later. So he has {} marbles in all.", grouped(n)),
    ]
}

/// Other integers, in some of those ways.
pub(crate) fn integer_perturbations(n: i64, dice: &mut Dice) -> Vec<String> {
    let digits = n.unsigned_abs().to_string();
    let place = 10_i64.pow(u32::try_from(dice.below(digits.len() as u64)).unwrap());
    let others = [n + place, n - place, n * 10, n + 1 + dice.below(9) as i64, -n - 1, 2 * n + 1];
    let mut responses: Vec<String> = others
        .into_iter()
        .filter(|other| *other != n)
        .map(|other| integer_rewritings(other).swap_remove(dice.below(12) as usize))
        .collect();
    responses.push(format!("The answer is {n}.5"));
    responses.push(format!("The answer is {n} or {}", n + 1));
    responses.push(format!("\\boxed{{{n}}} or \\boxed{{{}}}", n + 1));
    responses.push(format!("It may be {n}, but the answer is {}.", n + 1));
    responses
}

/// Other ways to write a LaTeX answer.
pub(crate) fn latex_rewritings(reference: &str) -> Vec<String> {
    let fractions = if reference.contains("\\dfrac") {
        reference.replace("\\dfrac", "\\frac")
    } else {
        reference.replace("\\frac", "\\dfrac")
    };
    let spaced = ["+", "-", "=", "\\cup", "\\pi"]
        .iter()
        .fold(reference.to_owned(), |text, sign| text.replace(sign, &format!(" {sign} ")));
    let sized = if reference.contains("\\left") || reference.contains("\\{") {
        reference.replace("\\left", "").replace("\\right", "")
    } else {
        reference
            .replace('(', "\\left(")
            .replace(')', "\\right)")
            .replace('[', "\\left[")
            .replace(']', "\\right]")
    };
    vec![
        format!("Some words. \\boxed{{{reference}}}"),
        format!("We get 3 and 4. Thus the answer is ${reference}$."),
        format!("**Final Answer:**\n\n\\[\n\\boxed{{{fractions}}}\n\\]"),
        format!("\\boxed{{ {spaced} }}"),
        format!("\\[ {sized} \\]"),
        format!("<answer>\\( {} \\)</answer>", fractions.replace("\\dfrac", "\\tfrac")),
        format!("The final answer is: $\\displaystyle {reference}\\,.$"),
        format!("$x+1$ is one thing, but the answer is \\(\\boxed{{{spaced}}}\\), which is so."),
    ]
}

/// The value of `12`, `-3`, `.5`, `1,000` or `\frac{a}{b}`, as numerator and denominator.
pub(crate) fn plain_number(latex: &str) -> Option<(i64, i64)> {
    let text = latex.replace("\\!", "").replace("\\dfrac", "\\frac").replace(' ', "");
    let (sign, text) = text.strip_prefix('-').map_or((1, text.as_str()), |rest| (-1, rest));
    if let Some(rest) = text.strip_prefix("\\frac{") {
        let (top, bottom) = rest.strip_suffix('}')?.split_once("}{")?;
        return Some((sign * top.parse::<i64>().ok()?, bottom.parse().ok().filter(|b| *b != 0)?));
    }
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if whole.split(',').skip(1).any(|group| group.len() != 3) {
        return None;
    }
    let digits = format!("{}{decimals}", whole.replace(',', ""));
    Some((sign * digits.parse::<i64>().ok()?, 10_i64.pow(u32::try_from(decimals.len()).ok()?)))
}

/// Answers that are not `reference`.
pub(crate) fn latex_perturbations(reference: &str, dice: &mut Dice) -> Vec<String> {
    let mut responses = Vec::new();
    if let Some((top, bottom)) = plain_number(reference) {
        // Another digit in one place; counted only if the value, computed here, is different.
        let places: Vec<usize> =
            reference.match_indices(|c: char| c.is_ascii_digit()).map(|(at, _)| at).collect();
        let at = places[dice.below(places.len() as u64) as usize];
        let digit = char::from_digit(dice.below(10) as u32, 10).unwrap();
        let other = format!("{}{digit}{}", &reference[..at], &reference[at + 1..]);
        if let Some((other_top, other_bottom)) = plain_number(&other)
            && i128::from(top) * i128::from(other_bottom) != i128::from(other_top) * i128::from(bottom)
        {
            responses.push(format!("\\boxed{{{other}}}"));
        }
        responses.push(format!("The answer is ${reference} + 1$"));
        responses.push(format!("\\boxed{{{reference}, 77}}"));
        responses.push(format!("\\boxed{{{reference}\\pi}}").replace("\\boxed{0\\pi}", "\\boxed{1}"));
        return responses;
    }
    let is_scalar =
        !reference.contains([',', '=']) && !reference.contains("\\text") && !reference.contains("\\cup");
    let is_scalar = is_scalar
        && !reference.contains("\\mbox")
        && !reference.contains("matrix")
        && !reference.contains('_');
    if is_scalar && !reference.contains("\\pm") {
        responses.push(format!("\\boxed{{{reference} + 1}}"));
        responses.push(format!("\\boxed{{2({reference})}}"));
        responses.push(format!("\\boxed{{{reference} - \\frac{{1}}{{1000}}}}"));
    }
    if reference.contains("infty") || reference.contains('[') || reference.contains(']') {
        let swapped: String = reference
            .chars()
            .map(|c| match c {
                '(' => '[',
                '[' => '(',
                other => other,
            })
            .collect();
        responses.push(format!("\\boxed{{{swapped}}}"));
        responses.push("\\boxed{(-\\infty,\\infty)}".to_owned());
    }
    if reference.starts_with('(') && reference.ends_with(')') && !reference.contains("cup") {
        if reference.contains(',') {
            responses.push(format!("\\boxed{{{}, 0)}}", reference.trim_end_matches(')')));
        }
        responses.push(format!("\\boxed{{{reference} \\cup (1000, 1001)}}"));
    }
    if reference.contains("matrix") {
        responses.push(format!("\\boxed{{{}}}", reference.replace("\\\\", "\\\\ 0 \\\\")));
        responses.push(format!("\\boxed{{{}}}", reference.replace("\\begin{pmatrix}", "\\begin{pmatrix} 9")));
    }
    if reference.starts_with("\\text") {
        responses.push("The answer is \\text{none of these}.".to_owned());
        responses.push(format!("\\boxed{{not {reference}}}"));
    }
    responses
}
