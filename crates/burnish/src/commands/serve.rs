//! `burnish serve`

use burnish_run::serve::{ServeSpec, Serves};
use burnish_run::watch::Stop;
use clap::Args;

use super::Done;
use super::policy::{SamplingArguments, Who};
use crate::signals;

/// Who is served where.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    who: Who,
    /// Address and port; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    address: String,
    /// The model's name for clients. [default: that of its directory]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The environment variable that holds a key, which clients then have to send.
    #[arg(long, value_name = "VARIABLE")]
    key_env: Option<String>,
    /// Most answers that are sampled at the same time. Changes no answer.
    #[arg(long, value_name = "N", default_value = "64", value_parser = super::at_least_one)]
    batch: usize,
    #[command(flatten)]
    sampling: SamplingArguments,
}

pub(crate) fn run(arguments: Arguments) -> Done {
    let Arguments { who, address, name, key_env, batch, sampling } = arguments;
    let spec = ServeSpec {
        asked: who.asked(batch, false, false)?,
        name,
        address,
        key: super::key_in(key_env)?,
        options: sampling.options(None),
        seed: sampling.seed.unwrap_or(0),
    };
    let serves = Serves::open(spec)?;
    super::say_notes(serves.notes());
    let stop = Stop::default();
    signals::listen(stop.clone(), signals::Work::Serving)?;
    println!("{} is `{}` at {}", serves.shown(), serves.name(), serves.url());
    println!("where a request does not say: {}", serves.defaults());
    let served = serves.run(&stop);
    println!(
        "{} requests answered, {} refused, {} given up by their clients",
        served.answered, served.refused, served.given_up
    );
    Ok(())
}
