//! `burnish fit-thoughts`

use std::path::PathBuf;

use burnish_eval::reflection::Fitting;
use burnish_run::fit_thoughts;
use burnish_rundir::text::shell_path;
use clap::Args;
use serde_json::json;

use super::Done;
use crate::out;

/// What to fit on, and where to write the model.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The directory of a finished evaluation (`burnish eval RECIPE_OR_RUN --out DIR`), or its items.jsonl. Its verdicts must
    /// say what reflection came to.
    #[arg(value_parser = super::path())]
    evaluation: PathBuf,
    /// The file to write, for `first_try = { controller = { path = "FILE" } }` among the controls of thoughts.
    #[arg(value_parser = super::path())]
    output: PathBuf,
    /// Leave out the questions that this evaluation asks (a directory or a file, as before): one that the model is used on.
    #[arg(long, value_name = "EVALUATION", value_parser = super::path())]
    without: Option<PathBuf>,
    /// Weight of the squared weights in the loss.
    #[arg(long, default_value_t = Fitting::default().l2)]
    l2: f64,
    /// Parts of the questions, each of which is held out once.
    #[arg(long, default_value_t = Fitting::default().folds)]
    folds: usize,
    /// Buckets that words are hashed into.
    #[arg(long, default_value_t = Fitting::default().buckets)]
    buckets: u32,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Done {
    let &Arguments { ref evaluation, ref without, l2, folds, buckets, .. } = arguments;
    let fitting = Fitting { buckets, l2, folds };
    let fitted = fit_thoughts::of_evaluation(evaluation, without.as_deref(), fitting)?;
    let model = &fitted.model;
    fit_thoughts::write(model, &arguments.output)?;
    let (held, is_told) = (&model.held_out, model.held_out.log_loss < model.held_out.constant);
    if arguments.json {
        out::json(&serde_json::to_string(&json!({
            "items": fitted.items,
            "excluded": fitted.excluded,
            "answers": fitted.answers,
            "left_out": fitted.left_out,
            "paid": fitted.paid,
            "questions": model.questions,
            "positives": model.positives,
            "held_out": held,
        }))?);
    } else {
        if without.is_some() {
            println!("without  {} items whose question is asked there, too", fitted.excluded);
        }
        println!("items    {} ({} answers, {} left out)", fitted.items, fitted.answers, fitted.left_out);
        println!(
            "pays     {} answers; {:.1} % of {} questions",
            fitted.paid,
            100.0 * model.positives,
            model.questions
        );
        println!(
            "held out log loss {:.4}, of the constant {:.4} ({} folds)",
            held.log_loss, held.constant, held.folds
        );
        let chances: Vec<String> = held.chances.iter().map(|chance| format!("{chance:.3}")).collect();
        println!("chances  {} (lowest, quartiles, highest; held out)", chances.join(" "));
        println!("written  {}", shell_path(&arguments.output));
    }
    if !is_told {
        super::say_notes(&[
            "held-out questions are told no better than by a constant: the words of a question say nothing here \
             about whether reflection pays"
                .to_owned(),
        ]);
    }
    Ok(())
}
