//! A library of skills: what is in it, how it is asked, what it learns from outcomes, and what it forgets.

use std::collections::BTreeSet;

use burnish_core::rng::fold_bytes;
use serde::{Deserialize, Serialize};

/// A skill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skill {
    /// Its number, which no other skill of the library ever had.
    pub id: u64,
    /// What it is for, by which it is found.
    pub description: String,
    /// What to do.
    pub text: String,
    /// How well episodes went that were given it: an average between 0 and 1.
    pub utility: f64,
    /// How many episodes were given it.
    pub uses: u64,
}

/// How a library is used and kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Skills that an episode is given, K.
    pub candidates: usize,
    /// How far one outcome moves the utility of a skill, α.
    pub rate: f64,
    /// The utility of a new skill.
    pub utility: f64,
    /// Weight of what rarely used skills are preferred by in training.
    pub bonus: f64,
    /// Most skills.
    pub capacity: usize,
}

/// Skills by which a policy acts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Library {
    skills: Vec<Skill>,
    /// The number of the next new skill.
    next: u64,
    /// Episodes that were given skills.
    asked: u64,
}

impl Library {
    /// The skills, the oldest first.
    pub fn skills(&self) -> &[Skill] {
        &self.skills
    }

    /// The skill with this number.
    pub fn skill(&self, id: u64) -> Option<&Skill> {
        self.skills.iter().find(|skill| skill.id == id)
    }

    /// The `candidates` skills whose descriptions are most like `query`, the likeliest first; of equal ones, the older. With
    /// `bonus` above 0 skills that were used rarely come sooner: `cosine + bonus * sqrt(ln(1 + asked) / (1 + uses))`.
    pub fn retrieve(&self, query: &str, candidates: usize, bonus: f64) -> Vec<&Skill> {
        let query = embed(query);
        let explored = (1.0 + self.asked as f64).ln();
        let score = |skill: &Skill| {
            let likeness: f64 =
                query.iter().zip(embed(&skill.description)).map(|(one, other)| one * other).sum();
            likeness + bonus * (explored / (1.0 + skill.uses as f64)).sqrt()
        };
        let mut scored: Vec<(f64, &Skill)> = self.skills.iter().map(|skill| (score(skill), skill)).collect();
        scored.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.id.cmp(&other.1.id)));
        scored.into_iter().take(candidates).map(|(_, skill)| skill).collect()
    }

    /// Moves the utility of every skill that an episode was given towards its outcome: `U <- (1 - rate) U + rate r`.
    pub fn learn(&mut self, given: &[u64], succeeded: bool, rate: f64) {
        self.asked += u64::from(!given.is_empty());
        for skill in self.skills.iter_mut().filter(|skill| given.contains(&skill.id)) {
            let outcome = f64::from(u8::from(succeeded));
            skill.utility = (1.0 - rate) * skill.utility + rate * outcome;
            skill.uses += 1;
        }
    }

    /// Adds a skill, unless it is there already. A library that is full forgets the skill with the least
    /// `utility * ln(1 + uses)`, of equal ones the older. Returns whether it was added.
    pub fn add(&mut self, description: &str, text: &str, utility: f64, capacity: usize) -> bool {
        let is_known = |skill: &Skill| skill.description == description && skill.text == text;
        if capacity == 0 || self.skills.iter().any(is_known) {
            return false;
        }
        let (description, text) = (description.to_owned(), text.to_owned());
        while self.skills.len() >= capacity {
            let worth = |skill: &Skill| skill.utility * (1.0 + skill.uses as f64).ln();
            let least = (0..self.skills.len())
                .min_by(|one, other| worth(&self.skills[*one]).total_cmp(&worth(&self.skills[*other])));
            let Some(least) = least else { break };
            self.skills.remove(least);
        }
        self.skills.push(Skill { id: self.next, description, text, utility, uses: 0 });
        self.next += 1;
        true
    }

    /// Number of different texts.
    pub fn texts(&self) -> usize {
        self.skills.iter().map(|skill| skill.text.as_str()).collect::<BTreeSet<_>>().len()
    }
}

/// Numbers of an embedding.
const DIMENSIONS: usize = 256;

/// A text as a unit vector: how often pieces of three letters occur, by a hash of the piece. It is the same for ever.
fn embed(text: &str) -> [f64; DIMENSIONS] {
    let mut vector = [0.0; DIMENSIONS];
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let letters: Vec<char> = format!(" {} ", words.join(" ")).chars().collect();
    for piece in letters.windows(3) {
        let piece: String = piece.iter().collect();
        let at = fold_bytes(0, piece.as_bytes()) % DIMENSIONS as u64;
        vector[at as usize] += 1.0;
    }
    let norm = vector.iter().map(|value| value * value).sum::<f64>().sqrt();
    if norm > 0.0 {
        vector.iter_mut().for_each(|value| *value /= norm);
    }
    vector
}

/// The normalised discounted cumulative gain of an order of skills with these utilities, with the utilities as relevance:
/// `sum U_order(i) / log2(i + 2)` over that of the best order. `None` if all utilities are equal, where every order is as good.
pub fn ndcg(order: &[usize], utilities: &[f64]) -> Option<f64> {
    let first = utilities.first()?;
    if utilities.iter().all(|other| other == first) {
        return None;
    }
    let gain = |values: &mut dyn Iterator<Item = f64>| -> f64 {
        values.enumerate().map(|(at, value)| value / (at as f64 + 2.0).log2()).sum()
    };
    let mut best = utilities.to_vec();
    best.sort_by(|one, other| other.total_cmp(one));
    let own = gain(&mut order.iter().filter_map(|at| utilities.get(*at).copied()));
    Some(own / gain(&mut best.into_iter()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(rows: &[(&str, &str)]) -> Library {
        let mut library = Library::default();
        for (description, text) in rows {
            assert!(library.add(description, text, 0.5, 100));
        }
        library
    }

    #[test]
    fn the_likest_description_comes_first() {
        let library =
            of(&[("clean", "wash it"), ("heat", "warm it"), ("cool", "chill it"), ("clean cup", "wash")]);
        let found = |query: &str, count: usize| -> Vec<u64> {
            library.retrieve(query, count, 0.0).iter().map(|skill| skill.id).collect()
        };
        assert_eq!(found("heat", 1), [1]);
        assert_eq!(found("clean", 2), [0, 3]);
        assert_eq!(found("", 2), [0, 1]);
        assert_eq!(found("cool", 9).len(), 4);
    }

    #[test]
    fn rare_skills_come_sooner_in_training() {
        let mut library = of(&[("clean", "a"), ("clean it", "b")]);
        (0..50).for_each(|_| library.learn(&[0], true, 0.1));
        let first = |bonus: f64| library.retrieve("clean", 1, bonus)[0].id;
        assert_eq!((first(0.0), first(1.0)), (0, 1));
    }

    #[test]
    fn what_is_there_is_not_added_again_and_a_full_library_forgets_the_least() {
        let mut library = Library::default();
        assert!(
            !library.add("a", "b", 0.5, 0) && library.add("a", "1", 0.5, 2) && library.add("b", "2", 0.5, 2)
        );
        assert!(!library.add("a", "1", 0.5, 2));
        (0..5).for_each(|_| library.learn(&[1], true, 0.05));
        assert!(library.add("c", "3", 0.5, 2));
        let ids: Vec<u64> = library.skills().iter().map(|skill| skill.id).collect();
        assert_eq!(ids, [1, 2]);
        // One that is used and fails is worth less than one that is used and works.
        (0..5).for_each(|_| library.learn(&[2], false, 0.5));
        assert!(library.add("d", "4", 0.5, 2));
        assert!(library.skill(1).is_some() && library.skill(2).is_none() && library.texts() == 2);
    }

    #[test]
    fn ndcg_by_hand() {
        let utilities = [0.2, 1.0, 0.5];
        let best = 1.0 + 0.5 / 3f64.log2() + 0.2 / 2.0;
        assert_eq!(ndcg(&[1, 2, 0], &utilities), Some(1.0));
        let own = 0.2 + 1.0 / 3f64.log2() + 0.5 / 2.0;
        assert!((ndcg(&[0, 1, 2], &utilities).unwrap() - own / best).abs() < 1e-12);
        assert_eq!((ndcg(&[0, 1], &[0.5, 0.5]), ndcg(&[], &[])), (None, None));
    }

    proptest! {
        /// Utilities are exact averages between 0 and 1, and capacity is never exceeded, whatever comes.
        #[test]
        fn utilities_are_averages_and_capacity_holds(
            events in prop::collection::vec((0_u64..12, any::<bool>(), any::<bool>()), 0..80), capacity in 1_usize..6,
        ) {
            let mut library = Library::default();
            let mut expected: std::collections::BTreeMap<u64, f64> = std::collections::BTreeMap::new();
            for (which, succeeded, adds) in events {
                if adds {
                    library.add(&format!("{which}"), &format!("{which} {succeeded}"), 0.5, capacity);
                    for skill in library.skills() {
                        expected.entry(skill.id).or_insert(0.5);
                    }
                } else {
                    if let Some(own) = library.skill(which).is_some().then(|| expected.get_mut(&which)).flatten() {
                        *own = 0.95 * *own + 0.05 * f64::from(u8::from(succeeded));
                    }
                    library.learn(&[which], succeeded, 0.05);
                }
                prop_assert!(library.skills().len() <= capacity);
                for skill in library.skills() {
                    prop_assert_eq!(skill.utility, expected[&skill.id]);
                    prop_assert!((0.0..=1.0).contains(&skill.utility));
                }
            }
            let text = serde_json::to_string(&library).unwrap();
            prop_assert_eq!(serde_json::from_str::<Library>(&text).unwrap(), library);
        }

        /// What a full library forgets is worth the least. With utilities of quarters, `U ln(1 + uses)` is compared without
        /// rounding, as `(1 + uses)^(4 U)`.
        #[test]
        fn a_full_library_forgets_what_is_worth_the_least(rows in prop::collection::vec((0_u32..=4, 0_u64..30), 2..9)) {
            let skill = |(id, (quarters, uses)): (u64, &(u32, u64))| Skill {
                id,
                description: format!("{id}"),
                text: format!("{id}"),
                utility: f64::from(*quarters) / 4.0,
                uses: *uses,
            };
            let skills = (0..).zip(&rows).map(skill).collect();
            let mut library = Library { skills, next: rows.len() as u64, asked: 0 };
            prop_assert!(library.add("new", "new", 0.5, rows.len()));
            let is_gone = |at: &usize| library.skill(*at as u64).is_none();
            let gone: Vec<usize> = (0..rows.len()).filter(is_gone).collect();
            prop_assert_eq!(gone.len(), 1);
            let worth: Vec<u64> = rows.iter().map(|(quarters, uses)| (1_u64 + uses).pow(*quarters)).collect();
            let (gone, least) = (gone[0], *worth.iter().min().unwrap());
            prop_assert_eq!(worth[gone], least);
            // Of those that are alike in both, and of those that are worth nothing, the oldest.
            prop_assert_eq!(rows.iter().position(|row| *row == rows[gone]), Some(gone));
            prop_assert!(least > 1 || worth.iter().position(|own| *own == 1) == Some(gone));
            // One that is used most and works best goes only where all are worth as much.
            let most = (rows.iter().map(|row| row.0).max().unwrap(), rows.iter().map(|row| row.1).max().unwrap());
            prop_assert!(rows[gone] != most || worth.iter().all(|own| *own == least));
        }

        /// What is used most and works best stays, whatever else is added and used.
        #[test]
        fn what_is_used_most_and_works_best_is_never_forgotten(
            events in prop::collection::vec((1_u64..20, any::<bool>(), any::<bool>()), 0..80), capacity in 2_usize..6,
        ) {
            let mut library = Library::default();
            library.add("best", "best", 0.5, capacity);
            library.learn(&[0], true, 0.05);
            for (which, succeeded, adds) in events {
                if adds {
                    library.add(&format!("{which}"), "another", 0.5, capacity);
                } else {
                    // It is used whenever another one is, and always works.
                    library.learn(&[0], true, 0.05);
                    library.learn(&[which], succeeded, 0.05);
                }
                prop_assert!(library.skill(0).is_some());
            }
        }

        /// No order is better than that by utility.
        #[test]
        fn the_order_by_utility_is_the_best(utilities in prop::collection::vec(0.0..1.0_f64, 1..6), seed in any::<u64>()) {
            let mut order: Vec<usize> = (0..utilities.len()).collect();
            let mut best = order.clone();
            burnish_core::rng::Stream::new(seed).shuffle(&mut order);
            best.sort_by(|one, other| utilities[*other].total_cmp(&utilities[*one]));
            if let (Some(own), Some(most)) = (ndcg(&order, &utilities), ndcg(&best, &utilities)) {
                prop_assert!((most - 1.0).abs() < 1e-12 && (0.0..=1.0 + 1e-12).contains(&own));
            }
        }
    }
}
