//! Every reference of GSM8K, MATH-500, MGSM and TAT-QA is accepted against itself and against rewritings of itself; 200
//! perturbed answers per set are rejected. A perturbed answer differs by construction (another integer, another word,
//! another bracket), not by a decision of the verifier's code.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use burnish_verify::{Gold, Verifier};
use common::Dice;
use common::rewritings::{
    grouped, integer_perturbations, integer_rewritings, latex_perturbations, latex_rewritings, plain_number,
};

/// Counts of one set, and what went wrong.
#[derive(Default)]
struct Report {
    golds: usize,
    rewritten: usize,
    rejected: usize,
    faults: Vec<String>,
}

impl Report {
    fn gold(&mut self, verifier: Verifier, reference: &str) -> Option<Gold> {
        self.golds += 1;
        match verifier.gold(reference) {
            Ok(gold) => Some(gold),
            Err(error) => {
                self.faults.push(error.to_string());
                None
            }
        }
    }

    fn accepts(&mut self, gold: &Gold, reference: &str, response: &str) {
        self.rewritten += 1;
        let judgement = gold.judge(response);
        if !judgement.is_correct {
            self.faults.push(format!("{reference:?} rejects {response:?}: {judgement:?}"));
        }
    }

    fn rejects(&mut self, gold: &Gold, reference: &str, response: &str) {
        self.rejected += 1;
        let judgement = gold.judge(response);
        if judgement.is_correct {
            self.faults.push(format!("{reference:?} accepts {response:?}: {judgement:?}"));
        }
    }

    fn finish(&self, name: &str, golds: usize) {
        println!(
            "{name}: {} references, {} rewritings accepted, {} perturbed rejected, {} faults",
            self.golds,
            self.rewritten,
            self.rejected,
            self.faults.len()
        );
        assert!(self.faults.is_empty(), "{name}:\n{}", self.faults.join("\n"));
        assert_eq!(self.golds, golds, "{name}");
        assert!(self.rejected >= 200, "{name}");
    }
}

fn integers(report: &mut Report, golds: &[String], phrase: Option<&str>) {
    for (index, reference) in golds.iter().enumerate() {
        let n: i64 = reference.replace(',', "").parse().unwrap();
        let Some(gold) = report.gold(Verifier::Number, reference) else { continue };
        report.accepts(&gold, reference, reference);
        for response in integer_rewritings(n) {
            report.accepts(&gold, reference, &response);
        }
        if let Some(phrase) = phrase {
            report.accepts(&gold, reference, &format!("1 + 1 = 2. {phrase} {}.", grouped(n)));
        }
        if index % 6 == 0 {
            for response in integer_perturbations(n, &mut Dice(index as u64)) {
                report.rejects(&gold, reference, &response);
            }
        }
    }
}

#[test]
fn gsm8k() {
    let Some(data) = common::shared("gsm8k") else { return };
    let golds: Vec<String> = common::lines(&data.join("test.jsonl"))
        .iter()
        .map(|row| row["answer"].as_str().unwrap().rsplit("####").next().unwrap().trim().to_owned())
        .collect();
    let mut report = Report::default();
    integers(&mut report, &golds, None);
    // The worked solutions of the set itself end in `#### N`.
    for (row, reference) in common::lines(&data.join("test.jsonl")).iter().zip(&golds) {
        let gold = Verifier::Number.gold(reference).unwrap();
        report.accepts(&gold, reference, row["answer"].as_str().unwrap());
        // The `math` verifier reads numbers in the same way.
        let gold = Verifier::Math.gold(reference).unwrap();
        report.accepts(&gold, reference, row["answer"].as_str().unwrap());
    }
    report.finish("gsm8k", 1319);
}

#[test]
fn mgsm() {
    let Some(data) = common::shared("mgsm") else { return };
    let phrases = [
        ("bn", "উত্তর হল"),
        ("de", "Die Antwort ist"),
        ("en", "The answer is"),
        ("es", "La respuesta es"),
        ("fr", "La réponse est"),
        ("ja", "答えは"),
        ("ru", "Ответ —"),
        ("sw", "Jibu ni"),
        ("te", "సమాధానం"),
        ("th", "คำตอบคือ"),
        ("zh", "答案是"),
    ];
    let mut report = Report::default();
    for (language, phrase) in phrases {
        let text = std::fs::read_to_string(data.join(format!("mgsm_{language}.tsv"))).unwrap();
        let golds: Vec<String> =
            text.lines().map(|line| line.rsplit('\t').next().unwrap().trim().to_owned()).collect();
        integers(&mut report, &golds, Some(phrase));
    }
    report.finish("mgsm", 11 * 250);
}

#[test]
fn math500() {
    let Some(data) = common::shared("math500") else { return };
    let mut report = Report::default();
    for (index, row) in common::lines(&data.join("math500.jsonl")).iter().enumerate() {
        let reference = row["answer"].as_str().unwrap();
        let Some(gold) = report.gold(Verifier::Math, reference) else { continue };
        report.accepts(&gold, reference, reference);
        for response in latex_rewritings(reference) {
            report.accepts(&gold, reference, &response);
        }
        if let Some((top, bottom)) = plain_number(reference) {
            // Fractions and decimals of the same value.
            report.accepts(&gold, reference, &format!("\\boxed{{\\frac{{{}}}{{{}}}}}", 6 * top, 6 * bottom));
            report.accepts(&gold, reference, &format!("The answer is {}/{}", 3 * top, 3 * bottom));
            if [1, 2, 4, 5, 10, 100, 1000].contains(&bottom) {
                let thousandths = top * (1000 / bottom);
                let sign = if thousandths < 0 { "-" } else { "" };
                let (whole, part) = (thousandths.abs() / 1000, thousandths.abs() % 1000);
                report.accepts(&gold, reference, &format!("\\boxed{{{sign}{whole}.{part:03}}}"));
            }
        }
        for response in latex_perturbations(reference, &mut Dice(index as u64)) {
            report.rejects(&gold, reference, &response);
        }
    }
    // The worked solutions of the set itself.
    for row in common::lines(&data.join("math_lvl3to5_eval.jsonl")) {
        let reference = row["gt_answer"].as_str().unwrap();
        let gold = Verifier::Math.gold(reference).unwrap();
        report.accepts(&gold, reference, row["output"].as_str().unwrap());
    }
    report.finish("math500", 500);
}

/// An item of text rewritten without its words changing.
fn text_rewritings(text: &str) -> Vec<String> {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join("  ");
    let mut responses = vec![
        text.to_uppercase(),
        text.to_lowercase(),
        one_line.clone(),
        format!("<answer>\n{text}\n</answer>"),
        format!("The table says so.\nThe answer is {one_line}."),
        format!("Final answer: \"{one_line}\""),
    ];
    if !text.contains(['{', '}', '\\']) {
        responses.push(format!("So it is \\boxed{{\\text{{{one_line}}}}}."));
    }
    responses
}

#[test]
fn tatqa() {
    let Some(data) = common::shared("tatqa") else { return };
    let mut report = Report::default();
    let mut dice = Dice(7);
    for file in ["tatqa_dataset_dev.json.gz", "tatqa_dataset_test_gold.json.gz"] {
        let contexts = common::gzipped(&data.join(file));
        for question in contexts.as_array().unwrap().iter().flat_map(|c| c["questions"].as_array().unwrap()) {
            let scale = question["scale"].as_str().unwrap();
            let kind = question["answer_type"].as_str().unwrap();
            let answer = &question["answer"];
            let spans: Vec<String> = match answer {
                serde_json::Value::Array(spans) => {
                    spans.iter().map(|span| span.as_str().unwrap().to_owned()).collect()
                }
                serde_json::Value::String(text) => vec![text.clone()],
                number => vec![number.to_string()],
            };
            let perturb = report.golds % 12 == 0;
            match (kind, &spans[..]) {
                ("arithmetic" | "count", [number]) => scaled_number(&mut report, number, scale, perturb),
                // Faults of the set: a span that already states its scale has it a second time, and a span of words has
                // a scale.
                ("span", [span]) if span.contains("illion") => {
                    text_span(&mut report, span, perturb, &mut dice)
                }
                ("span", [span]) if !scale.is_empty() && span.contains(|c: char| c.is_ascii_digit()) => {
                    scaled_number(&mut report, span, scale, perturb);
                }
                ("span", [span]) => text_span(&mut report, span, perturb, &mut dice),
                _ => spans_list(&mut report, &spans, scale, perturb),
            }
        }
    }
    report.finish("tatqa", 1668 + 1663);
}

/// A number with its scale: `1,496.5` and `million`.
fn scaled_number(report: &mut Report, number: &str, scale: &str, perturb: bool) {
    let reference = format!("{number} {scale}").trim().to_owned();
    let Some(gold) = report.gold(Verifier::Number, &reference) else { return };
    // The plain digits, by string operations alone.
    let is_negative = number.contains(['-', '−', '(']);
    let digits: String = number.chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
    let (whole, decimals) = digits.split_once('.').unwrap_or((&digits, ""));
    let sign = if is_negative { "-" } else { "" };
    let with_commas = format!("{sign}{}", grouped(whole.parse().unwrap()));
    let with_commas =
        if decimals.is_empty() { with_commas.clone() } else { format!("{with_commas}.{decimals}") };
    let padded = if decimals.is_empty() { format!("{sign}{whole}.0") } else { format!("{sign}{digits}00") };
    let word = match scale {
        "percent" => "%",
        other => other,
    };
    let expanded = match scale {
        "thousand" => format!("{sign}{whole}{decimals:0<3}"),
        "million" => format!("{sign}{whole}{decimals:0<6}"),
        "billion" => format!("{sign}{whole}{decimals:0<9}"),
        _ => format!("{sign}{digits}"),
    };
    for response in [
        reference.clone(),
        format!("\\boxed{{{sign}{digits} \\text{{ {scale}}}}}"),
        format!("It changed a lot from 2018 to 2019.\nThe answer is {with_commas} {word}."),
        format!("<answer>{padded} {scale}</answer>"),
        format!("**Answer**: {sign}${digits} {scale}"),
        format!("Therefore the total is \\({expanded}\\)."),
        format!("#### {with_commas} {word}"),
    ] {
        report.accepts(&gold, &reference, &response);
    }
    if perturb {
        // The digits differ in number or in the last place.
        let last = digits.chars().last().unwrap().to_digit(10).unwrap();
        let other = format!("{}{}", &digits[..digits.len() - 1], (last + 1) % 10);
        report.rejects(&gold, &reference, &format!("The answer is {sign}{other} {scale}"));
        report.rejects(&gold, &reference, &format!("\\boxed{{{sign}1{digits} \\text{{ {scale}}}}}"));
        report.rejects(&gold, &reference, &format!("The answer is {sign}{digits} or {sign}{other} {scale}"));
        if digits.contains(|c: char| c.is_ascii_digit() && c != '0') {
            report.rejects(&gold, &reference, &format!("The answer is {sign}{digits} trillion"));
            let flipped = if is_negative { digits.clone() } else { format!("-{digits}") };
            report.rejects(&gold, &reference, &format!("<answer>{flipped} {scale}</answer>"));
        }
    }
}

fn text_span(report: &mut Report, span: &str, perturb: bool, dice: &mut Dice) {
    let Some(gold) = report.gold(Verifier::Text, span) else { return };
    report.accepts(&gold, span, span);
    for response in text_rewritings(span) {
        report.accepts(&gold, span, &response);
    }
    if perturb {
        report.rejects(&gold, span, &format!("<answer>not {span}</answer>"));
        report.rejects(&gold, span, &format!("{span} unchanged"));
        report.rejects(&gold, span, &format!("The answer is {span} or nothing."));
        report.rejects(&gold, span, &format!("{span} {span}"));
        // One word replaced by another that occurs in no answer.
        let mut words: Vec<&str> = span.split_whitespace().collect();
        let at = dice.below(words.len() as u64) as usize;
        words[at] = "zyx";
        report.rejects(&gold, span, &words.join(" "));
    }
}

fn spans_list(report: &mut Report, spans: &[String], scale: &str, perturb: bool) {
    let items: Vec<String> = spans
        .iter()
        .filter(|span| !span.is_empty())
        .map(|span| format!("{span} {scale}").trim().to_owned())
        .collect();
    let reference = serde_json::to_string(&items).unwrap();
    let Some(gold) = report.gold(Verifier::Text, &reference) else { return };
    let mut reversed = items.clone();
    reversed.reverse();
    let bulleted = items.iter().map(|item| format!("- {item}\n")).collect::<String>();
    for response in [
        items.join(", "),
        reversed.join("; "),
        items.join(" and "),
        format!("<answer>\n{bulleted}</answer>"),
        format!("The answer is {}.", reversed.join(", ").split_whitespace().collect::<Vec<_>>().join(" ")),
        items.join("\n").to_uppercase(),
    ] {
        report.accepts(&gold, &reference, &response);
    }
    if perturb {
        report.rejects(&gold, &reference, &items[1..].join(", "));
        report.rejects(&gold, &reference, &format!("{}, something else", items.join(", ")));
        report.rejects(&gold, &reference, &format!("{}, {}", items.join(", "), items[0]));
    }
}
