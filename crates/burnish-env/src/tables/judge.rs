//! The verdict on a plan.

use burnish_core::Verdict;

use super::config::Component;
use super::execute::execute;
use super::plan::Plan;
use super::truth::Truth;

/// Judges the text of an answer.
///
/// Success is that the executor's answer is right; of a real table, that the plan is the proxy. Flags: `parse_error` (the
/// text is no plan), `exact` (the plan is the gold plan), `no_answer` (the plan has no answer); of a real table
/// `parse_error` and `proxy_exact`.
pub(super) fn judge(truth: &Truth, answer: &str, rewards: &[Component]) -> Verdict {
    let is_proxy = truth.is_proxy();
    let (rows, columns) = truth.size();
    let plan = Plan::parse(answer, rows, columns);
    let mask_f1 = plan.as_ref().map_or(0.0, |plan| plan.mask_f1(&truth.gold));
    let is_exact = plan.as_ref() == Ok(&truth.gold);
    let found = plan.as_ref().map_err(ToString::to_string).and_then(|plan| {
        // Nothing can be executed that says what a real question asks for.
        if is_proxy {
            Ok(String::new())
        } else {
            execute(plan, &truth.table).map_err(|error| error.to_string())
        }
    });
    let is_right = !is_proxy && found.as_ref() == Ok(&truth.answer);
    let success = if is_proxy { is_exact } else { is_right };
    let value = |component: &Component| match component {
        Component::Answer => f64::from(u8::from(is_right)),
        Component::MaskF1 => mask_f1,
        Component::Plan => f64::from(u8::from(is_exact)),
    };
    let flags = match is_proxy {
        true => vec![("parse_error", plan.is_err()), ("proxy_exact", is_exact)],
        false => vec![("parse_error", plan.is_err()), ("exact", is_exact), ("no_answer", found.is_err())],
    };
    let feedback = match found {
        _ if success => None,
        Err(problem) => Some(problem),
        Ok(_) if is_proxy => Some(format!("F1 of its cells against the proxy is {mask_f1:.2}.")),
        Ok(found) => Some(format!("The plan answers {found}, which is wrong.")),
    };
    Verdict {
        rewards: rewards.iter().map(|one| (one.name(is_proxy).to_owned(), value(one))).collect(),
        flags: flags.into_iter().map(|(name, is_set)| (name.to_owned(), is_set)).collect(),
        feedback,
        error_turn: (!success).then_some(0),
        ..Verdict::scored("", 0.0, success)
    }
}
