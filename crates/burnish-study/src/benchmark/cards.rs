//! The named benchmarks.

use burnish_core::names::nearest;
use burnish_env::rows::{CodeConfig, Coded, VerifierConfig};
use burnish_env::timeqa::{INSTRUCTION, Input};
use burnish_verify::Verifier;

use super::played::PLAYED;
use burnish_run::RunError;

/// A benchmark: where its data comes from, how an item is put to the policy, and what judges the answers.
#[derive(Debug)]
pub struct Benchmark {
    /// Its name on the command line.
    pub name: &'static str,
    /// Name of its data folder.
    pub folder: &'static str,
    /// Its title, with the paper.
    pub title: &'static str,
    /// Where the data comes from.
    pub source: &'static str,
    /// Licence of the data.
    pub licence: &'static str,
    /// One part per language; a benchmark in one language has one part.
    pub parts: &'static [Part],
    /// The columns of the question and of the reference, in the variants in which the data is published. The first
    /// pair that the first row of a file has is read.
    pub columns: &'static [(&'static str, &'static str)],
    /// For files in TimeQA's format: what the policy reads besides the question. `None` for rows with the columns
    /// above.
    pub timeqa: Option<Input>,
    /// Columns by which results are broken down, if the file has them, each with the name of its label.
    pub labels: &'static [(&'static str, &'static str)],
    /// What judges.
    pub judge: Judge,
    /// Most tokens of an answer, unless the user gives another number.
    pub tokens_max: usize,
}

/// What judges the answers of a benchmark.
#[derive(Debug)]
pub enum Judge {
    /// A comparison with the reference.
    Verifier(Verifier),
    /// The program in the answer is run.
    Code(Tests),
}

/// The columns that say whether a program is right, and which rows are the benchmark.
#[derive(Debug)]
pub struct Tests {
    /// The tests.
    pub tests: &'static str,
    /// What is run before them.
    pub setup: Option<&'static str>,
    /// The name of the function.
    pub entry_point: Option<&'static str>,
    /// The beginning of the program.
    pub begin: Option<&'static str>,
    /// What introduces the tests in the prompt, behind the question; without it they are not shown.
    pub shown: Option<&'static str>,
    /// A column of numbers, and the first and last of those rows that are the test set.
    pub within: Option<(&'static str, u64, u64)>,
}

/// The part of a benchmark that is in one file.
#[derive(Debug)]
pub struct Part {
    /// The language, if the benchmark has several.
    pub language: Option<&'static str>,
    /// The names that the file may have in the data folder.
    pub files: &'static [&'static str],
    /// The text before the question, in the only user message of the prompt.
    pub before: &'static str,
    /// The text after the question.
    pub after: &'static str,
}

/// The wording that makers of mathematical models recommend.
const BOXED: &str = "\n\nPlease reason step by step, and put your final answer within \\boxed{}.";

/// A language of MGSM. Question and answer are introduced as in its few-shot examples, but without the examples.
const fn language(
    language: &'static str,
    files: &'static [&'static str],
    before: &'static str,
    after: &'static str,
) -> Part {
    Part { language: Some(language), files, before, after }
}

/// TimeQA's test questions with one kind of input.
const fn timeqa(name: &'static str, title: &'static str, input: Input) -> Benchmark {
    Benchmark {
        name,
        folder: "timeqa",
        title,
        source: "https://github.com/wenhuchen/Time-Sensitive-QA, dataset/human_annotated_test.json, packed with gzip or not",
        licence: "BSD-3-Clause",
        parts: &[Part {
            language: None,
            files: &["human_annotated_test.json", "human_annotated_test.json.gz"],
            before: "Context:\n",
            after: INSTRUCTION,
        }],
        columns: &[],
        timeqa: Some(input),
        labels: &[("answerable", "answerable"), ("relation", "relation")],
        judge: Judge::Verifier(Verifier::Abstention),
        tokens_max: 1024,
    }
}

/// Every benchmark.
pub const BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        name: "gsm8k",
        folder: "gsm8k",
        title: "GSM8K, test: grade-school word problems (Cobbe et al. 2021, arXiv:2110.14168)",
        source: "https://github.com/openai/grade-school-math, grade_school_math/data/test.jsonl",
        licence: "MIT",
        parts: &[Part { language: None, files: &["test.jsonl", "test.parquet"], before: "", after: BOXED }],
        columns: &[("question", "answer")],
        timeqa: None,
        labels: &[],
        judge: Judge::Verifier(Verifier::Number),
        tokens_max: 1024,
    },
    Benchmark {
        name: "math500",
        folder: "math500",
        title: "MATH-500: 500 problems of MATH's test set (Hendrycks et al. 2021, arXiv:2103.03874; \
                Lightman et al. 2023, arXiv:2305.20050)",
        source: "https://github.com/openai/prm800k, or as columns problem, answer, difficulty in \
                 https://github.com/sail-sg/understand-r1-zero",
        licence: "MIT",
        parts: &[Part {
            language: None,
            files: &["math500.jsonl", "test.jsonl", "test.parquet"],
            before: "",
            after: BOXED,
        }],
        columns: &[("problem", "answer")],
        timeqa: None,
        labels: &[("subject", "subject"), ("level", "level"), ("difficulty", "level")],
        judge: Judge::Verifier(Verifier::Math),
        tokens_max: 2048,
    },
    Benchmark {
        name: "mgsm",
        folder: "mgsm",
        title: "MGSM: 250 problems of GSM8K in 11 languages (Shi et al. 2022, arXiv:2210.03057)",
        source: "https://github.com/google-research/url-nlp, mgsm/mgsm_LANGUAGE.tsv",
        licence: "CC-BY-4.0",
        parts: &[
            language("bn", &["mgsm_bn.tsv"], "প্রশ্ন: ", "\nধাপে ধাপে উত্তর:"),
            language("de", &["mgsm_de.tsv"], "Frage: ", "\nSchritt-für-Schritt-Antwort:"),
            language("en", &["mgsm_en.tsv"], "Question: ", "\nStep-by-Step Answer:"),
            language("es", &["mgsm_es.tsv"], "Pregunta: ", "\nRespuesta paso a paso:"),
            language("fr", &["mgsm_fr.tsv"], "Question : ", "\nRéponse étape par étape :"),
            language("ja", &["mgsm_ja.tsv"], "問題：", "\nステップごとの答え："),
            language("ru", &["mgsm_ru.tsv"], "Задача: ", "\nПошаговое решение:"),
            language("sw", &["mgsm_sw.tsv"], "Swali: ", "\nJibu la Hatua kwa Hatua:"),
            language("te", &["mgsm_te.tsv"], "ప్రశ్న: ", "\nదశలవారీగా సమాధానం:"),
            language("th", &["mgsm_th.tsv"], "โจทย์: ", "\nคำตอบทีละขั้นตอน:"),
            language("zh", &["mgsm_zh.tsv"], "问题：", "\n逐步解答："),
        ],
        columns: &[("1", "2"), ("question", "answer_number"), ("question", "answer")],
        timeqa: None,
        labels: &[],
        judge: Judge::Verifier(Verifier::Number),
        tokens_max: 1024,
    },
    Benchmark {
        name: "humaneval",
        folder: "humaneval",
        title: "HumanEval: 164 functions by their docstring, judged by running them (Chen et al. 2021, \
                arXiv:2107.03374)",
        source: "https://github.com/openai/human-eval, data/HumanEval.jsonl.gz",
        licence: "MIT",
        parts: &[Part {
            language: None,
            files: &["HumanEval.jsonl.gz", "HumanEval.jsonl", "test.jsonl", "test.parquet"],
            before: "Complete this Python function. Answer with the whole function in one block of code.\n\n```python\n",
            after: "```",
        }],
        columns: &[("prompt", "canonical_solution")],
        timeqa: None,
        labels: &[],
        judge: Judge::Code(Tests {
            tests: "test",
            setup: None,
            entry_point: Some("entry_point"),
            begin: Some("prompt"),
            shown: None,
            within: None,
        }),
        tokens_max: 1024,
    },
    Benchmark {
        name: "mbpp",
        folder: "mbpp",
        title: "MBPP, test: 500 basic programs, judged by running them (Austin et al. 2021, arXiv:2108.07732)",
        source: "https://github.com/google-research/google-research, mbpp/mbpp.jsonl",
        licence: "CC-BY-4.0",
        parts: &[Part {
            language: None,
            files: &["mbpp.jsonl", "test.jsonl", "test.parquet"],
            before: "You are an expert Python programmer, and here is your task: ",
            after: "\n\nAnswer with the whole program in one block of code.",
        }],
        columns: &[("text", "code"), ("prompt", "code")],
        timeqa: None,
        labels: &[],
        judge: Judge::Code(Tests {
            tests: "test_list",
            setup: Some("test_setup_code"),
            entry_point: None,
            begin: None,
            shown: Some("Your code should pass these tests:"),
            within: Some(("task_id", 11, 510)),
        }),
        tokens_max: 1024,
    },
    timeqa(
        "timeqa",
        "TimeQA: 989 human-written questions with a time, some without answer, over whole pages (Chen et al. 2021, \
         arXiv:2108.06314)",
        Input::Context,
    ),
    timeqa("timeqa-filtered", "TimeQA, over the sentences of the time that is asked about", Input::Filtered),
    timeqa(
        "timeqa-quadruples",
        "TimeQA, over quadruples (head, relation, tail, time) that plain rules find",
        Input::Quadruples,
    ),
];

impl Benchmark {
    /// The languages; empty if there is only one.
    pub fn languages(&self) -> Vec<&'static str> {
        self.parts.iter().filter_map(|part| part.language).collect()
    }

    /// What judges, as the environment `rows` has it.
    pub fn verifier(&self) -> VerifierConfig {
        match &self.judge {
            Judge::Verifier(verifier) => VerifierConfig::BuiltIn(*verifier),
            Judge::Code(Tests { tests, setup, entry_point, begin, .. }) => {
                let named = |column: &Option<&str>| column.map(str::to_owned);
                VerifierConfig::Code(Coded {
                    code: CodeConfig {
                        tests: Some((*tests).to_owned()),
                        setup: named(setup),
                        entry_point: named(entry_point),
                        begin: named(begin),
                        ..CodeConfig::default()
                    },
                })
            }
        }
    }

    /// Its name.
    pub fn verifier_name(&self) -> &'static str {
        match &self.judge {
            Judge::Verifier(verifier) => verifier.name(),
            Judge::Code(_) => "code",
        }
    }
}

impl Part {
    /// The user message for `question`.
    pub fn prompt(&self, question: &str) -> String {
        format!("{}{question}{}", self.before, self.after)
    }
}

/// The benchmark called `name`.
///
/// # Errors
/// If there is none: lists the names, and suggests the nearest.
pub fn find(name: &str) -> Result<&'static Benchmark, RunError> {
    BENCHMARKS.iter().find(|benchmark| benchmark.name == name).ok_or_else(|| {
        let played = PLAYED.iter().map(|benchmark| benchmark.name);
        let names: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name).chain(played).collect();
        RunError::Refused(format!(
            "`{name}` is no file or directory, and no benchmark is called so{}; the benchmarks are: {}",
            did_you_mean(name, &names),
            names.join(", ")
        ))
    })
}

/// ` (did you mean ...?)`, if a name is near.
pub(super) fn did_you_mean(given: &str, names: &[&str]) -> String {
    let nearest = nearest(given, names.iter().copied());
    nearest.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_is_found_by_its_name_and_the_nearest_is_named() {
        for benchmark in BENCHMARKS {
            assert_eq!(find(benchmark.name).unwrap().name, benchmark.name);
        }
        let error = find("math-500").unwrap_err().to_string();
        assert!(
            error.contains("did you mean `math500`?")
                && error.contains("gsm8k, math500, mgsm, humaneval, mbpp, timeqa"),
            "{error}"
        );
        assert!(!find("zzz").unwrap_err().to_string().contains("did you mean"));
    }

    #[test]
    fn prompts_are_worded_as_documented() {
        let gsm8k = find("gsm8k").unwrap().parts[0].prompt("1+1?");
        assert_eq!(gsm8k, "1+1?\n\nPlease reason step by step, and put your final answer within \\boxed{}.");
        let mgsm = find("mgsm").unwrap();
        let german = mgsm.parts.iter().find(|part| part.language == Some("de")).unwrap();
        assert_eq!(german.prompt("1+1?"), "Frage: 1+1?\nSchritt-für-Schritt-Antwort:");
        assert_eq!(mgsm.languages().len(), 11);
    }
}
