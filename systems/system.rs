//! What is known about a published system as a whole: what it is composed of, which of its sources could be read, and how a recipe
//! switches it on. A system that is only a setting has a card and a recipe, but no code.

use burnish_rl::Family;
use serde::Serialize;

/// A published system. All paths are relative to the repository.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct System {
    /// Its id, which is also the name of its folder.
    pub id: &'static str,
    /// Its usual name, and what it does.
    pub title: &'static str,
    /// Title or name of the paper, venue, arXiv id, the authors' code.
    pub paper: &'static str,
    /// Which sources could be read.
    pub evidence: Evidence,
    /// What we had to guess because the evidence does not say it.
    pub reconstructed: &'static [&'static str],
    /// The parts of the catalogue that it is composed of.
    pub parts: &'static [PartRef],
    /// Other keys of a recipe that belong to it.
    pub uses: &'static [&'static str],
    /// Ids of environments that suit it.
    pub environments: &'static [&'static str],
    /// Its own recipe, or another that `set` changes. `None` until there is one.
    pub recipe: Option<&'static str>,
    /// Overrides of `recipe` that switch it on, as `key.sub=value`.
    pub set: &'static [&'static str],
    /// Its study.
    pub study: Option<&'static str>,
    /// Pages with measurements.
    pub results: &'static [&'static str],
    /// What the whole system equals, and under which setting. Each is a test.
    pub reduces_to: &'static [&'static str],
    /// The command that runs it, where that is another one than training by its recipe.
    pub run: Option<&'static str>,
    /// Whether it can be used.
    pub status: Status,
}

/// Names a part of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PartRef {
    /// Its family.
    pub family: Family,
    /// Its id there.
    pub id: &'static str,
}

/// Which sources could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The paper's text, or its authors' code.
    Paper,
    /// Other people's notes, with equations or numbers.
    Notes,
    /// Only the abstract and short notes.
    Abstract,
}

/// Whether a recipe can use a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It can.
    Runs,
    /// It can't yet.
    Planned,
}

impl Evidence {
    /// The wording on pages.
    pub fn said(self) -> &'static str {
        match self {
            Evidence::Paper => "the paper's text or its authors' code was read",
            Evidence::Notes => "detailed notes on the paper were read, not the paper",
            Evidence::Abstract => "the abstract and short notes only",
        }
    }
}

impl Status {
    /// The wording on pages.
    pub fn said(self) -> &'static str {
        match self {
            Status::Runs => "runs",
            Status::Planned => "planned",
        }
    }
}

impl System {
    /// Commands that run it: what it trains with, and what else there is.
    pub fn commands(&self) -> Vec<String> {
        let changes = self.set.iter().map(|change| format!(" '{change}'")).collect::<String>();
        let trains = self.recipe.map(|recipe| format!("burnish train {recipe}{changes}"));
        trains.into_iter().chain(self.run.map(str::to_owned)).collect()
    }

    /// The path of the file with its card.
    pub fn file(&self) -> String {
        format!("systems/{}/mod.rs", self.id)
    }
}
